"""The two images of a fusion: read, compared, and rid of bands and pixels without data."""

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from .. import formats
from ..methods import Method
from ..model import types
from . import gaps
from .grids import Grids
from .remarks import Remarks

# What becomes of pixels without data, by --fill-nodata and --keep-filled.
_FATES = {
    (False, False): "they have no part in the result, where they are marked again",
    (False, True): "they have no part in the result, which keeps what the method puts there",
    (True, False): "filled from their neighbours, and marked again in the result",
    (True, True): "filled from their neighbours, and not marked in the result",
}


@dataclass(frozen=True)
class Pair:
    """The two images, how their grids lie, which of their bands are good, and which pixels have no data.

    `wavelengths`, `fwhm` and `names` are those of all bands of the HSI, also once bad ones are left out.
    """

    hsi: formats.Raster
    msi: formats.Raster
    grids: Grids
    good_hsi: np.ndarray
    good_msi: np.ndarray
    missing_hsi: np.ndarray
    missing_msi: np.ndarray
    wavelengths: np.ndarray | None = None
    fwhm: np.ndarray | None = None
    names: tuple[str, ...] | None = None

    @cached_property
    def missing(self) -> types.Mask:
        """The pixels of the result without data."""
        return gaps.fine_mask(self.missing_hsi, self.missing_msi, self.grids.ratio)

    def leaving_out(self, msi_bands: types.Mask) -> "Pair":
        """The pair with further bands of the MSI marked as bad."""
        good = self.good_msi & ~msi_bands
        return replace(self, good_msi=good, msi=replace(self.msi, bad_bands=~good))

    def without_msi_bands(self, left_out: types.Mask) -> "Pair":
        """The pair, of good bands alone, without some of the MSI's."""
        good = self.good_msi.copy()
        good[np.flatnonzero(good)[left_out]] = False
        msi = gaps.without_bad_bands(replace(self.msi, bad_bands=left_out))
        return replace(self, good_msi=good, msi=msi)

    def without_bad_bands(self) -> "Pair":
        """Both images with their good bands alone."""
        return replace(self, hsi=gaps.without_bad_bands(self.hsi), msi=gaps.without_bad_bands(self.msi))

    def without_gaps(self, method: Method, fill: bool, keep: bool, remarks: Remarks) -> "Pair":
        """Both images with missing pixels filled: for a method to use, if asked to, or else to leave out.

        Whichever it is, what compares the two images needs values everywhere. A method that cannot leave them out
        refuses missing pixels that it is not asked to fill.
        """
        parts = {"hsi": self.missing_hsi, "msi": self.missing_msi}
        counts = {name: gaps.count_sentence(name, mask) for name, mask in parts.items() if mask.any()}
        for name, sentence in counts.items():
            if parts[name].all():
                raise ValueError(f"{sentence}; some data are needed")
        if not counts:
            return self
        if not (fill or method.takes_gaps):
            raise ValueError(
                f"{' and '.join(counts.values())}; fill them with --fill-nodata, which marks them again in the result, "
                f"use a method that leaves them out, which {method.name} cannot, or crop the images"
            )
        for sentence in counts.values():
            remarks.note(f"{sentence}; {_FATES[fill, keep]}")
        images = {name: gaps.filled(getattr(self, name), parts[name]) for name in counts}
        return replace(self, **images)


def band_axis_of(path: types.Path, band_axis: int | None) -> int | None:
    """`band_axis` for a file of a format that does not declare its axes; None for the others."""
    silent = [suffix for name in ("npy", "npz", "mat") for suffix in formats.FORMATS[name]]
    return band_axis if Path(os.fsdecode(path).partition("::")[0]).suffix.lower() in silent else None
