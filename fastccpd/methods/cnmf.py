"""CNMF: both images unmixed by non-negative matrix factorisation, in turn, each with what the other one found.

With pixels as rows, H ≈ A W' and M ≈ B (PM W)', all factors non-negative: W (K, R) are spectra, B (IJ, R) their
abundances at the MSI's pixels, A = P B at the HSI's. Each image has its own multiplicative updates (`_nmf.py`), which
pull the abundances of a pixel to the sum 1 with the weight δ = 2 sqrt(mean M / 0.7455) / K_M³. A phase of updates ends
after a number of them, or when the squared misfit falls by less than a part `tol` of it: then the one before counts.

1. HSI: W by vertex component analysis, A = 1/R; A alone, then W and A in turn.
2. MSI: PM W in place of W, B = A interpolated; B alone, then both in turn (of three bands or fewer B alone).
3. HSI: A = P B; W alone, then A and W in turn (W alone, as before). The image is W of here times B of 2.

Further rounds repeat 2 and 3. There is no common cost that all phases lower.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike
from scipy import linalg

from ..estimation.watch import Stopped, Watch
from ..kernels.maps import along
from ..model.checks import as_count, as_number, set_fields
from ..model.problem import Mixture, Problem
from ..model.result import Status
from ..model.types import Array, Callback
from ._nmf import ByProducts, BySums, stored_spectra
from ._spectral import as_scale, check_dimension, check_weights, half_square, robust_maximum
from ._upsampling import upsampling
from ._vca import vertices
from .method import Compiled, Solution, memory_of_phases, register

# The published number of spectra where the data do not ask for more.
_SPECTRA = 30

# False alarms that the virtual dimensionality allows.
_FALSE_ALARMS = 0.05

# Updates of an MSI of one band, and the bands up to which its spectra are not updated.
_UPDATES_OF_ONE_BAND, _FEW_BANDS = 75, 3


@register("cnmf")
@dataclass(frozen=True, kw_only=True)
class CNMF(Compiled):
    """Coupled non-negative matrix factorisation: unmixing of both images in turn.

    P1, P2 and PM may be any operators without negative weights; negative data count as zero.

    Parameters
    ----------
    rank : int, optional
        The number R of spectra. None is 30, or the number of bands if that is smaller, or the virtual dimensionality of
        the HSI (Harsanyi, Farrand, Chang; false alarms of 5 %) if that is larger; never more than the HSI's pixels.
    max_iter : int
        Updates n of a phase at most: of the abundances alone 3n (HSI) and n (MSI), of both factors n − 1. For an MSI of
        one band no more than 75.
    rounds : int
        Times that the HSI is unmixed with the abundances of the MSI. More than one seldom helps.
    tol : float
        A phase ends when its squared misfit falls by less than this part of it.
    round_tol : float
        A further round counts if it lowers the root mean square misfit of both images by more than this part.
    scale : float, optional
        What the data are divided by, since the pull to sums of one is not free of units; the result is in the units of
        the data. None is the 99.9 % quantile of the MSI (of the HSI, where that is not positive). 1 leaves the data as
        they are.

    Notes
    -----
    The start of the spectra is random: seeds differ by 0.2 dB on Salinas, by 3 dB on the toys of CAVE, where 30 spectra
    are sought in 31 bands. `n_iter` counts the updates of the MSI's abundances; in the trace, the cost is
    ½‖hsi − A W'‖² + ½‖msi − B W_M'‖² of the two factorisations, and in its last entry, as in the result,
    ½‖hsi − degraded‖² + ½‖msi − degraded‖² of the image.

    References
    ----------
    .. [1] Naoto Yokoya, Takehisa Yairi, Akira Iwasaki: Coupled Nonnegative Matrix Factorization Unmixing for
       Hyperspectral and Multispectral Data Fusion. IEEE Transactions on Geoscience and Remote Sensing 50(2), 528-537,
       2012.
    """

    rank: int | None = None
    max_iter: int = 200
    rounds: int = 1
    tol: float = 1e-8
    round_tol: float = 1e-2
    scale: float | None = None

    nonnegative: ClassVar[bool] = True
    has_starts: ClassVar[bool] = True
    uses_kernels: ClassVar[bool] = True

    def __post_init__(self):
        if self.rank is not None:
            set_fields(self, rank=as_count(self.rank, "rank"))
        set_fields(self, max_iter=as_count(self.max_iter, "max_iter"), rounds=as_count(self.rounds, "rounds"))
        set_fields(self, tol=as_number(self.tol, "tol"), round_tol=as_number(self.round_tol, "round_tol"))
        set_fields(self, scale=as_scale(self.scale))

    def check(self, problem: Problem) -> None:
        check_weights(problem.degradation)
        if self.rank is not None:
            check_dimension(self.rank, problem.hsi)

    def solve(
        self, problem: Any, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        watch, status = Watch("", callback, time_limit), Status.FINISHED
        unmixing = Unmixing(problem, self)
        unmixing.begin(self.vertices(unmixing, rng))
        try:
            unmixing.run(watch)
        except Stopped as stopped:
            status = stopped.status
        B = unmixing.abundances()
        cost, image = unmixing.cost(B), unmixing.image(B, problem.dtype)
        if not len(watch.trace):
            watch.trace.append_cost(cost, 0, watch.seconds)
        watch.trace.cost[-1] = cost
        return Solution(status=status, cost=cost, n_iter=len(watch.trace) - 1, trace=watch.trace, image=image)

    def vertices(self, unmixing: "Unmixing", rng: Generator) -> Array:
        """The spectra that W begins with."""
        pixels = unmixing.filled_pixels()
        count = self.rank or min(max(_SPECTRA, virtual_dimensionality(pixels)), *pixels.shape)
        return np.maximum(vertices(pixels, count, threshold="toolbox", runs=1, rng=rng), 0.0)

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        (I, J, K_M), (I_H, J_H, K), itemsize = msi_shape, hsi_shape, np.dtype(dtype).itemsize
        R, hsi, msi = self.rank or min(_SPECTRA, K, I_H * J_H), I_H * J_H * K, I * J * K_M
        abundances, coarse, between = I * J * R, I_H * J_H * R, I * J_H * R
        # B and the one before, the MSI with a band of δ and its model.
        kept = hsi + 3 * msi + 2 * I * J * (stored_spectra(R) + 1) + I * I_H + J * J_H + 4 * coarse
        beginning = 2 * hsi + 2 * K * K
        updates = between + abundances  # which come pixel by pixel, and go so into the image
        narrow = 0 if itemsize == 8 else abundances * itemsize
        return 8 * kept + memory_of_phases(8 * beginning, 8 * updates, narrow) + (1 << 16)


class Unmixing:
    """The phases, in data divided by `scale`. `hsi` and `msi` are the factorisations of the two images."""

    def __init__(self, problem: Problem, options: CNMF):
        self.options, self.PM = options, problem.degradation.PM
        self.P1, self.P2, self.shape = problem.degradation.P1, problem.degradation.P2, problem.sri_shape
        self.coarse, self.up = problem.hsi.shape[:2], upsampling(problem.degradation)
        self.scale = options.scale or robust_maximum(problem.msi, problem.hsi)
        self.H, self.M = (_nonnegative(image, self.scale) for image in (problem.hsi, problem.msi))
        flat = (None if v is None else v.reshape(-1, v.shape[2]) for v in (problem.hsi_valid, problem.msi_valid))
        self.H_valid, self.M_valid = flat
        K_M = self.M.shape[1]
        self.delta = 2.0 * np.sqrt(self.M.mean(where=True if self.M_valid is None else self.M_valid) / 0.7455) / K_M**3
        self.spectra_too = K_M > _FEW_BANDS
        self.updates = min(options.max_iter, _UPDATES_OF_ONE_BAND) if K_M == 1 else options.max_iter

    def filled_pixels(self) -> Array:
        """The HSI with the mean of a band in its gaps."""
        if self.H_valid is None:
            return self.H
        count = self.H_valid.sum(axis=0)
        if not count.all():
            raise ValueError(f"hsi_valid: band {count.argmin() + 1} has no data; 'cnmf' needs some of every band")
        return np.where(self.H_valid, self.H, self.H.sum(axis=0) / count)

    def begin(self, W: Array) -> None:
        """From spectra W, and abundances that are all alike."""
        self.hsi, self.msi = self._unmixed(W, np.full((len(self.H), W.shape[1]), 1.0 / W.shape[1])), None

    def _unmixed(self, W, A):
        if self.H_valid is None:
            return BySums(self.H, W, A, self.delta)
        return ByProducts(self.H, W, A, self.delta, self.H_valid)

    def run(self, watch: Watch) -> None:
        """All three phases, and as many rounds as are asked for and worth while."""
        n, hsi = self.updates, self.hsi
        self._phase(hsi, 3 * n, (hsi.update_abundances,), watch.pulse, tested_from=1)
        self._phase(hsi, n - 1, (hsi.update_spectra, hsi.update_abundances), watch.pulse)
        interpolated = self._interpolated(hsi.A)
        watch.pulse()
        self.msi = msi = ByProducts(self.M, self.PM @ hsi.W, interpolated, self.delta, self.M_valid)
        del interpolated
        watch.iteration(self._sum_of_costs(msi), 0)
        self._unmix_msi(msi, watch)
        for left in range(self.options.rounds - 1, -1, -1):
            misfit = self.hsi.cost
            self._unmix_hsi(watch)
            if not left:
                break
            msi = ByProducts(self.M, self.PM @ self.hsi.W, self.msi.A, self.delta, self.M_valid)
            self._unmix_msi(msi, watch)
            if not (self._fell(misfit, self.hsi.cost) and self._fell(self.msi.cost, msi.cost)):
                break
            self.msi = msi

    def _unmix_msi(self, msi, watch):
        """Phase 2; the published one does not test while the abundances are alone."""

        def show():
            watch.iteration(self._sum_of_costs(msi), 0)

        msi.pulse = watch.pulse
        self._phase(msi, self.updates, (msi.update_abundances,), show, tested_from=self.updates)
        both = (msi.update_spectra, msi.update_abundances) if self.spectra_too else (msi.update_abundances,)
        self._phase(msi, self.updates - 1, both, show)

    def _unmix_hsi(self, watch):
        """Phase 3."""
        self.hsi = hsi = self._unmixed(self.hsi.W, self._seen(self.abundances()))
        self._phase(hsi, self.updates, (hsi.update_spectra,), watch.pulse, tested_from=1)
        both = (hsi.update_abundances, hsi.update_spectra) if self.spectra_too else (hsi.update_spectra,)
        self._phase(hsi, self.updates - 1, both, watch.pulse)

    def _phase(self, factors, most, updates, show, tested_from=0):
        """Do `updates` at most `most` times, until from one time to the next the cost has settled."""
        for n in range(most):
            before = factors.W, factors.A, factors.cost if n >= tested_from else None
            for update in updates:
                update()
            show()
            if n >= tested_from and before[2] - factors.cost <= self.options.tol * factors.cost:
                factors.take_back(*before)
                return

    def _fell(self, before, now):
        """Whether the root of a squared misfit fell by more than `round_tol` of it."""
        return np.sqrt(now) < (1.0 - self.options.round_tol) * np.sqrt(before)

    def _sum_of_costs(self, msi):
        return 0.5 * (self.hsi.cost + msi.cost) * self.scale**2

    def _interpolated(self, A):
        B = self.up.image(A.reshape(*self.coarse, -1))
        return np.maximum(B, 0.0, out=B).reshape(-1, A.shape[1])

    def abundances(self) -> Array:
        """B, of the fine pixels: the HSI's, interpolated, where the MSI was not unmixed yet."""
        return self._interpolated(self.hsi.A) if self.msi is None else np.ascontiguousarray(self.msi.A)

    def _seen(self, B):
        """A = P B."""
        B = B.reshape(*self.shape[:2], -1)
        return along(self.P2, along(self.P1, B, 0), 1).reshape(len(self.H), -1)

    def cost(self, B: Array) -> float:
        """½‖hsi − degraded‖² + ½‖msi − degraded‖² of the image, where there are data."""
        pairs = (
            (self._seen(B), self.hsi.W, self.H, self.H_valid),
            (B, self.PM @ self.hsi.W, self.M, self.M_valid),
        )
        total = 0.0
        for A, W, X, valid in pairs:
            model = A @ W.T
            total += half_square(model if valid is None else model * valid, X)
        return total * self.scale**2

    def image(self, B: Array, dtype: DTypeLike) -> Mixture:
        """W B in the caller's unit."""
        maps = B.reshape(*self.shape[:2], -1)
        return Mixture(maps.astype(dtype, copy=False), (self.scale * self.hsi.W).astype(dtype, order="C"))


def _nonnegative(image, scale):
    """The pixels of an image divided by `scale`, as rows; what is negative becomes zero."""
    pixels = np.divide(image, scale, dtype=np.float64).reshape(-1, image.shape[2])
    return np.maximum(pixels, 0.0, out=pixels)


def virtual_dimensionality(pixels: Array) -> int:
    """How many eigenvalues of the bands' second moment lie above those of their covariance by more than chance."""
    from scipy.special import ndtri

    moments = pixels.T @ pixels / len(pixels)
    mean = pixels.mean(axis=0)
    of_moments, of_covariance = (linalg.eigvalsh(m)[::-1] for m in (moments, moments - np.outer(mean, mean)))
    deviation = np.sqrt(2.0 / len(pixels) * (of_moments**2 + of_covariance**2))
    above = of_moments - of_covariance > ndtri(1.0 - _FALSE_ALARMS) * deviation
    return int(np.sum(above & (of_moments > len(mean) * np.finfo(np.float64).eps * of_moments[0])))
