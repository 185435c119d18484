"""What a user waits for: whole fusions, the start of a new process. Run by asv.

Everything runs on synthetic scenes, so that nothing but the package is needed. Kernels are compiled in `setup`.
"""

import subprocess
import sys
import time

import numpy as np

from fastccpd import fuse, fuse_many
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes
from fastccpd.methods import names


def observed(shape, snr=20.0):
    """(scene, hsi, msi, degradation) of a synthetic scene."""
    cube = scenes.synthetic(shape, rng=0).cube
    degradation = preset("stereo", shape)
    rng = np.random.default_rng(0)
    hsi, msi = (add_noise(image, snr, rng) for image in degrade(cube, degradation))
    return cube, hsi, msi, degradation


class Fusions:
    """Every method with its default options, on a scene of the size of Salinas."""

    # Without the blind variant, whose default blocks ask for larger scenes.
    params = (tuple(name for name in names() if name != "b-scott"),)
    param_names = ("method",)
    timeout = 300

    def setup(self, method):
        self.cube, *self.case = observed((80, 84, 204))
        self.result = fuse(*self.case, method=method)

    def time_fuse(self, method):
        fuse(*self.case, method=method)

    def peakmem_fuse(self, method):
        fuse(*self.case, method=method)

    def track_rsnr(self, method):
        return metrics.rsnr(self.result.sri, self.cube)

    track_rsnr.unit = "dB"

    def track_hessp_products(self, method):
        return int(np.sum(self.result.trace.cg_iterations))


class ColdStart:
    """A new process with the kernels in the cache, beside what numba alone takes."""

    fuse_once = (
        "import numpy as np, fastccpd;"
        "P = np.kron(np.eye(6), [[0.5, 0.5]]);"
        "d = fastccpd.Degradation(P, P, np.kron(np.eye(2), np.full((1, 3), 1 / 3)));"
        "scene = np.ones((12, 12, 6));"
        "fastccpd.fuse(scene[::2, ::2], scene[:, :, ::3], d, rank=3)"
    )

    def setup(self):
        self.time_first_fuse()

    def _run(self, script):
        subprocess.run([sys.executable, "-c", script], check=True)

    def time_import_numba(self):
        self._run("import numba")

    def time_import_fastccpd(self):
        self._run("import fastccpd")

    def time_first_fuse(self):
        self._run(self.fuse_once)


class Many:
    """Sixty-four fusions over all cores, beside one after the other."""

    timeout = 900
    count = 64

    def setup(self):
        _, *self.case = observed((80, 84, 204))
        fuse(*self.case)

    def _one_by_one(self, threads):
        started = time.perf_counter()
        for _ in range(self.count):
            fuse(*self.case, threads=threads)
        return time.perf_counter() - started

    def time_fuse_many(self):
        for _ in fuse_many([self.case] * self.count):
            pass

    def track_rate_over_one_by_one(self):
        """How many times as fast, its start included, as one after the other at its best thread count."""
        alone = min(self._one_by_one(threads) for threads in (None, 1))
        started = time.perf_counter()
        self.time_fuse_many()
        return alone / (time.perf_counter() - started)

    track_rate_over_one_by_one.unit = "times"
