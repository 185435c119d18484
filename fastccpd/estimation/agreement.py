"""What two images of one scene disagree about: the noise of the MSI, and model error beyond it.

Blurred and sampled like the HSI, the MSI shows what the HSI shows through the MSI's response, whatever the scene:

    r = P Y_M − Y_H PM' = P n_M − n_H PM',     Var(r) = s σ_M² + PM diag(σ_H²) PM',  s = ‖row of P‖²,             (1)

so texture, which second differences take for noise, is not in it. The HSI's noise is most of r. With P Y_M regressed on
the HSI's signals X (E, in units of its noise) most of that noise is gone, though with it what signals are too weak to
be kept. The product of both has neither the one nor the other: with Q = I − X (X'X)⁻¹ X',

    (Q P Y_M)'(Q r) / (n − p) = s σ_M² + Σ_i (1 − 1/μ_i) (v_i' E' diag(σ_H) PM')²,                              (2)

for the lost signals are not in r. Here v_i and μ_i are the eigenvectors and eigenvalues of X'X/n, of which 1 is noise:
a regression on noisy signals finds less of them, by 1/μ. Being regressed on the signals too, r has no part of what a
response does wrong with them. One that was estimated from the images does so, and no small part of r would be that: at
ratio 6, s is below a hundredth.

An HSI of few bands has few dimensions without signals, and its noise may be found too large: never by more than the
whole of (1), though, and σ_M is granted what such an error takes from it.

All of this follows from the second moments of (P Y_M, Y_H), which are additive; what is gathered beside them says
whether a blur that is not that of the images explains what is left (`misplacement.py`).
"""

from dataclasses import dataclass, field

import numpy as np

from ..model.degradation import Degradation
from ..model.problem import Problem
from ..model.types import Array
from ..threads import by_rows
from .map_data import Blur
from .misplacement import explained, misplaced
from .moments import Moments, eigh_signed, moments_of_pixels
from .sums import COMMON, Sums, added

# With fewer pixels nothing is said, nor with so few more than signals. Bands whose estimates differ by no more than so
# many times what chance makes of them have one σ. So many standard errors are rare. Second moments are rounded by such
# a part of the largest.
_FEWEST, _FREE, _BY_CHANCE, _RARE, _ROUNDING = 30, 10, 2.5, 4.0, 1e-12

# Signals that are missed are taken for noise of the HSI. They are such a part of its variance where there are as many
# signals as dimensions without one.
_MISSED = 0.05

# A cause that explains this part of a disagreement is its cause.
_MOST = 0.5

# Of a signal of less variance than this, in units of its noise, nothing is said.
_FAINT = 2.0


@dataclass(frozen=True, eq=False)
class Agreement(Sums):
    """The second moments of both images at the HSI's pixels.

    With the noise and the signals of the HSI they give that of the MSI: `variance_by_agreement`.

    Attributes
    ----------
    moments : Moments
        Of (P Y_M, Y_H) and what `misplaced` makes of Y_M, at the pixels whose data are complete.
    share : float
        The sum over these pixels of s, the part of the MSI's noise that is left of it there.
    PM : (MSI bands, bands) array
    """

    moments: Moments
    share: float
    PM: np.ndarray = field(metadata=COMMON)


@dataclass(frozen=True, eq=False)
class ByAgreement:
    """σ_M² of each band by (2), and what (1) says of it; None where too little is known.

    Variances are in units of `unit`², for fourth powers of the caller's units may leave the range of a float.

    Attributes
    ----------
    variance : (MSI bands,) array or None
    covariance : (MSI bands, MSI bands) array or None
        Of these estimates.
    doubt : (MSI bands,) array or None
        How much larger they may be because the HSI's noise was taken for larger than it is.
    seen, of_hsi : (MSI bands,) arrays or None
        The mean square of r, and the part of it that is the HSI's noise.
    share : float
        s.
    count : int
        The number of pixels.
    unit : float
    misplaced : (MSI bands,) array
        The variance that a misplaced blur explains.
    """

    variance: np.ndarray | None = None
    covariance: np.ndarray | None = None
    doubt: np.ndarray | None = None
    seen: np.ndarray | None = None
    of_hsi: np.ndarray | None = None
    share: float = 1.0
    count: int = 0
    unit: float = 1.0
    misplaced: np.ndarray | None = None

    def pooled(self) -> tuple[Array | None, Array | None]:
        """σ_M² and its standard error, one number for all bands where they do not differ by more than by chance."""
        if self.variance is None or self.covariance is None:
            return None, None
        deviation = np.sqrt(np.diag(self.covariance))
        mean, error = _mean_of(self.variance, self.covariance)
        bands, squared = len(deviation), self.unit**2
        if np.mean(((self.variance - mean) / deviation) ** 2) > _BY_CHANCE:
            return squared * self.variance, squared * deviation
        return np.full(bands, squared * mean), np.full(bands, squared * error)

    def times(self, sigma: Array, errors: float) -> tuple[float, float]:
        """(least, most): how many times σ² the noise is in the mean of all bands, by so many standard errors."""
        if self.variance is None or self.covariance is None:
            return 0.0, np.inf
        units = (self.unit / sigma) ** 2
        mean, error = _mean_of(units * self.variance, np.outer(units, units) * self.covariance)
        return mean - errors * error, mean + errors * error

    def bounds(self, errors: float) -> tuple[Array, Array] | None:
        """(least, most) of σ_M² of each band by so many standard errors to each side; None where it is not known."""
        variance, deviation = self.pooled()
        if variance is None or deviation is None or self.doubt is None or self.seen is None:
            return None
        most = variance + errors * deviation + self.unit**2 * self.doubt
        # Below zero, the HSI's noise was taken for far too large, and all that the images differ by is the bound.
        return variance - errors * deviation, np.where(most > 0.0, most, self.unit**2 * self.seen / self.share)

    def excess(self) -> float:
        """How many times as much as the images differ by the HSI's noise would explain; at least 1."""
        if self.seen is None or self.of_hsi is None:
            return 1.0
        granted = 1.0 + _RARE * np.sqrt(2.0 / self.count)
        return max(float(self.of_hsi.sum()) / max(granted * float(self.seen.sum()), 1e-300), 1.0)

    def beyond(self, sigma: Array) -> Array:
        """What the images differ by at the HSI's pixels beyond noise of σ, as far as chance does not explain it."""
        if self.seen is None or self.of_hsi is None:
            return np.zeros(len(sigma))
        expected = self.share * (sigma / self.unit) ** 2 + self.of_hsi
        granted = _RARE * np.sqrt(2.0 / self.count) * expected + _ROUNDING
        return self.unit * np.sqrt(np.maximum(self.seen - expected - granted, 0.0))

    def by_misplacement(self, beyond: Array) -> Array:
        """What a misplaced blur makes the images differ by, where it explains most of `beyond`; else zeros.

        Where it does not, the images disagree about more than place, and which of them is right cannot be told.
        """
        if self.misplaced is None or self.misplaced.sum() < _MOST * np.square(beyond / self.unit).sum():
            return np.zeros(len(beyond))
        return self.unit * np.sqrt(self.misplaced) * beyond.any()


def _mean_of(variance, covariance):
    """The mean of all bands, each with the weight that its standard error gives it, and the error of that."""
    weights = 1.0 / np.diag(covariance)
    weights = weights / weights.sum()
    return float(weights @ variance), float(np.sqrt(max(float(weights @ covariance @ weights), 0.0)))


def agreement_of(problem: Problem) -> Agreement | None:
    """The `Agreement` of a problem's two images; None where bands that the MSI sees have no data in the HSI."""
    P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM.toarray()
    if problem.hsi_valid is not None and PM[:, ~problem.hsi_valid.any(axis=(0, 1))].any():
        return None
    chosen = np.ones(problem.hsi.shape[:2], bool)
    if problem.hsi_valid is not None:
        chosen &= problem.hsi_valid[:, :, problem.hsi_valid.any(axis=(0, 1))].all(axis=2)
    if problem.msi_valid is not None:
        missing = ~problem.msi_valid[:, :, problem.msi_valid.any(axis=(0, 1))]
        reach = Blur(Degradation(abs(P1), abs(P2), problem.degradation.PM))
        chosen &= ~reach.coarse(missing.astype(np.float64)).any(axis=2)
    image = np.ascontiguousarray(problem.msi)
    seen = Blur(problem.degradation).coarse(image), problem.hsi, misplaced(problem.degradation, image)
    squares = (np.asarray(P.multiply(P).sum(axis=1)).ravel() for P in (P1, P2))

    def pixels(rows):  # only whole ones: what would fill a gap is no measurement
        return moments_of_pixels(np.concatenate([image[rows][chosen[rows]] for image in seen], axis=1))

    bands = sum(image.shape[2] for image in seen)
    moments = added(by_rows(pixels, len(chosen), problem.hsi.shape[1] * bands), moments_of_pixels(np.zeros((0, bands))))
    return Agreement(moments, float(np.multiply.outer(*squares)[chosen].sum()), PM)


def _second_and_unit(agreement):
    """The mean products of both images' bands, and the root mean square of the MSI's largest band."""
    bands, sizes = len(agreement.PM), sum(agreement.PM.shape)
    second = agreement.moments.second[:sizes, :sizes] / agreement.moments.count
    return second, float(np.sqrt(np.diag(second)[:bands].max()))


def variance_by_agreement(agreement: Agreement | None, sigma: Array, E: Array) -> ByAgreement:
    """σ_M² by (2).

    Parameters
    ----------
    agreement : Agreement or None
    sigma : (bands,) array
        The HSI's noise.
    E : (bands, signals) array
        Its signals, orthonormal, in units of the noise.
    """
    signals = E.shape[1]
    if agreement is None or agreement.moments.count < _FEWEST or agreement.moments.count < _FREE + signals:
        return ByAgreement()
    n, PM = agreement.moments.count, agreement.PM
    bands, free, share = len(PM), n - signals, agreement.share / n
    second, unit = _second_and_unit(agreement)
    if not (unit > 0.0 and share > 0.0):
        return ByAgreement()
    second = second / unit / unit
    response = PM * (sigma / unit)  # of pixels in units of the noise
    whole = np.hstack([np.eye(bands), -PM])
    full, of_msi = whole @ second @ whole.T, second[:bands, :bands]
    to_signals = E.T * (unit / sigma)
    values, turn = eigh_signed(to_signals @ second[bands:, bands:] @ to_signals.T)
    values = np.maximum(values, 1.0)
    along = turn.T @ to_signals @ second[bands:] / np.sqrt(values)[:, None]  # of the images with X, made orthonormal
    in_msi, in_both = along[:, :bands], along @ whole.T
    both, left, part = (
        (of_all - one.T @ other) * (n / free)
        for of_all, one, other in (
            (second[:bands] @ whole.T, in_msi, in_both),
            (full, in_both, in_both),
            (of_msi, in_msi, in_msi),
        )
    )
    kept = np.square(response @ E @ turn) @ (1.0 - 1.0 / values)
    variance = (np.diag(both) - kept) / share
    doubt = _MISSED * signals / max(len(E) - signals, 1) * kept / share
    # Of products of normal variates (Isserlis).
    covariance = (left * part + both * both.T) / (free * share**2)
    # Without noise rounding is all there is, and a mean of squares may come out below zero.
    covariance[np.diag_indices_from(covariance)] = np.maximum(np.diag(covariance), (_ROUNDING / share) ** 2)
    of_hsi = np.square(response).sum(axis=1)
    in_units = agreement.moments.divided(np.full(len(agreement.moments.total), unit))
    by_place = explained(in_units, bands, to_signals.T)[1]
    return ByAgreement(variance, covariance, doubt, np.diag(full), of_hsi, share, n, unit, by_place)


def place_and_response(agreement: Agreement | None, sigma: Array, E: Array) -> tuple[Array, Array]:
    """By how much the blur and the response are off, as far as it is more than chance (`mend.py`).

    Parameters
    ----------
    agreement : Agreement or None
    sigma : (bands,) array
        The HSI's noise.
    E : (bands, signals) array
        Its signals, orthonormal, in units of the noise.

    Returns
    -------
    (3,) array
        c of `misplacement.py`.
    (MSI bands, bands) array
        What PM lacks.
    """
    if agreement is None:
        return np.zeros(3), np.zeros((1, 1))
    n, PM = agreement.moments.count, agreement.PM
    bands, (second, unit) = len(PM), _second_and_unit(agreement)
    second, noise = second / unit / unit, sigma / unit
    to_signals = E.T / noise
    values, turn = eigh_signed(to_signals @ second[bands:, bands:] @ to_signals.T)
    values, turn = values[values > _FAINT], turn[:, values > _FAINT]
    to_signals = turn.T @ to_signals
    in_units = agreement.moments.divided(np.full(len(agreement.moments.total), unit))
    c, _ = explained(in_units, bands, to_signals.T, noise=1.0)
    white = to_signals / np.sqrt(values)[:, None]
    whole = np.hstack([np.eye(bands), -PM])
    seen = white @ second[bands:] @ whole.T
    left = np.diag(whole @ second @ whole.T) - np.square(seen).sum(axis=0)
    seen += white * noise**2 @ PM.T  # without the noise that both have of the HSI
    clear = n * (np.square(seen) / np.maximum(left, 1e-300)).sum(axis=1) > bands + _RARE * np.sqrt(2.0 * bands)
    seen = seen[clear] * (values[clear] / (values[clear] - 1.0))[:, None]
    return c, seen.T @ white[clear]
