"""Pictures of scenes: colour composites, bands, residuals, spectral angles, and all of them for several systems."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..model.shapes import size_name
from .composite import channel_names, channels_of, stretched
from .images import (
    Image,
    Wavelengths,
    angles_between,
    as_bands,
    as_image,
    as_images,
    as_pixels,
    band_name,
    centres_by_name,
    common_bands,
    display_step,
    errors_between,
    shape_of,
    shown,
)
from .page import LABEL_SIZE, PAGE_LENGTH, TICK_SIZE, TITLE_SIZE, figure, heading, label, lines_high, wrap
from .panels import (
    angle_scale,
    band_scale,
    draw_nothing,
    draw_picture,
    finest,
    grid,
    residual_scale,
    say_decimation,
    sides,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def composites(
    images: Mapping[str, Image],
    wavelengths: Wavelengths | None = None,
    *,
    reference: str | None = None,
    pixels: Iterable[tuple[int, int]] | None = None,
    missing: ArrayLike | None = None,
) -> "Figure":
    """Colour pictures side by side.

    Images with as many bands as the reference show its bands, stretched by its percentiles; any other (a multispectral
    image) has its own bands and stretch. What is red, green and blue stands under each picture.

    Parameters
    ----------
    images : dict of name to image
        Cubes or results; their pixels and bands may differ.
    wavelengths : (bands,) array, or dict of name to array, optional
        One array is that of the images with as many bands.
    reference : str, optional
        The name of the reference; None: the first.
    pixels : sequence of (row, column), optional
        Marked by number on the reference.
    missing : (rows, columns) bool array, optional
        On the grid of the finest image; coarser ones show it where it covers the middle of a pixel.

    Returns
    -------
    matplotlib.figure.Figure
    """
    images = as_images(images, "images")
    centres = centres_by_name(wavelengths, images)
    reference = _as_name(reference, images)
    fine = finest(images)
    shared = channels_of(images[reference], centres[reference], missing)
    drawn, axes, inches = grid(images, lines_below=2 + (len({shape_of(image)[2] for image in images.values()}) > 1))
    for one, (name, image) in zip(axes, images.items(), strict=True):
        alike = shape_of(image)[2] == shape_of(images[reference])[2]
        bands, limits = shared if alike else channels_of(image, centres[name], missing)
        picture = stretched(shown(image, bands, display_step(shape_of(image)), missing), limits)
        draw_picture(one, picture, shape_of(image))
        below = [size_name(shape_of(image)), channel_names(bands, centres[name])] + ([] if alike else ["own stretch"])
        label(one, title=name, x="\n".join(wrap(line, inches, LABEL_SIZE) for line in below), inches=inches)
        if name == reference:
            _mark(one, pixels or (), shape_of(image), fine)
    say_decimation(drawn, map(shape_of, images.values()))
    return drawn


def bands(
    images: Mapping[str, Image],
    band: int,
    *,
    wavelengths: ArrayLike | None = None,
    reference: str | None = None,
    missing: ArrayLike | None = None,
    quantity: str = "value",
) -> "Figure":
    """One band of several images side by side, on the scale of the reference.

    Parameters
    ----------
    images : dict of name to image
        All with the same bands; their pixels may differ in size.
    band : int
        Its index, from 0.
    wavelengths : (bands,) array, optional
        In nm, for the label.
    reference : str, optional
        Whose 2nd and 98th percentile bound the scale; None: the first.
    missing : (rows, columns) bool array, optional
        Pixels to draw grey, as those with NaN are.
    quantity : str
        What the values are, for the colour bar.

    Returns
    -------
    matplotlib.figure.Figure
    """
    images = as_images(images, "images")
    reference = _as_name(reference, images)
    count = common_bands(images)
    (band,) = as_bands([band], count)
    pictures = {name: _band(image, band, missing) for name, image in images.items()}
    scale = band_scale(pictures[reference], f"{quantity}, {band_name(band, wavelengths, count)}")
    return _maps(pictures, images, scale)


def residuals(
    estimates: Mapping[str, Image],
    reference: Image,
    band: int | Sequence[int],
    *,
    wavelengths: ArrayLike | None = None,
    missing: ArrayLike | None = None,
    quantity: str = "value",
) -> "Figure":
    """Residuals of one or several bands, estimate − reference, on one symmetric scale.

    Parameters
    ----------
    estimates : dict of name to image
    reference : image
        Of the shape of the estimates.
    band : int or sequence of ints
        From 0. Several: a panel for each estimate and band.
    wavelengths : (bands,) array, optional
        In nm, for the label.
    missing : (rows, columns) bool array, optional
        Pixels to draw grey, as those with NaN are.
    quantity : str
        What the values are, for the colour bar.

    Returns
    -------
    matplotlib.figure.Figure
    """
    estimates, reference = _as_estimates(estimates, reference)
    count = shape_of(reference)[2]
    several = np.ndim(band) > 0
    chosen = as_bands(band if several else [band], count)
    pictures, sources = {}, {}
    for name, image in estimates.items():
        for one in chosen:
            title = f"{name}\n{band_name(one, wavelengths, count)}" if several else name
            pictures[title] = _band(image, one, missing) - _band(reference, one, missing)
            sources[title] = image
    place = "" if several else f", {band_name(chosen[0], wavelengths, count)}"
    return _maps(pictures, sources, residual_scale(pictures.values(), f"estimate − reference\n{quantity}{place}"))


def sam_maps(estimates: Mapping[str, Image], reference: Image, *, missing: ArrayLike | None = None) -> "Figure":
    """The spectral angle to the reference at every pixel, in degrees.

    Parameters
    ----------
    estimates : dict of name to image
    reference : image
        Of the shape of the estimates.
    missing : (rows, columns) bool array, optional
        Pixels to draw grey, as those with NaN are.

    Returns
    -------
    matplotlib.figure.Figure
    """
    estimates, reference = _as_estimates(estimates, reference)
    pictures = {name: angles_between(image, reference, missing) for name, image in estimates.items()}
    return _maps(pictures, estimates, angle_scale(pictures.values(), "spectral angle (degrees)"))


def uncertainty(
    deviation: ArrayLike,
    estimate: Image | None = None,
    reference: Image | None = None,
    *,
    missing: ArrayLike | None = None,
    quantity: str = "units of the image",
) -> "Figure":
    """The expected error of every pixel; beside it, where the truth is known, the error that there is.

    Parameters
    ----------
    deviation : (rows, columns) array
        As `FusionResult.uncertainty`: root mean square over bands.
    estimate, reference : image, optional
        The result and the truth: both, or neither.
    missing : (rows, columns) bool array, optional
        Pixels to draw grey, as those with NaN are.
    quantity : str
        What the values are, for the colour bar.

    Returns
    -------
    matplotlib.figure.Figure
    """
    deviation = np.asarray(deviation, dtype=np.float64)
    if deviation.ndim != 2:
        raise ValueError(f"deviation: got shape {deviation.shape}; (rows, columns) is needed")
    pictures = {"expected error": _masked(deviation, missing)}
    if reference is not None:
        found, reference = _as_estimates({"estimate": estimate}, reference)
        if shape_of(reference)[:2] != deviation.shape:
            got, needed = size_name(deviation.shape), size_name(shape_of(reference)[:2])
            raise ValueError(f"deviation: got {got}, but reference has {needed}; they must agree")
        pictures["actual error"] = errors_between(found["estimate"], reference, missing)
    images = dict.fromkeys(pictures, deviation[:, :, None])
    return _maps(pictures, images, angle_scale(pictures.values(), f"root mean square over bands\n{quantity}"))


def comparison(
    panels: Sequence[Mapping[str, Any]],
    reference_band: ArrayLike | None = None,
    *,
    band_label: str = "band",
    quantity: str = "value",
    title: str | None = None,
    missing: ArrayLike | None = None,
) -> "Figure":
    """Systems side by side, one column each: a band, its residual, the map of spectral angles.

    Parameters
    ----------
    panels : sequence of dict
        `title`, and pictures (rows, columns): `band`, `residual` (estimate − truth) and `sam` (degrees). `note`, if
        there, stands under the column.
    reference_band : (rows, columns) array, optional
        The truth's band: a first column, and the scale of the first row; None takes the first panel's.
    band_label, quantity : str
        Which band, and what its values are.
    title : str, optional
        Above all columns.
    missing : (rows, columns) bool array, optional
        Pixels to draw grey, as those with NaN are.

    Returns
    -------
    matplotlib.figure.Figure
        Three rows of shared scale, one colour bar each.
    """
    if not panels:
        raise ValueError("panels: got none; at least one is needed")
    rows = {kind: [_masked(panel[kind], missing) for panel in panels] for kind in ("band", "residual", "sam")}
    truth = None if reference_band is None else _masked(reference_band, missing)
    scales = (
        band_scale(rows["band"][0] if truth is None else truth, quantity),
        residual_scale(rows["residual"], quantity),
        angle_scale(rows["sam"], "degrees"),
    )
    drawn, axes, high = _columns(panels, before=int(truth is not None))
    names = (band_label, f"{band_label}\nestimate − truth", "spectral angle")
    for row, pictures, scale, name in zip(axes, rows.values(), scales, names, strict=True):
        for one, picture in zip(row[-len(panels) :], pictures, strict=True):
            scale.draw(one, picture)
        label(row[0], y=wrap(name, high, LABEL_SIZE))
        scale.bar(drawn, row, pictures, high)
    if truth is not None:
        scales[0].draw(axes[0, 0], truth)
        label(axes[0, 0], title="truth")
        for one in axes[1:, 0]:
            draw_nothing(one, truth.shape)
    if title:
        heading(drawn, title)
    say_decimation(drawn, [np.shape(panels[0]["band"])])
    return drawn


def _columns(panels, before):
    """A figure of three rows and a column for each panel, named; and how high a picture is."""
    columns = before + len(panels)
    side, high = sides(np.shape(panels[0]["band"]), min(1.7, max(0.89, (PAGE_LENGTH - 1.4) / columns - 0.08)))
    high = max(0.9, high)
    titles = [wrap(str(panel.get("title", "")), side, TITLE_SIZE) for panel in panels]
    notes = [wrap(str(panel.get("note", "")), side, LABEL_SIZE) for panel in panels]
    height = 3.0 * (high + 0.1) + sum(lines_high(texts) for texts in (titles, notes) if any(texts))
    drawn, axes = figure(3, columns, width=1.4 + columns * (side + 0.08), height=height)
    for column, name, note in zip(axes.T[before:], titles, notes, strict=True):
        label(column[0], title=name)
        label(column[2], x=note or None)
    return drawn, axes, high


def _as_name(reference, images):
    reference = next(iter(images)) if reference is None else reference
    if reference not in images:
        raise ValueError(f"reference: got {reference!r}; one of {', '.join(map(repr, images))} is needed")
    return reference


def _as_estimates(estimates, reference):
    estimates, reference = as_images(estimates, "estimates"), as_image(reference, "reference")
    for name, image in estimates.items():
        if shape_of(image) != shape_of(reference):
            got, needed = (size_name(shape_of(one)) for one in (image, reference))
            raise ValueError(f"estimates[{name!r}]: got {got}, but reference has {needed}; they must agree")
    return estimates, reference


def _band(image, band, missing):
    return shown(image, [band], display_step(shape_of(image)), missing)[:, :, 0]


def _masked(picture, missing):
    """A picture given as it is, by every n-th pixel, NaN where missing."""
    picture = np.asarray(picture, dtype=np.float64)
    if picture.ndim != 2:
        raise ValueError(f"panels: got a picture of shape {picture.shape}; (rows, columns) is needed")
    return _band(picture[:, :, None], 0, missing)


def _maps(pictures, images, scale):
    """Pictures of one scale, up to four beside each other, with one colour bar."""
    drawn, axes, inches = grid(images, right=0.95)
    for one, (name, picture) in zip(axes, pictures.items(), strict=True):
        scale.draw(one, picture, shape_of(images[name]))
        label(one, title=name, inches=inches)
    scale.bar(drawn, axes, pictures.values(), drawn.get_figheight() - 0.3)
    say_decimation(drawn, map(shape_of, images.values()))
    return drawn


def _mark(axes, pixels, shape, fine):
    """Numbers at pixels given on the grid `fine`."""
    for number, pixel in enumerate(as_pixels(pixels, fine) if pixels else (), start=1):
        row, column = ((n + 0.5) * own / all_ - 0.5 for n, own, all_ in zip(pixel, shape, fine))
        round_ = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "black", "linewidth": 0.6}
        axes.text(column, row, str(number), fontsize=TICK_SIZE, ha="center", va="center", bbox=round_, clip_on=False)
