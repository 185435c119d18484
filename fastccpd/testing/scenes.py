"""Checks of numbers: small, flat and dark scenes, other units, other orders, clean data."""

import itertools
import warnings
from dataclasses import replace

import numpy as np

from ..api import fuse
from ..imaging import degrade, metrics
from ..model.degradation import Degradation
from .cases import small_case, small_scene
from .running import briefly, checked, distance, require, run, unless_refused

# Scenes in which one extent after the other is 1: (shape, ratios, MSI bands).
_SIZE_ONE = {
    "I = 1": ((1, 48, 16), (1, 4), 4),
    "J = 1": ((32, 1, 16), (4, 1), 4),
    "K = 1": ((32, 48, 1), (4, 4), 1),
    "I_H = 1": ((4, 48, 16), (4, 4), 4),
    "J_H = 1": ((32, 4, 16), (4, 4), 4),
    "K_M = 1": ((32, 48, 16), (4, 4), 1),
    "every extent 1": ((1, 1, 1), (1, 1), 1),
}


@checked
def check_size_one_axes(method):
    """Every extent may be 1: the method fuses, or says in one sentence (ValueError) that it cannot."""
    for what, (shape, ratios, msi_bands) in _SIZE_ONE.items():
        hsi, msi, degradation = small_case(shape, ratios, msi_bands)
        with unless_refused(f"a scene with {what}"):
            sri = run(method, (hsi, msi, degradation)).sri
            require(sri.shape == shape, f"the image has shape {sri.shape} in a scene with {what}")


@checked
def check_rank_one(method):
    """A rank of 1 is a rank."""
    rank = getattr(method, "rank", None)
    if isinstance(rank, int | tuple):
        one = 1 if isinstance(rank, int) else (1,) * len(rank)
        with unless_refused("a rank of 1"):
            run(replace(method, rank=one))


@checked
def check_flat_and_dark_scenes(method):
    """Constant and all-zero images end in a finite image or a sentence, whatever has become singular."""
    hsi, msi, degradation = small_case()
    flat = [np.ones_like(image) for image in (hsi, msi)]
    dark = [np.zeros_like(image) for image in (hsi, msi)]
    cases = {
        "a flat scene": flat,
        "a dark scene": dark,
        "a dark MSI": [hsi, dark[1]],
        "a dark HSI": [dark[0], msi],
        "one lit pixel": [dark[0], np.where(np.arange(msi.size).reshape(msi.shape) == 0, 1.0, 0.0)],
    }
    for what, images in cases.items():
        # A method may warn that it cut off singular directions.
        with warnings.catch_warnings(), unless_refused(what):
            warnings.simplefilter("ignore", UserWarning)
            run(method, (*images, degradation))


@checked
def check_units_do_not_matter(method):
    """The same scene in other units, reflectances or sensor counts, gives the same image in those units."""
    hsi, msi, degradation = small_case(noise=0.05)
    expected = run(method, (hsi, msi, degradation)).sri
    for unit in (2.0**12, 2.0**-12):
        apart = distance(run(method, (hsi * unit, msi * unit, degradation)).sri / unit, expected)
        require(apart < 1e-6, f"data times {unit:g} change the image by {apart:.1e} of it")


@checked
def check_units_far_from_one(method):
    """In units in which squares or cubes of the values leave the dtype's range, it is the same image still."""
    *images, degradation = small_case(noise=0.05)
    for dtype, units, allowed in ((np.float32, (1e-20, 1e20), 1e-2), (np.float64, (1e-145, 1e145), 1e-6)):
        expected = run(method, (*(image.astype(dtype) for image in images), degradation))
        for unit in units:
            result = run(method, (*((image * unit).astype(dtype) for image in images), degradation))
            what = f"{np.dtype(dtype)} data times {unit:g}"
            require(0.0 < result.cost < np.inf, f"{what} have a cost of {result.cost}")
            require(result.status is expected.status, f"{what} end with: {result.status}")
            apart = distance(result.sri / unit, expected.sri)
            require(apart < allowed, f"{what} change the image by {apart:.1e} of it")


@checked
def check_weights_far_from_one(method):
    """Operators of weights far from one, and images that hold NaN, end finite or not converged; no other error."""
    hsi, msi, degradation = small_case(noise=0.05)
    cases = {"an HSI with NaN": (np.where(hsi == hsi.max(), np.nan, hsi), msi, degradation)}
    for operator, weight in itertools.product(("P1", "PM"), (1e-29, 1e29)):
        operators = {name: getattr(degradation, name) for name in ("P1", "P2", "PM")}
        operators[operator] = operators[operator] * weight
        cases[f"{operator} times {weight:g}"] = hsi, msi, Degradation(**operators)
    for what, case in cases.items():
        with warnings.catch_warnings(), unless_refused(what):
            warnings.simplefilter("ignore", UserWarning)
            result = fuse(*case, method=briefly(method), check_finite=False)
            finite = np.isfinite(result.sri).all()
            require(finite or not result.converged, f"{what}: the image is not finite, but the status: {result.status}")
            dark = 0.5 * sum(float(np.square(image).sum()) for image in case[:2])
            require(not result.cost > dark or not result.converged, f"{what}: worse than dark, but: {result.status}")


@checked
def check_a_masked_band_costs_no_more_than_a_removed_one(method):
    """Bands without data leave the others at most 1 dB worse than if they had never been, if the method takes gaps."""
    if not method.takes_gaps:
        return
    sri, (hsi, msi, degradation) = small_scene(), small_case(noise=0.05)
    last = sri.shape[2] - 1
    for bands in ([0], [last // 2], [1, 5, 6, last]):
        kept = ~np.isin(np.arange(sri.shape[2]), bands)
        weights = degradation.PM.toarray()[:, kept]
        removed = Degradation(degradation.P1, degradation.P2, weights / weights.sum(axis=1, keepdims=True))
        alone = fuse(hsi[:, :, kept], msi, removed, method=method).sri
        masked = fuse(hsi, msi, degradation, method=method, hsi_valid=kept).sri
        expected, found = (metrics.rsnr(image, sri[:, :, kept]) for image in (alone, masked[:, :, kept]))
        require(
            found >= expected - 1.0,
            f"the others have {found:.1f} dB where bands {bands} are masked, {expected:.1f} where they are removed",
        )


@checked
def check_order_of_msi_bands_does_not_matter(method):
    """The MSI's bands, and the rows of PM with them, may come in any order."""
    hsi, msi, degradation = small_case(noise=0.05)
    order = np.arange(msi.shape[2])[::-1]
    shuffled = Degradation(degradation.P1, degradation.P2, degradation.PM[order])
    expected = run(method, (hsi, msi, degradation)).sri
    apart = distance(run(method, (hsi, msi[:, :, order], shuffled)).sri, expected)
    require(apart < 1e-6, f"another order of the MSI's bands changes the image by {apart:.1e} of it")


@checked
def check_rows_and_columns_are_alike(method):
    """A transposed scene gives the transposed image, if no random start treats rows and columns differently."""
    if method.has_starts:
        return
    rank = getattr(method, "rank", None)
    turned = method
    if isinstance(rank, tuple) and len(rank) == 3:
        turned = replace(method, rank=(rank[1], rank[0], rank[2]))
    hsi, msi, degradation = small_case(noise=0.05)
    swapped = Degradation(degradation.P2, degradation.P1, degradation.PM)
    transposed = run(turned, (hsi.swapaxes(0, 1), msi.swapaxes(0, 1), swapped)).sri
    apart = distance(transposed.swapaxes(0, 1), run(method, (hsi, msi, degradation)).sri)
    require(apart < 1e-6, f"transposing the scene changes the image by {apart:.1e} of it")


@checked
def check_clean_images_are_explained(method, residual=0.05):
    """The image found from noiseless data, degraded, is those data up to `residual` of their norm."""
    hsi, msi, degradation = small_case()
    sri = fuse(hsi, msi, degradation, method=method).sri
    for name, seen, given in zip(("HSI", "MSI"), degrade(sri, degradation), (hsi, msi)):
        apart = distance(seen, given)
        require(apart <= residual, f"the degraded image misses the {name} by {apart:.1%}; {residual:.1%} are allowed")
