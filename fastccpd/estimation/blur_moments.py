"""What two images say of the blur between them, gathered for one Gaussian: additive over parts of a scene.

For every band m of the MSI the stack X_m = (B, ∂B by the four numbers, other shapes) of `blurred.py`, and the HSI's
pixels H, enter by their second moments about the mean only. A scene may so be gathered part by part, the parts added,
and `gaussian_fit.py` asks for that again for each Gaussian that it tries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..model.types import Array, Mask
from .blurred import DERIVATIVES, OTHER_SHAPES, SEEN, Blurred, Gaussian, complete_pixels, inside
from .noise import of_few_bands, of_many_bands
from .patches import patch_of_any_response
from .place_search import around_middle, whole_shift
from .sums import COMMON, Sums

# Directions of the HSI count as signals above so many times the largest that noise would have.
_STANDS_OUT = 1.05


@dataclass(frozen=True, eq=False)
class BlurMoments(Sums):
    """Sums over pixels of the HSI.

    Attributes
    ----------
    count : int
    seen_total : (MSI bands, kernels) array
        The sum of X_m.
    hsi_total : (bands,) array
    seen : (MSI bands, kernels, kernels) array
        The sum of X_m X_m'.
    crossed : (MSI bands, kernels, bands) array
        The sum of X_m H'.
    hsi : (bands, bands) array
        The sum of H H'.
    shares : (kernels, kernels) array
        The covariance of the MSI's noise, of size 1, in X_m: a matter of the kernels alone.
    correlated : (MSI bands, kernels, kernels) array or None
        The sum of X_m (P P' X_m)', X_m without its mean: how noise that neighbouring pixels share counts.
    """

    count: int
    seen_total: np.ndarray
    hsi_total: np.ndarray
    seen: np.ndarray
    crossed: np.ndarray
    hsi: np.ndarray
    shares: np.ndarray = field(metadata=COMMON)
    correlated: np.ndarray | None = None

    def centred(self) -> tuple[Array, Array, Array]:
        """(seen, crossed, hsi) about the means."""
        n = max(self.count, 1)
        seen = self.seen - np.einsum("mi,mj->mij", self.seen_total, self.seen_total) / n
        crossed = self.crossed - np.einsum("mi,k->mik", self.seen_total, self.hsi_total) / n
        return seen, crossed, self.hsi - np.outer(self.hsi_total, self.hsi_total) / n


# More pixels of the HSI than this say nothing new of a few numbers: of larger images every second row is looked at, …
# On the way to them, and to the noise, fewer do.
_ENOUGH, ROUGHLY = 20_000, 6_000


class BlurEvidence:
    """Two images, their noise, and the pixels at which they are compared.

    Parameters
    ----------
    hsi, msi : (rows, columns, bands) arrays
        Some number where there are no data.
    ratio : int
    hsi_valid, msi_valid : bool array of the image's shape, optional
        True where there are data.
    noise : (hsi, msi), optional
        Standard deviation of each band; None: estimated from each image alone.
    """

    def __init__(
        self,
        hsi: Array,
        msi: Array,
        ratio: int,
        hsi_valid: Mask | None = None,
        msi_valid: Mask | None = None,
        noise: Sequence[Array] | None = None,
    ):
        self.ratio = ratio
        # Bands without any data have no part.
        self.hsi_bands = _with_data(hsi_valid, hsi.shape[2])
        self.msi_bands = _with_data(msi_valid, msi.shape[2])
        self.hsi, self._hsi_valid = hsi, hsi_valid
        self.msi, self._msi_valid = np.ascontiguousarray(msi, dtype=np.float64), msi_valid
        found = self._noise() if noise is None else noise
        self.sigma_hsi, self.sigma_msi = (np.asarray(sigma, dtype=np.float64) for sigma in found)
        self.left_out: Mask = np.zeros(hsi.shape[:2], bool)
        self.choose(self.centred(0.5))

    def _noise(self):
        """σ of both images, by rows in the middle where those have enough pixels of which half or more have data."""
        rows, columns = self.hsi.shape[:2]
        count = min(rows, -(-ROUGHLY // columns))
        first = (rows - count) // 2
        coarse, fine = (slice(first * scale, (first + count) * scale) for scale in (1, self.ratio))
        masks = (self._hsi_valid, coarse), (self._msi_valid, fine)
        parts = [None if valid is None else valid[part] for valid, part in masks]
        if any(part is not None and part.mean() < 0.5 for part in parts):
            return of_many_bands(self.hsi, self._hsi_valid), of_few_bands(self.msi, self._msi_valid)
        return of_many_bands(self.hsi[coarse], parts[0]), of_few_bands(self.msi[fine], parts[1])

    def leave_out_patch(self) -> None:
        """Compare no longer where no response makes of the HSI what the MSI shows, such as under a cloud."""
        from scipy.ndimage import binary_dilation

        n, mean, sigma = len(self.pixels), self.pixels.mean(axis=0), self.sigma_hsi[self.hsi_bands]
        second = self.compared()[1]
        values, vectors = np.linalg.eigh((second - n * np.outer(mean, mean)) / np.outer(sigma, sigma))
        signals = np.flatnonzero(values > _STANDS_OUT * (np.sqrt(n) + np.sqrt(len(values))) ** 2)[-(n // 10) :]
        gaussian = self.centred(0.5)
        seen = self.seen(gaussian)[0][self.chosen][:, self.msi_bands]
        share = Blurred(self.msi.shape[:2], self.ratio, self.places, gaussian).shares(SEEN)[0, 0]
        noise = share * self.sigma_msi[self.msi_bands] ** 2
        size = np.sqrt(np.maximum(np.diag(second) / n, np.finfo(float).tiny))
        to_signals = vectors[:, signals] / np.sqrt(values[signals]) / sigma[:, None]
        shown, brightness = self.pixels @ to_signals - mean @ to_signals, self.pixels @ (1.0 / size) / len(size)
        patch = patch_of_any_response(shown, brightness, seen, self.chosen, noise)
        if patch is None:
            return
        self.left_out[np.ix_(*self.places)] = patch.where
        # With a border, for the blur reaches into a patch; of wide images not every row was looked at.
        border = 2 * max(1, int(np.diff(self.places[0]).max(initial=1))) + 1
        self.left_out = np.asarray(binary_dilation(self.left_out, np.ones((border, border))), dtype=bool)
        self.choose(gaussian)

    @property
    def valid_hsi(self) -> Mask:
        """Where the HSI has data that are compared, (rows, columns, bands)."""
        valid = np.repeat(~self.left_out[:, :, None], self.hsi.shape[2], axis=2)
        return valid if self._hsi_valid is None else valid & self._hsi_valid

    def whole_shift(self) -> tuple[int, int] | None:
        """The whole shift, in MSI pixels, from which to look for the right one; None where none stands out."""
        coarse = around_middle(self.hsi.shape[:2])
        fine = tuple(slice(part.start * self.ratio, part.stop * self.ratio) for part in coarse)
        hsi, left_out = self.hsi[coarse], self.left_out[coarse]
        hsi = np.where(self.hsi_bands, hsi / self.sigma_hsi, 0.0) if self.hsi_bands.any() else hsi
        complete = ~left_out if left_out.any() else None
        missing = None
        if self._hsi_valid is not None:
            complete = ~left_out & np.asarray(self._hsi_valid[coarse][:, :, self.hsi_bands].all(axis=2))
        if self._msi_valid is not None:
            missing = ~np.asarray(self._msi_valid[fine][:, :, self.msi_bands].all(axis=2))
        return whole_shift(hsi, self.msi[fine][:, :, self.msi_bands], self.ratio, complete, missing)

    def centred(self, width: float) -> Gaussian:
        """A Gaussian of `width` HSI pixels about the middle of the blocks of fine pixels."""
        middle = (self.ratio - 1) / 2
        return Gaussian((width * self.ratio, width * self.ratio), (middle, middle))

    def choose(self, gaussian: Gaussian, most: int = _ENOUGH) -> None:
        """Compare at the pixels that this Gaussian sees wholly, of every so many rows where they are too many."""
        coarse, fine, d = self.hsi.shape, self.msi.shape, self.ratio
        rows, columns = (inside(fine[n], d, coarse[n], gaussian.sigma[n], gaussian.phase[n]) for n in (0, 1))
        self.places = rows[:: -(-len(rows) * len(columns) // most)], columns
        self.chosen = complete_pixels(self._hsi_valid, self._msi_valid, d, self.places, gaussian)
        self.chosen &= ~self.left_out[np.ix_(*self.places)]
        pixels = np.asarray(self.hsi[np.ix_(*self.places)][self.chosen], dtype=np.float64)
        self.all_pixels = pixels
        self.pixels = pixels if self.hsi_bands.all() else pixels[:, self.hsi_bands]
        self._compared = None

    def compared(self, response: Array | None = None) -> tuple[Array, Array]:
        """The HSI's pixels, as a response shows them if one is given, and the sum of their products."""
        if self._compared is None or self._compared[0] is not response:
            pixels = self.pixels if response is None else self.pixels @ response.T
            self._compared = response, pixels, pixels.T @ pixels
        return self._compared[1:]

    def seen(self, gaussian: Gaussian, kernels: Sequence[tuple[int, int]] = SEEN) -> Array:
        """(kernels, rows, columns, bands): the MSI under the kernels of a Gaussian, at all places."""
        return Blurred(self.msi.shape[:2], self.ratio, self.places, gaussian).images(self.msi, kernels)

    def gather(self, gaussian: Gaussian, whole: bool = False, response: Array | None = None) -> BlurMoments:
        """The `BlurMoments` of a Gaussian; `whole`: with other shapes, and with what noise has in common.

        With a response, of the HSI's bands as that shows them, which are fewer.
        """
        kernels = SEEN + DERIVATIVES + (OTHER_SHAPES if whole else ())
        blurred = Blurred(self.msi.shape[:2], self.ratio, self.places, gaussian)
        images = blurred.images(self.msi, kernels)[..., self.msi_bands]
        X = images[:, self.chosen].transpose(2, 0, 1)
        pixels, second = self.compared(response)
        correlated = None
        if whole:
            about = np.where(self.chosen[..., None], images - X.mean(axis=2).T[:, None, None], 0.0)
            about = np.moveaxis(about, 0, 2)
            spread = blurred.correlated(about.reshape(*about.shape[:2], -1)).reshape(about.shape)
            about, spread = (part.reshape(-1, *part.shape[2:]).transpose(2, 1, 0) for part in (about, spread))
            correlated = about @ spread.transpose(0, 2, 1)
        return BlurMoments(
            count=len(pixels),
            seen_total=X.sum(axis=2),
            hsi_total=pixels.sum(axis=0),
            seen=X @ X.transpose(0, 2, 1),
            crossed=X @ pixels,
            hsi=second,
            shares=blurred.shares(kernels),
            correlated=correlated,
        )


def _with_data(valid, bands):
    return np.ones(bands, bool) if valid is None else np.asarray(valid.any(axis=(0, 1)))
