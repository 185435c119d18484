"""Checks of what a method does with its inputs."""

import copy
import hashlib
import tempfile
from pathlib import Path

import numpy as np

from .cases import small_case
from .running import checked, distance, require, run, same_bytes


@checked
def check_inputs_are_unmodified(method):
    """Images, operators and options are the same after a run as before."""
    hsi, msi, degradation = small_case(noise=0.1)
    operators = [part for P in _matrices(degradation) for part in (P.data, P.indices, P.indptr)]
    watched = {"hsi": [hsi], "msi": [msi], "degradation": operators}
    before = {name: _digest(arrays) for name, arrays in watched.items()}
    options = copy.deepcopy(method.options())
    run(method, (hsi, msi, degradation))
    for name, arrays in watched.items():
        require(_digest(arrays) == before[name], f"{name} was modified")
    require(method.options() == options, "the method's options were modified")


def _matrices(degradation):
    return degradation.P1, degradation.P2, degradation.PM


def _digest(arrays):
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


@checked
def check_readonly_inputs(method):
    """Read-only images and operators give the same bytes."""
    hsi, msi, degradation = small_case()
    expected = run(method, (hsi, msi, degradation))
    for array in (hsi, msi, *(P.data for P in _matrices(degradation))):
        array.flags.writeable = False
    require(same_bytes(run(method, (hsi, msi, degradation)), expected), "read-only images give another result")


@checked
def check_memmap_inputs(method):
    """Images mapped from files, read-only or copy-on-write, give the same bytes and leave the files alone."""
    hsi, msi, degradation = small_case()
    expected = run(method, (hsi, msi, degradation))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("hsi.npy", "msi.npy")]
        for file, image in zip(files, (hsi, msi)):
            np.save(file, image)
        before = [file.read_bytes() for file in files]
        for mode in ("r", "c"):
            mapped = [np.load(file, mmap_mode=mode) for file in files]
            result = run(method, (*mapped, degradation))
            del mapped  # an open map cannot be deleted on every system
            require(same_bytes(result, expected), f"images mapped with mode {mode!r} give another result")
        require([file.read_bytes() for file in files] == before, "a mapped file was modified")


@checked
def check_float32_is_kept(method):
    """float32 images give a float32 image; without a random start, nearly the one that float64 gives."""
    hsi, msi, degradation = small_case(noise=0.01)
    single = run(method, (hsi.astype(np.float32), msi.astype(np.float32), degradation))
    require(single.sri.dtype == np.float32, f"the image is {single.sri.dtype} for float32 data")
    if not method.has_starts:
        apart = distance(single.sri, run(method, (hsi, msi, degradation)).sri)
        require(apart < 1e-3, f"float32 and float64 differ by {apart:.1e} of the image")
