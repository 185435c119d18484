"""NN-BTD: a non-negative block-term decomposition under the β-divergence, by multiplicative updates.

The scene is Σ_r (A_r B_r') ∘ c_r: R materials, each with a map of rank L_r and a spectrum c_r, a column of C. With
D_β the sum of `_beta_divergence` over all values, A~_r = P1 A_r and B~_r = P2 B_r,

    f = D_β(H | Σ A~_r B~_r' ∘ c_r) + λ D_β(M | Σ A_r B_r' ∘ PM c_r) + α log det(C'C + δI),      A, B, C ≥ 0.

The last term is the volume that the spectra span, as far as it is not below δ: a small one keeps them near the pixels.
With W⁻, W⁺ the weights of an image, an iteration multiplies, entry by entry,

    A_r by ((P1' (W⁻_H · c_r) B~_r + λ (W⁻_M · PM c_r) B_r) / (the same with W⁺))^γ
    B_r alike, with the transposes
    C   by ((W⁻_H' S~ + λ PM' W⁻_M' S) / (the same with W⁺))^γ,         S, S~ the maps as the MSI and the HSI see them,

in turn, with new weights each time. The bands are contracted first, so that no product with a Khatri-Rao matrix is
left: an iteration costs 18 R flops and three roots for each value of the images. For β = 3/2 a kernel makes the weights
and contracts them at once (`kernels/divergence.py`).

The scale that a material's map and its spectrum share is fixed in one of two ways. "simplex": columns of C sum to one,
a constraint which the step of C keeps (`_simplex_step`), so that f never rises. "l2": C is divided by the norms of its
columns after its step, and A and B are left as they are, as in the published code; this changes the model, and f with
it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike

from ..model.checks import as_choice, as_count, as_number, set_fields
from ..model.problem import Factors, Problem
from ..model.types import Callback
from ._beta_divergence import BetaFit, exponent, multiply
from ._gaps import filled
from ._iteration import run_watched
from ._simplex_step import FLOOR, simplex_step
from ._spectral import check_dimension, check_weights, mixture, robust_maximum
from ._vca import vertices
from .method import Compiled, Solution, memory_of_phases, register

NORMALISATIONS = ("simplex", "l2")

# The factorisation of a map ends after so many iterations, or when one changes its squared misfit by less than this.
_START_ITERATIONS = 500
_START_TOLERANCE = 1e-10

# What stands for the negative values of a map that is to be factored.
_START_FLOOR = 1e-25

# A component whose norm is below this part of the largest is absent.
_ABSENT = 0.01


@register("nn-btd-mu")
@dataclass(frozen=True, kw_only=True)
class NNBTDMU(Compiled):
    """Non-negative block-term decomposition with the β-divergence and spectra of least volume (NN-BTD).

    P1, P2 and PM must not have negative weights.

    Parameters
    ----------
    rank : int
        The number R of materials.
    map_rank : int or tuple of int
        The rank L of each material's map; a tuple has one for each.
    beta : float
        Of the divergence: 1.5 suits Gaussian noise, 0.6 Poisson's, 0.25 multiplicative one. 2 is least squares.
    normalise : {"simplex", "l2"}
        What fixes the scale of the spectra: their sum is one, or they are divided by their norm after each step, as in
        the published code, which has no volume term.
    minvol : float
        Weight of the volume term, as a part of the divergence after the warm-up. 0 leaves it out, as "l2" does.
    delta : float
        Directions in which the spectra differ by less than its root do not count for the volume.
    warmup : int
        Iterations without the volume term. The divergence of the start differs by a factor of 100 between noise draws,
        and 20 iterations on it does not, so that `minvol` means the same for all.
    lam : float
        Weight of the MSI's divergence.
    max_iter : int
        Iterations at most, each a step for A, B and C. With noise, fewer regularise.
    tol : float
        Stop when an iteration changes the cost by less than this part of it.

    Notes
    -----
    It starts from vertices of the HSI, with random directions, and from maps that fit the MSI best, each factored from
    a random start. The cost is f, with the volume of no spectra at all, R log δ, as the zero of its last term; it rises
    once, where the warm-up ends. Data below zero count as zero. `effective_rank` counts materials that have at least
    1 % of the norm of the strongest. The factors hold each spectrum as many times as its map has columns.

    The minimum-volume step for other β than 1, the weight by `warmup` and the default of `delta` are not published: the
    paper of the minimum-volume form was not at hand. They were chosen on Salinas and Indian Pines.

    References
    ----------
    .. [1] Clémence Prévost, Valentin Leplat: Nonnegative Block-Term Decomposition with the β-Divergence: Joint Data
       Fusion and Blind Spectral Unmixing. IEEE International Conference on Acoustics, Speech and Signal Processing,
       2023.
    .. [2] Clémence Prévost, Valentin Leplat: the same with spectra of minimum volume. European Signal Processing
       Conference (EUSIPCO), 2024.
    """

    rank: int = 6
    map_rank: int | tuple[int, ...] = 12
    beta: float = 1.5
    normalise: str = "simplex"
    minvol: float = 1.0
    delta: float = 0.01
    warmup: int = 20
    lam: float = 1.0
    max_iter: int = 999
    tol: float = 1e-7

    nonnegative: ClassVar[bool] = True
    has_starts: ClassVar[bool] = True

    def __post_init__(self):
        set_fields(self, rank=as_count(self.rank, "rank"))
        if isinstance(self.map_rank, int) or np.ndim(self.map_rank) == 0:
            set_fields(self, map_rank=as_count(self.map_rank, "map_rank"))
        else:
            each = tuple(as_count(L, f"map_rank[{r}]") for r, L in enumerate(self.map_rank))
            if len(each) != self.rank:
                raise ValueError(f"map_rank: got {len(each)} numbers; one, or as many as the rank of {self.rank}, fit")
            set_fields(self, map_rank=each)
        as_choice(self.normalise, "normalise", NORMALISATIONS)
        set_fields(self, delta=as_number(self.delta, "delta", above=True))
        for name in ("beta", "minvol", "lam", "tol"):
            set_fields(self, **{name: as_number(getattr(self, name), name)})
        for name in ("warmup", "max_iter"):
            set_fields(self, **{name: as_count(getattr(self, name), name, least=0)})

    def check(self, problem: Problem) -> None:
        check_weights(problem.degradation)
        check_dimension(self.rank, problem.hsi)

    def solve(
        self, problem: Problem, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        began = time.perf_counter()
        scale = robust_maximum(problem.msi, problem.hsi)
        C, maps = _spectra_and_maps(problem, scale, self.rank, rng)
        A, B = _random_factors(problem.sri_shape, self, rng)
        iterates = _Iterates(problem, scale, self, A, B, C, maps)
        left = None if time_limit is None else time_limit - (time.perf_counter() - began)
        outcome = run_watched(iterates, max_iter=self.max_iter, callback=callback, time_limit=left, tol=self.tol)
        image = mixture(iterates.maps, iterates.C * scale, problem.dtype)
        present = iterates.norms() >= _ABSENT * iterates.norms().max()
        factors = iterates.as_terms(scale)
        return Solution(**vars(outcome), image=image, factors=factors, effective_rank=int(present.sum()))

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        (I, J, K_M), (I_H, J_H, K) = msi_shape, hsi_shape
        hsi, msi, R, L = I_H * J_H * K, I * J * K_M, self.rank, int(np.max(self.map_rank))
        # The images divided by their scale, then the vertices' copy of the HSI, or the MSI's and the first maps twice.
        beginning = hsi + msi + max(hsi + 2 * K * K, msi + 2 * R * I * J)
        # The images, the maps, what the weights pull them to, twice; factors with their numerators and denominators.
        images = sum(BetaFit.stored_size(shape) + 3 * BetaFit.room_size(shape, R) for shape in (hsi_shape, msi_shape))
        kept = images + R * I * J + 7 * R * L * (I + J) + 3 * BetaFit.block_size(msi_shape) + I * I_H + J * J_H
        return memory_of_phases(8 * beginning, 8 * kept)


class _Iterates:
    """A (R, I, L), B (R, J, L) and C (K, R), in data divided by `scale`; columns beyond a map's own rank are zero.

    With `maps` (R, I, J), which `begin` factors, A and B are where that starts from.
    """

    def __init__(self, problem, scale, options, A, B, C, maps=None):
        self.options, self.unit = options, scale**options.beta
        # Dense: their products are a small part of the work, and of such small matrices a sparse one is slower.
        self.P1, self.P2 = problem.degradation.P1.toarray(), problem.degradation.P2.toarray()
        self.PM = problem.degradation.PM
        self.hsi = BetaFit(problem.hsi, scale, options.beta, problem.hsi_valid)
        self.msi = BetaFit(problem.msi, scale, options.beta, problem.msi_valid)
        map_ranks = np.broadcast_to(options.map_rank, len(A))
        self.present = (np.arange(A.shape[2]) < map_ranks[:, None])[:, None, :].astype(float)
        self.A, self.B = (np.maximum(X, FLOOR) * self.present for X in (A, B))
        self.C = np.maximum(C, FLOOR)
        self.start = maps
        self.n_iter, self.alpha = 0, 0.0
        images, R = (self.hsi, self.msi), len(A)
        self._rooms = [(image.room(R), image.room(R, 2)) for image in images]
        (self.seen, coarse), (self.maps, fine) = (
            [image.within(room, R) for room in rooms] for image, rooms in zip(images, self._rooms, strict=True)
        )
        self.pulls = coarse, fine
        self._look()

    def begin(self, pulse):
        """Factor the maps of the start, if there are any; give columns of C the sum of one, if they are to have it."""
        try:
            for r, X in enumerate(() if self.start is None else self.start):
                L = int(self.present[r].sum())
                rows_as_bands = BetaFit(X.T[None], 1.0, self.options.beta)
                limits = FLOOR, _START_ITERATIONS, _START_TOLERANCE
                rows_as_bands.factor(self.A[r, :, :L], self.B[r, :, :L], *limits, pulse)
        finally:
            self.start = None
            if self.options.normalise == "simplex":
                sums = self.C.sum(axis=0)
                self.C = self.C / sums
                self.A = np.maximum(self.A * sums[:, None, None], FLOOR * self.present)
            self._look()

    def cost(self):
        """f in the caller's units, its last term zero where there is no volume; the weight of that term, if it is due.

        The pulls for the next step of A are made with it.
        """
        options = self.options
        divergence = self._pull()
        if self.n_iter == options.warmup and options.normalise == "simplex":
            self.alpha = options.minvol * divergence / max(abs(self._volume()), FLOOR)
        return (divergence + self.alpha * (self._volume() - self.volume_of_nothing)) * self.unit

    @property
    def volume_of_nothing(self):
        """The least that log det(C'C + δI) can be."""
        return self.C.shape[1] * np.log(self.options.delta)

    def advance(self, pulse=None):
        """A step for A, with the pulls that `cost` has made, for B and for C."""
        options = self.options
        coarse, fine = self.pulls
        self._multiply(self.A, fine @ self.B, self.P1.T @ (coarse @ self.seen_B))
        self._look()
        self._pull(measure=False)
        self._multiply(self.B, fine.swapaxes(-1, -2) @ self.A, self.P2.T @ (coarse.swapaxes(-1, -2) @ self.seen_A))
        self._look()

        (seen, _), (maps, _) = self._rooms
        pull = self.hsi.by_band(self.C, seen)
        of_msi = self.msi.by_band(self.PM @ self.C, maps)
        q, p = (pull_H + options.lam * (self.PM.T @ pull_M) for pull_H, pull_M in zip(pull, of_msi, strict=True))
        # A band that no valid value tells of is left where it is.
        unseen = p == 0.0
        p = np.where(unseen, p.mean(axis=0), p)
        q = np.where(unseen, p, q)
        if options.normalise == "simplex":
            self.C = simplex_step(self.C, q, p, options.beta, self.alpha, options.delta)
        else:
            C = np.maximum(self.C * (q / p) ** exponent(options.beta), FLOOR)
            self.C = C / np.linalg.norm(C, axis=0)
        self.n_iter += 1

    def norms(self):
        """‖A_r B_r'‖ ‖c_r‖ of each material."""
        squares = np.sum((self.A.swapaxes(1, 2) @ self.A) * (self.B.swapaxes(1, 2) @ self.B), axis=(1, 2))
        return np.sqrt(squares) * np.linalg.norm(self.C, axis=0)

    def as_terms(self, scale):
        """The same as a sum of rank-one terms."""
        kept = self.present[:, 0, :] > 0.0
        A, B = (np.ascontiguousarray(X.transpose(1, 0, 2)[:, kept]) for X in (self.A, self.B))
        return Factors(A, B, np.repeat(self.C * scale, kept.sum(axis=1), axis=1))

    def _look(self):
        """The maps, and what the HSI sees of them, of new A or B."""
        self.seen_A, self.seen_B = self.P1 @ self.A, self.P2 @ self.B
        np.matmul(self.A, self.B.swapaxes(1, 2), out=self.maps)
        np.matmul(self.seen_A, self.seen_B.swapaxes(1, 2), out=self.seen)

    def _pull(self, measure=True):
        """What the weights of both images pull the maps to; the divergence."""
        hsi, msi = self._rooms
        of_hsi = self.hsi.by_pixel(self.C, *hsi, measure)
        of_msi = self.msi.by_pixel(self.PM @ self.C, *msi, measure)
        return of_hsi + self.options.lam * of_msi

    def _multiply(self, factor, pull_M, pull_H):
        minus, plus = self.options.lam * pull_M + pull_H
        multiply(factor, minus, plus, self.options.beta, FLOOR * self.present)

    def _volume(self):
        """log det(C'C + δI)."""
        return np.linalg.slogdet(self.C.T @ self.C + self.options.delta * np.eye(self.C.shape[1]))[1]


def _random_factors(sri_shape, options, rng):
    """Where the factorisation of the maps starts from."""
    I, J, _ = sri_shape
    L = int(np.max(options.map_rank))
    A, B = np.empty((options.rank, I, L)), np.empty((options.rank, J, L))
    for factor in chain.from_iterable(zip(A, B, strict=True)):  # material by material
        rng.random(out=factor)
    return A, B


def _spectra_and_maps(problem, scale, rank, rng):
    """Vertices of the HSI, and the maps with which they fit the MSI best; what is missing is set to its band's mean.

    Of both images what is below zero is set to zero first.
    """
    hsi, msi = (
        filled(image, valid) / scale
        for image, valid in ((problem.hsi, problem.hsi_valid), (problem.msi, problem.msi_valid))
    )
    for image in (hsi, msi):
        np.maximum(image, 0.0, out=image)
    C = vertices(hsi.reshape(-1, hsi.shape[2]), rank, threshold="nascimento", runs=1, rng=rng)
    C = np.maximum(C, FLOOR)
    maps = np.linalg.lstsq(problem.degradation.PM @ C, msi.reshape(-1, msi.shape[2]).T, rcond=None)[0]
    maps[maps < 0.0] = _START_FLOOR
    return C, maps.reshape(rank, *msi.shape[:2])
