"""What all tests share."""

import os

import pytest


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real scenes, or a skip that says what is missing."""
    folder = os.environ.get("FASTCCPD_DATA")
    if not folder:
        pytest.skip("FASTCCPD_DATA is not set, so there are no real scenes")
    return folder
