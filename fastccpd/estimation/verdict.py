"""Whether two images agree, by the images and operators alone, whatever method fuses them.

Blurred like the HSI, the MSI should be the HSI seen through the response: r = P Y_M − Y_H PM' is noise of known size
(`agreement.py`). Where it is more, causes are tried one by one, each with what it may change and nothing else:

    scale      P Y_M ≈ a Y_H PM' + b, one a and one b
    shift      the centre of the Gaussian nearest to P        (`gaussian_fit.py`)
    blur       its width
    mask       pixels left out, where a part of the picture is unlike the rest, which agrees
    response   any other that regression on the HSI's pixels finds

The simplest that explains nearly as much as the best is the one named. A pair is said to disagree only where mending
that should change the image by more than 3 dB, as measured on three scenes at 30 dB (docs/blind.md):

    shift      10 dB for an HSI pixel, where it is beyond 3.5 standard errors
    blur       5 dB for a factor of two, likewise
    others     20 log10(1 + b / 0.45) for a misfit, root mean square beyond noise, of b times the image

Of a scene wider than 160 MSI pixels the middle is looked at, so that judging takes a fixed time and next to no memory;
a patch that is unlike is looked for in all of it (`patches.py`), and left out of the middle.

A wrong place or width of the blur is looked for even where r is within what is granted to noise: one pass over the
images tells whether there is any sign of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..blas import one_blas_thread
from ..model.degradation import Degradation
from ..model.problem import Problem
from ..model.types import Array, Mask
from ..model.verdict import Grade, Verdict
from .blur_moments import BlurEvidence
from .blurred import SEEN, Blurred, Gaussian
from .gaussian_fit import fit_gaussian, glance
from .levels import rough_levels
from .middle import comparable, is_wide, middle_along, middle_of, middles
from .noise import FLOOR, noise_alone
from .patches import differences, patch_of
from .place_search import FURTHEST
from .shift import directions, phase_of, width_of

# A pair disagrees where mending should change the image by more than this, in dB.
_WORTH = 3.0

# What an HSI pixel of shift and a factor of two of width cost, in dB, and the misfit that costs 6 dB.
_OF_SHIFT, _OF_WIDTH, _OF_MISFIT = 10.0, 5.0, 0.45

# So many standard errors are rare; so many, at a glance, are worth a closer look.
_RARE, _SIGN = 3.5, 2.0

# Standard errors, of log width and in HSI pixels, beyond which a glance says nothing.
_VAGUE = 0.25

# A shift beyond so many HSI pixels is an accident of the search.
_FURTHEST = FURTHEST + 0.5

# A cause must explain this part of the misfit; a simpler one is preferred that explains so little less.
_EXPLAINS, _NEARLY = 0.6, 0.2

# A scale that leaves more than a patch does by this factor is none.
_FEIGNED = 0.1

# Misfit within so much of the noise's variance, beyond chance, is noise: its estimates are no better.
_GRANTED = 0.5

# Fewer pixels say nothing.
_FEWEST = 25

_ADVICE = {
    "scale": "give both images the same units (--msi-scale, --msi-offset, --hsi-scale, --hsi-offset; --match-values)",
    "shift": "let the shift be measured (--psf auto), or align the images",
    "blur": "let the width be measured (--psf auto), or give it (--psf gaussian,sigma=…)",
    "mask": "mask what only one image shows, such as clouds (--msi-mask, --hsi-mask)",
    "response": "let the response be estimated (--srf auto), or give that of the sensor",
}


def verdict_of(problem: Problem) -> Verdict:
    """The `Verdict` on a problem's two images and operators.

    Parameters
    ----------
    problem : Problem
        The two images and the operators between them.

    Returns
    -------
    Verdict
        Its grade, and where the images disagree the cause and what to try.

    Examples
    --------
    >>> from fastccpd import Problem
    >>> from fastccpd.estimation import verdict_of
    >>> from fastccpd.imaging import add_noise, degrade, preset, scenes
    >>> scene, degradation = scenes.synthetic((64, 60, 40)).cube, preset("stereo", (64, 60, 40))
    >>> hsi, msi = (add_noise(image, 30.0, rng=0) for image in degrade(scene, degradation))
    >>> print(verdict_of(Problem(hsi, msi, degradation)))
    the images agree: they differ by no more than their noise
    >>> verdict_of(Problem(hsi, 1e4 * msi, degradation)).cause
    'scale'
    """
    hsi_valid, msi_valid = problem.hsi_valid, problem.msi_valid
    if not is_wide(problem.degradation):
        return verdict_by_parts(problem)

    def read(coarse, fine):
        masks = None if hsi_valid is None else hsi_valid[coarse], None if msi_valid is None else msi_valid[fine]
        return problem.hsi[coarse], problem.msi[fine], *masks

    def elsewhere(unit):
        chosen = comparable(problem)
        return differences(problem, chosen, unit), chosen

    return verdict_by_parts(middle_of(problem.degradation, read), problem.degradation, elsewhere)


def verdict_by_parts(
    middle: Problem,
    scene: Degradation | None = None,
    elsewhere: Callable[[Array], tuple[Array, Mask]] | None = None,
) -> Verdict:
    """The `Verdict` on a scene that need not be whole in memory.

    Parameters
    ----------
    middle : Problem
        As of `middle_of`; or all of a scene that is not wide.
    scene : Degradation, optional
        Of the whole scene.
    elsewhere : callable(unit) -> (left, chosen), optional
        The `differences` of the whole scene in these units of the MSI's bands, at the chosen pixels of its HSI. None:
        the middle is all that is looked at.
    """
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        chosen = comparable(middle)
        if chosen.sum() < _FEWEST:
            return Verdict(Grade.UNKNOWN, details=f"only {chosen.sum()} pixels of the HSI can be compared")
        pair = _Pair(middle, chosen)
        if not np.isfinite(pair.shown).all() or not np.isfinite(pair.seen).all():
            return Verdict(Grade.UNKNOWN, details="the images hold values that are not finite")
        if not (pair.shown.any() and pair.seen.any(axis=0).all()):
            return Verdict(Grade.UNKNOWN, details="an image shows nothing")
        patch = None
        if scene is not None and elsewhere is not None:
            patch = patch_of(*elsewhere(pair.unit), float(np.mean(pair.noise / pair.unit**2)))
            here = None if patch is None else patch.where[tuple(coarse for coarse, _ in middles(scene))]
            if here is not None and here.any():
                rest = _without(middle, here)
                chosen = comparable(rest)
                pair = _Pair(rest, chosen) if chosen.sum() >= _FEWEST else pair
        try:
            found = pair.judged()
            return found if patch is None or found.disagrees else _with_patch(found, patch)
        except np.linalg.LinAlgError:  # of flat images, in which nothing can be told from anything
            return Verdict(Grade.UNKNOWN, details="the images show too little")


def memory_of_verdict(hsi_shape: Sequence[int], msi_shape: Sequence[int]) -> int:
    """Bytes that `verdict_of` takes: copies of the middle in float64, and matrices of bands."""
    parts = [middle_along(hsi_shape[n], msi_shape[n]) for n in (0, 1)]
    coarse, fine = ([part.stop - part.start for part in which] for which in zip(*parts))
    values = coarse[0] * coarse[1] * hsi_shape[2] + fine[0] * fine[1] * msi_shape[2]
    rows, columns, bands = hsi_shape
    if coarse != [rows, columns]:
        # Of the whole of a wide scene: what is left at each pixel, one band of either, and a mask.
        values += (rows * columns * (5 + bands / 4) + 2 * msi_shape[0] * msi_shape[1]) / 2.2
    return int(8 * (2.2 * values + 10 * bands**2))


def _without(problem, where):
    """The problem without some pixels of its HSI."""
    valid = np.repeat(~where[:, :, None], problem.hsi.shape[2], axis=2)
    valid &= True if problem.hsi_valid is None else problem.hsi_valid
    known = {"hsi_valid": valid, "msi_valid": problem.msi_valid}
    return Problem(problem.hsi, problem.msi, problem.degradation, check_finite=False, **known)


def _with_patch(found, patch):
    """A verdict on the middle, and what a patch anywhere changes of it."""
    beyond = float(np.sqrt(max(patch.before - patch.rest, 0.0)))
    gain = float(20.0 * np.log10(1.0 + beyond / _OF_MISFIT))
    if gain <= _WORTH:
        return found
    known = {"beyond": beyond, "cause": "mask", "explained": 1.0 - patch.rest / patch.before, "gain": gain}
    return Verdict(Grade.DISAGREE, found.misfit, **known, details=_of_patch(patch), advice=_ADVICE["mask"])


def _of_patch(patch):
    return f"{patch.part:.0%} of the picture is unlike in the two images"


@dataclass(frozen=True)
class _Cause:
    """A cause, the misfit that is left without it, and what mending it should gain, where the misfit does not say."""

    name: str
    after: float
    words: str
    gain: float | None = None


class _Pair:
    """The two images at the HSI's pixels: `seen`, the blurred MSI, and `shown`, the HSI through the response."""

    def __init__(self, problem, chosen):
        self.problem, self.chosen = problem, chosen
        P1, P2, self.PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM.toarray()
        self.sigma_hsi, self.sigma_msi = noise_alone(problem)
        bands = range(problem.msi.shape[2])
        self.seen = np.stack([(P1 @ problem.msi[:, :, m] @ P2.T)[self.chosen] for m in bands], axis=1)
        self.shown = np.asarray(problem.hsi[self.chosen] @ self.PM.T, dtype=np.float64)
        squares = (np.asarray(P.multiply(P).sum(axis=1)).ravel() for P in (P1, P2))
        share = float(np.multiply.outer(*squares)[self.chosen].mean())
        self.noise = share * self.sigma_msi**2 + (self.PM**2 @ self.sigma_hsi**2)
        # Rounding of operators and interpolation is no misfit either.
        self.noise = self.noise + (0.1 * FLOOR) ** 2 * np.mean(self.seen**2, axis=0)
        # Bands count by the size of what they show, so that counts and reflectances have one meaning.
        self.unit = np.sqrt(np.maximum(np.mean(self.seen**2, axis=0), np.finfo(float).tiny))

    def energy(self, left: Array) -> float:
        """Of a residual, relative to the image's: bands weigh alike."""
        return float(np.mean((left / self.unit) ** 2))

    def judged(self) -> Verdict:
        left = self.seen - self.shown
        before, noise = self.energy(left), float(np.mean(self.noise / self.unit**2))
        misfit = float(np.sqrt(before / noise))
        is_noise = before <= noise * (1.0 + _GRANTED + 4.0 * np.sqrt(2.0 / len(left)))
        causes = [] if is_noise else [self.by_scale()]
        causes += self.by_gaussian(before, is_noise)
        if not is_noise:
            causes += [self.by_mask(noise), self.by_response()]
            causes = _without_accident(causes)
        # Less than noise is left by chance, or because noise was fitted too.
        causes = [replace(cause, after=max(cause.after, noise)) for cause in causes if cause is not None]
        causes = [cause for cause in causes if np.isfinite(cause.after)]
        if not causes:
            return Verdict(Grade.AGREE, misfit)
        beyond = float(np.sqrt(max(before - noise, 0.0)))
        least = min(cause.after for cause in causes)
        most = max(before - least, np.finfo(float).tiny)
        cause = next(
            cause for cause in causes if before - cause.after >= (1.0 - _NEARLY) * most or cause.after == least
        )
        explained = (before - cause.after) / max(before - min(least, noise), np.finfo(float).tiny)
        if is_noise:
            # The misfit is too small to tell causes by: place and width are beyond chance by themselves, or not.
            cause, explained = max(causes, key=lambda cause: cause.gain or 0.0), 1.0
        mended = float(np.sqrt(max(before - max(cause.after, noise), 0.0)))
        gain = 20.0 * np.log10(1.0 + mended / _OF_MISFIT) if cause.gain is None else cause.gain
        known = {"beyond": beyond, "cause": cause.name, "explained": float(explained), "gain": float(gain)}
        if gain > _WORTH and explained > _EXPLAINS:
            return Verdict(Grade.DISAGREE, misfit, **known, details=cause.words, advice=_ADVICE[cause.name])
        if is_noise:
            return Verdict(Grade.AGREE, misfit)
        return Verdict(Grade.MODEL_ERROR, misfit, **known, details=f"most of it by the {cause.name}")

    def by_scale(self):
        """One gain and one offset, by the pixels that most agree with: a cloud should not decide."""
        x, y = self.shown.ravel(), self.seen.ravel()
        bands = np.tile(self.unit, len(self.shown))
        gain, offset, left = _line(x, y, bands, np.ones(len(x), bool))
        energy = self.energy(self.seen - gain * self.shown - offset)
        # What explains most decides; its numbers are those of most pixels, which a cloud may hide at first.
        rough = rough_levels(self.seen, self.shown)
        if rough is not None:
            near = np.abs(y - rough[0] * x - rough[1]) / bands
            other = _line(x, y, bands, near <= np.median(near))
            gain, offset, left = min((gain, offset, left), other, key=lambda line: float(np.median(line[2])))
        scaled = abs(np.log(abs(gain))) > np.log(1.05) if gain != 0.0 else True
        words = f"the MSI is {gain:.4g} times the HSI" if scaled else "the MSI is the HSI"
        words += f" plus {offset:.4g}".replace("plus -", "minus ")
        return _Cause("scale", energy, words)

    def noise_of(self, gaussian: Gaussian, evidence: BlurEvidence) -> float:
        """What noise alone would leave with another Gaussian."""
        share = Blurred(self.problem.msi.shape[:2], evidence.ratio, evidence.places, gaussian).shares(SEEN)[0, 0]
        return float(np.mean((share * self.sigma_msi**2 + self.PM**2 @ self.sigma_hsi**2) / self.unit**2))

    def by_gaussian(self, before, is_noise):
        """Shift and blur width, each alone, of the Gaussian nearest to the operators."""
        problem, operators = self.problem, (self.problem.degradation.P1, self.problem.degradation.P2)
        ratios = [P.shape[1] / P.shape[0] for P in operators]
        if ratios[0] != ratios[1] or ratios[0] != int(ratios[0]) or ratios[0] < 2:
            return []
        ratio = int(ratios[0])
        known = np.array([*(np.log(width_of(P)) for P in operators), *(phase_of(P, ratio) for P in operators)])
        if not np.isfinite(known).all():
            return []
        noise, noise_left = (self.sigma_hsi, self.sigma_msi), float(np.mean(self.noise / self.unit**2))
        evidence = BlurEvidence(problem.hsi, problem.msi, ratio, problem.hsi_valid, problem.msi_valid, noise)
        if len(evidence.pixels) < _FEWEST:
            return []
        step, errors = glance(evidence, self.PM, known) if is_noise else (np.full(4, np.inf), np.ones(4))
        found = []
        for name, free in (("shift", [2, 3]), ("blur", [0, 1])):
            is_clear = (errors[free] < _VAGUE * (ratio if name == "shift" else 1.0)).all()
            no_sign = not (np.abs(step[free]) > _SIGN * errors[free]).any()
            # What is surely little would not be worth a word.
            if is_clear and (no_sign or _price(name, np.abs(step) + _RARE * errors, ratio) < 0.5 * _WORTH):
                continue
            sought = known.copy()
            sought[free] = np.nan
            evidence.choose(Gaussian.of(known))
            fit = fit_gaussian(evidence, self.PM, True, sought)
            # Compared with the Gaussian as it is, for the operators may be none; beyond noise, which a wider one hides.
            shown = evidence.all_pixels @ self.PM.T
            now, then = (
                self.energy(evidence.seen(gaussian)[0][evidence.chosen] - shown) - self.noise_of(gaussian, evidence)
                for gaussian in (Gaussian.of(known), fit.gaussian)
            )
            if np.abs(fit.gaussian.parameters - known)[2:].max() <= _FURTHEST * ratio:
                left = float(np.clip(then / now, 0.0, 1.0)) if now > 0.0 else 0.0
                after = noise_left + left * max(before - noise_left, 0.0)
                gone = fit.count * len(self.unit) * (now - then) / noise_left
                # Errors of few pixels are only roughly right; what is beyond them must have fallen as much in χ².
                if not is_noise or gone > _RARE**2:
                    found.append(_geometric(name, fit, known, ratio, after))
        return found

    def by_mask(self, noise):
        """Without the pixels that are unlike the rest, if they are a patch and the rest agrees."""
        left = np.mean(((self.seen - self.shown) / self.unit) ** 2, axis=1)
        patch = patch_of(left, self.chosen, noise)
        return None if patch is None else _Cause("mask", patch.rest, _of_patch(patch))

    def by_response(self):
        """Another response, as far as the HSI's signals tell it, gains and offsets too."""
        pixels = np.asarray(self.problem.hsi[self.chosen], dtype=np.float64)
        white = (pixels - pixels.mean(axis=0)) / self.sigma_hsi
        values, vectors = np.linalg.eigh(white.T @ white)
        n = len(white)
        signals = vectors[:, values > 1.05 * (np.sqrt(n) + np.sqrt(len(values))) ** 2][:, -n // 10 :]
        if not signals.shape[1]:
            return None
        U = np.linalg.qr(white @ signals)[0]
        about = self.seen - self.seen.mean(axis=0)
        left = self.energy(about - U @ (U.T @ about)) * n / max(n - U.shape[1] - 1, 1)
        return _Cause("response", left, "the response is not that of the MSI")


def _line(x, y, bands, keep):
    """Gain and offset by the pixels that most agree with, beginning with those to keep; what they leave of each."""
    gain, offset, left = 0.0, 0.0, np.abs(y) / bands
    for _ in range(5):
        design = np.stack([x[keep], np.ones(keep.sum())], axis=1) / bands[keep, None]
        gain, offset = np.linalg.lstsq(design, y[keep] / bands[keep], rcond=None)[0]
        left = np.abs(y - gain * x - offset) / bands
        keep = left <= 3.0 * 1.4826 * np.median(left) + 1e-12
    return gain, offset, left


def _without_accident(causes):
    """Causes without a scale that a cloud in the HSI feigns: one that a patch left out makes much better."""
    by_name = {cause.name: cause for cause in causes if cause is not None}
    scale, mask = by_name.get("scale"), by_name.get("mask")
    feigned = scale is not None and mask is not None and mask.after < _FEIGNED * scale.after
    return [cause for cause in causes if not (feigned and cause is scale)]


def _geometric(name, fit, known, ratio, after):
    """A shift or a width as a cause: what it should cost, if it is beyond chance."""
    changes = fit.gaussian.parameters - known
    errors = np.sqrt(np.maximum(np.diag(fit.covariance), 0.0))
    if name == "shift":
        words = f"the HSI lies {directions(changes[2], changes[3])} of where the blur puts it"
    else:
        (rows, columns), was = fit.gaussian.sigma, np.exp(known[:2])
        words = f"the blur has σ {rows:.2f} by {columns:.2f} MSI pixels rather than {was[0]:.2f} by {was[1]:.2f}"
    return _Cause(name, after, words, _price(name, changes * (np.abs(changes) > _RARE * errors), ratio))


def _price(name, changes, ratio):
    """What changes of the Gaussian's four numbers cost, in dB, as a shift or as a width."""
    if name == "shift":
        return _OF_SHIFT * float(np.linalg.norm(changes[2:] / ratio))
    return _OF_WIDTH * float(np.linalg.norm(changes[:2] / np.log(2.0) / np.sqrt(2.0)))
