"""What all tests share."""

import os
import signal
import threading

import pytest

# A shell without job control has what runs in its background ignore SIGINT, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real scenes, or a skip that says what is missing."""
    return _folder_or_skip()


def pytest_runtest_setup(item):
    """Whatever is marked as needing real scenes is skipped without them, by whatever way it comes to them."""
    if item.get_closest_marker("scenes"):
        _folder_or_skip()


def _folder_or_skip():
    folder = os.environ.get("FASTCCPD_DATA")
    if not folder:
        pytest.skip("FASTCCPD_DATA is not set, so there are no real scenes")
    return folder
