"""The blur between two images from the images alone: `estimate_blur`, each number with its standard error.

How it is found is in `gaussian_fit.py`; a free profile, where a Gaussian does not do, in `profile.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..blas import one_blas_thread
from ..imaging.moving import Move
from ..imaging.psf import gaussian, sampled_rows
from ..model.checks import as_count, as_cube, as_number, as_operator, as_valid, check_values
from ..model.types import Array, Matrix, Operator
from .blur_moments import BlurEvidence
from .gaussian_fit import fit_gaussian
from .profile import free_profile


@dataclass(frozen=True, eq=False)
class BlurEstimate:
    """A separable blur, as two images show it.

    Attributes
    ----------
    ratio : int
    sigma : (rows, columns)
        Standard deviation in MSI pixels.
    shift : (rows, columns)
        How far the HSI's pixels lie, downwards and to the right, of the middle of their blocks of MSI pixels.
    sigma_errors, shift_errors : (rows, columns)
        Standard errors; zeros for what was given.
    shape : (turned, tails of rows, tails of columns)
        What a separable Gaussian has not: about zero where it fits, in units of `shape_errors`.
    shape_errors : (turned, tails of rows, tails of columns)
    chi2 : float
        Of the three together: about 3 where the model fits.
    misfit : float
        The mean square of what blurred MSI and HSI disagree about, over that which their noise explains.
    count : int
        Pixels of the HSI that were compared.
    profile : ((taps, first), (taps, first)) or None
        A free profile for rows and for columns: its taps, and the MSI pixel of the first tap of HSI pixel 0.
    left_out : float
        The part of the picture that was not compared, because it is unlike in the two images, such as a cloud.
    """

    ratio: int
    sigma: tuple[float, float]
    shift: tuple[float, float]
    sigma_errors: tuple[float, float]
    shift_errors: tuple[float, float]
    shape: tuple[float, float, float]
    shape_errors: tuple[float, float, float]
    chi2: float
    misfit: float
    count: int
    profile: tuple | None
    left_out: float

    @property
    def fits(self) -> bool:
        """Whether a separable Gaussian explains the pair: whether the test of other shapes finds none."""
        # Of three degrees of freedom: one pair in a thousand is above it by chance.
        return self.chi2 <= 16.3

    @property
    def phase(self) -> tuple[float, float]:
        """Where the centre of the first HSI pixel lies, in MSI pixels."""
        middle = (self.ratio - 1) / 2
        return middle + self.shift[0], middle + self.shift[1]

    def operators(
        self, shape: Sequence[int], coarse: Sequence[int], boundary: str = "reflect"
    ) -> tuple[Operator, Operator]:
        """P1 and P2 of this blur.

        Parameters
        ----------
        shape, coarse : (rows, columns) of the MSI and of the HSI
        boundary : "periodic", "reflect" or "zero"
            As of `fastccpd.imaging.gaussian`.
        """
        if self.profile is None:
            return gaussian(shape, self.ratio, sigma=self.sigma, phase=self.phase, boundary=boundary, coarse=coarse)
        P1, P2 = (
            sampled_rows(taps, first, self.ratio, coarse[axis], shape[axis], boundary)
            for axis, (taps, first) in enumerate(self.profile)
        )
        return P1, P2

    def at_hsi(self, image: ArrayLike, place: Sequence[float] = (0.0, 0.0)) -> Array:
        """An image that lies where the MSI does, such as a fused one, moved to where the HSI says it lies.

        A shift between the images is part of the operators, and so a fused image keeps the MSI's place; to compare it
        with what was measured at the HSI's, it has to be moved by the shift. Values are interpolated.

        Parameters
        ----------
        image : (rows, columns, bands) array
        place : (rows, columns)
            The shift that the HSI's own grid counts as none, in MSI pixels: 1.5 of the stereo convention at ratio 4.

        Returns
        -------
        (rows, columns, bands) array
        """
        cube = as_cube(image, "image")
        move = Move(cube.shape, [found - known for found, known in zip(self.shift, place, strict=True)])
        return move.image(lambda rows, columns: cube[rows, columns], slice(0, len(cube)), slice(0, cube.shape[1]))

    def __str__(self):
        (rows, columns), (by_rows, by_columns) = self.sigma, self.sigma_errors
        (down, right), (by_down, by_right) = self.shift, self.shift_errors
        what = "a free profile about a Gaussian" if self.profile is not None else "a Gaussian"
        text = (
            f"{what} of σ {_within(rows, by_rows)} by {_within(columns, by_columns)} MSI pixels, its centre "
            f"{_within(down, by_down, '+')} down and {_within(right, by_right, '+')} right of the middle"
        ).replace("-", "−")
        if self.left_out:
            text += f", without {self.left_out:.0%} of the picture, which is unlike in the two images"
        return text if self.fits else f"{text}; {self._other_shape()}"

    def _other_shape(self):
        """Which shape the test of the model finds beside a separable Gaussian, as text."""
        names = ("it is turned against the rows", "its tails along the rows", "its tails along the columns")
        sizes = np.abs(self.shape) / np.maximum(self.shape_errors, np.finfo(float).tiny)
        worst = int(np.argmax(sizes))
        said = names[worst] if worst == 0 else f"{names[worst]} are not those of a Gaussian"
        return f"a separable Gaussian does not fit ({said}; χ² {self.chi2:.0f}, where 3 is usual)"


def estimate_blur(
    hsi: ArrayLike,
    msi: ArrayLike,
    ratio: int,
    PM: Matrix | None = None,
    *,
    sigma: float | Sequence[float] | None = None,
    shift: Sequence[float] | None = None,
    gains: bool = True,
    profile: bool = False,
    hsi_valid: ArrayLike | None = None,
    msi_valid: ArrayLike | None = None,
    noise: Sequence[ArrayLike] | None = None,
) -> BlurEstimate:
    """Width and shift of the blur between two images of one scene, from the images alone.

    Parameters
    ----------
    hsi : (rows, columns, bands) array
        Many bands, coarse pixels.
    msi : (ratio·rows, ratio·columns, MSI bands) array
        Few bands, fine pixels.
    ratio : int
        MSI pixels per HSI pixel, in each direction.
    PM : (MSI bands, bands) matrix, optional
        The spectral response. None: whatever explains the MSI best.
    sigma : float or (rows, columns), optional
        The width in MSI pixels, if it is known.
    shift : (rows, columns), optional
        The shift in MSI pixels, downwards and to the right, if it is known.
    gains : bool
        Whether PM is known up to a gain and an offset for each band only. False: up to an offset.
    profile : bool
        True: beside the Gaussian, a free profile for rows and one for columns.
    hsi_valid, msi_valid : bool array, optional
        True where there are data, as of `fastccpd.fuse`.
    noise : (hsi, msi), optional
        Standard deviation of each band of both, if they are known.

    Returns
    -------
    BlurEstimate

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd import Degradation
    >>> from fastccpd.estimation import estimate_blur
    >>> from fastccpd.imaging import add_noise, degrade, gaussian, landsat, scenes
    >>> scene = scenes.synthetic((96, 80, 40)).cube
    >>> operators = gaussian((96, 80), 4, sigma=(1.6, 2.0), phase=(2.0, 1.2), boundary="reflect", coarse=(24, 20))
    >>> hsi, msi = (add_noise(y, 40.0, rng=0) for y in degrade(scene, Degradation(*operators, landsat(40))))
    >>> found = estimate_blur(hsi, msi, 4, landsat(40))
    >>> bool(np.allclose(found.sigma, (1.6, 2.0), atol=0.1)), bool(np.allclose(found.shift, (0.5, -0.3), atol=0.1))
    (True, True)
    """
    evidence = evidence_of(hsi, msi, ratio, (hsi_valid, msi_valid), noise)
    return blur_of(evidence, PM, known_blur(evidence.ratio, sigma, shift), gains=gains, profile=profile)


# Fewer pixels of the HSI, inside its border, say nothing of a blur.
_FEWEST = 25


def evidence_of(
    hsi: ArrayLike,
    msi: ArrayLike,
    ratio: int,
    valid: tuple[ArrayLike | None, ArrayLike | None],
    noise: Sequence[ArrayLike] | None,
) -> BlurEvidence:
    """The checked `BlurEvidence` of two images."""
    hsi, msi = as_cube(hsi, "hsi"), as_cube(msi, "msi")
    ratio = as_count(ratio, "ratio")
    for axis, name in enumerate(("rows", "columns")):
        if msi.shape[axis] != ratio * hsi.shape[axis]:
            raise ValueError(
                f"msi: {msi.shape[axis]} {name}, but {ratio} times the HSI's {hsi.shape[axis]} are "
                f"{ratio * hsi.shape[axis]}; they must agree"
            )
    masks = as_valid(valid[0], "hsi_valid", hsi.shape), as_valid(valid[1], "msi_valid", msi.shape)
    images = []
    for name, image, mask in zip(("hsi", "msi"), (hsi, msi), masks, strict=True):
        # The blur's tails reach into gaps, which are nearer to the mean than to zero.
        image = image if mask is None else np.where(mask, image, _means(image, mask))
        check_values(image, name)
        images.append(image)
    sigmas = None if noise is None else [np.asarray(sigma, dtype=np.float64) for sigma in noise]
    with one_blas_thread():
        evidence = BlurEvidence(images[0], images[1], ratio, *masks, sigmas)
    if len(evidence.pixels) < _FEWEST:
        raise ValueError(
            f"hsi: {len(evidence.pixels)} of its pixels lie inside and have data in both images; at least {_FEWEST} "
            "are needed to estimate a blur; give it, or images that share more ground"
        )
    with one_blas_thread():
        evidence.leave_out_patch()
    return evidence


def _means(image, valid):
    """The mean of each band where it has data, in the image's dtype; zero where it has none."""
    totals = np.sum(image, axis=(0, 1), dtype=np.float64, where=valid)
    return (totals / np.maximum(valid.sum(axis=(0, 1)), 1)).astype(image.dtype)


def known_blur(ratio: int, sigma: float | Sequence[float] | None, shift: Sequence[float] | None) -> Array:
    """The four parameters of a Gaussian (`gaussian_fit.py`); NaN for those that are not given."""
    known, middle = np.full(4, np.nan), (ratio - 1) / 2
    if sigma is not None:
        widths = np.broadcast_to(np.asarray(sigma, dtype=np.float64), 2)
        known[:2] = np.log([as_number(width, "sigma", above=True) for width in widths])
    if shift is not None:
        known[2:] = middle + np.broadcast_to(np.asarray(shift, dtype=np.float64), 2)
        if not np.isfinite(known[2:]).all() or np.abs(known[2:] - middle).max() > 3 * ratio:
            raise ValueError(f"shift: got {shift!r}; two numbers of MSI pixels, below three HSI pixels, are needed")
    return known


def blur_of(
    evidence: BlurEvidence, PM: Matrix | None, known: Array, *, gains: bool = True, profile: bool = False
) -> BlurEstimate:
    """The `BlurEstimate` of checked evidence; `known` is that of `known_blur`."""
    bands = len(evidence.msi_bands), len(evidence.hsi_bands)
    response = None if PM is None else as_operator(PM, "PM").toarray()
    if response is not None and response.shape != bands:
        raise ValueError(f"PM: got shape {response.shape}; {bands}, MSI bands by HSI bands, is needed")
    with one_blas_thread():
        fit = fit_gaussian(evidence, response, gains, known)
        free = free_profile(evidence, fit.gaussian, response) if profile else None
    errors = np.sqrt(np.maximum(np.diag(fit.covariance), 0.0))
    middle, widths, phases = (evidence.ratio - 1) / 2, fit.gaussian.sigma, fit.gaussian.phase
    return BlurEstimate(
        ratio=evidence.ratio,
        sigma=widths,
        shift=(phases[0] - middle, phases[1] - middle),
        sigma_errors=(float(errors[0] * widths[0]), float(errors[1] * widths[1])),
        shift_errors=(float(errors[2]), float(errors[3])),
        shape=_floats(fit.shape),
        shape_errors=_floats(fit.shape_errors),
        chi2=fit.chi2,
        misfit=float(np.mean(fit.misfit)),
        count=fit.count,
        left_out=float(evidence.left_out.mean()),
        profile=free,
    )


def _within(value, error, sign=""):
    """A number and its standard error, with a third decimal where the second of the error is zero; none if given."""
    if error == 0.0:
        return f"{value:{sign}.2f} (given)"
    digits = 3 if error < 0.005 else 2
    return f"{value:{sign}.{digits}f} ± {error:.{digits}f}"


def _floats(numbers):
    first, second, third = (float(number) for number in numbers)
    return first, second, third
