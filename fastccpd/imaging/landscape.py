"""A landscape that never was: spectra of its materials, and how much of each pixel they cover.

Reflectances have their features where real materials have them (pigments, red edge, leaf water, iron, clay, dry
matter), of slightly random size, and lie in (0, 0.7). The maps show fields with crop rows, a wood, a river, roads and
houses; the cover of a pixel sums to one, edges are about a pixel soft, and one shade, alike in all bands, gives relief
and texture.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def _bump(wavelengths, centre, width):
    return np.exp(-0.5 * ((wavelengths - centre) / width) ** 2)


def _step(values, centre, width):
    return 0.5 + 0.5 * np.tanh(0.5 * (values - centre) / width)


def _absorbed(reflectance, wavelengths, dips):
    """`reflectance` lowered by each of the dips (centre, width, depth)."""
    for centre, width, depth in dips:
        reflectance = reflectance * (1.0 - depth * _bump(wavelengths, centre, width))
    return reflectance


def _leaves(wavelengths, generator, *, plateau, green):
    """Green peak between two pigment bands, red edge, a plateau cut by the absorption of leaf water."""
    edge = generator.uniform(708.0, 722.0)
    water = generator.uniform(0.85, 1.1)  # so that no dip is deeper than 0.92
    visible = 0.025 + green * _bump(wavelengths, 552.0, 32.0) + 0.015 * _bump(wavelengths, 610.0, 45.0)
    infrared = plateau * _step(wavelengths, edge, 13.0) * np.exp(-np.maximum(wavelengths - 1250.0, 0.0) / 1900.0)
    dips = (975, 35, 0.1), (1195, 50, 0.18), (1445, 85, 0.72), (1930, 110, 0.83), (2500, 190, 0.7)
    infrared = _absorbed(infrared, wavelengths, [(centre, width, water * depth) for centre, width, depth in dips])
    return visible * (1.0 - 0.6 * _step(wavelengths, 1300.0, 80.0)) + infrared


def _crop(wavelengths, generator):
    return _leaves(wavelengths, generator, plateau=generator.uniform(0.46, 0.54), green=generator.uniform(0.06, 0.085))


def _wood(wavelengths, generator):
    return _leaves(wavelengths, generator, plateau=generator.uniform(0.28, 0.34), green=generator.uniform(0.022, 0.032))


def _soil(wavelengths, generator):
    """A slow rise, an iron shoulder, and the bands of water and clay."""
    bright = generator.uniform(0.32, 0.42)
    rise = 0.04 + bright * (1.0 - np.exp(-(wavelengths - 360.0) / generator.uniform(480.0, 620.0)))
    dips = (480, 75, 0.28), (880, 80, 0.06), (1415, 35, 0.1), (1915, 50, 0.2), (2205, 28, 0.1)
    return _absorbed(rise, wavelengths, dips)


def _water(wavelengths, generator):
    """Dark, bluish green, and black beyond the red."""
    bright = generator.uniform(0.06, 0.09)
    return 0.004 + bright * np.exp(-0.5 * ((wavelengths - 520.0) / np.where(wavelengths < 520.0, 160.0, 95.0)) ** 2)


def _grain(wavelengths, generator):
    """Straw: no pigment left, the bands of dry matter beyond 1700 nm."""
    bright = generator.uniform(0.42, 0.5)
    rise = 0.06 + bright * _step(wavelengths, generator.uniform(605.0, 640.0), 85.0)
    rise *= np.exp(-np.maximum(wavelengths - 1300.0, 0.0) / 3500.0)
    dips = (670, 25, 0.08), (1450, 60, 0.22), (1730, 30, 0.06), (1935, 70, 0.32), (2105, 60, 0.2), (2310, 45, 0.2)
    return _absorbed(rise, wavelengths, dips)


def _asphalt(wavelengths, generator):
    """Grey, a little brighter towards the infrared, with the hydrocarbon band."""
    grey = generator.uniform(0.14, 0.18) + 0.06 * (1.0 - np.exp(-(wavelengths - 400.0) / 900.0))
    return _absorbed(grey, wavelengths, ((1730, 30, 0.03), (2310, 35, 0.05)))


def _tiles(wavelengths, generator):
    """Fired clay: red by iron oxide, bright in the infrared."""
    rise = 0.06 + generator.uniform(0.3, 0.36) * _step(wavelengths, generator.uniform(575.0, 590.0), 25.0)
    rise += 0.12 * _step(wavelengths, 1150.0, 180.0)
    return _absorbed(rise, wavelengths, ((870, 70, 0.16), (1930, 60, 0.06)))


_SPECTRA = {
    "crop": _crop,
    "soil": _soil,
    "wood": _wood,
    "water": _water,
    "grain": _grain,
    "asphalt": _asphalt,
    "tiles": _tiles,
}
_FIELDS = ("crop", "soil", "grain")


def kinds_of(materials: int) -> list[str]:
    """What each of so many materials is: every kind once, then more of what grows in fields.

    Parameters
    ----------
    materials : int

    Returns
    -------
    list of str
    """
    more = max(0, materials - len(_SPECTRA))
    return [*_SPECTRA, *(_FIELDS[m % len(_FIELDS)] for m in range(more))][:materials]


def spectrum(kind: str, wavelengths: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """The reflectance of a material; no two draws are quite alike.

    Parameters
    ----------
    kind : str
        One of those of `kinds_of`.
    wavelengths : (bands,) array
        In nm.
    generator : numpy.random.Generator

    Returns
    -------
    (bands,) array
        In [0, 1].
    """
    return _SPECTRA[kind](wavelengths, generator)


def maps(
    shape: tuple[int, ...], kinds: Sequence[str], generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The maps of a landscape: fields, and the wood, roads, roofs and river that lie on them.

    Parameters
    ----------
    shape : (rows, columns)
    kinds : sequence of str
        The materials, as of `kinds_of`.
    generator : numpy.random.Generator

    Returns
    -------
    cover : (rows, columns, materials) array
        The part of every pixel that each material covers.
    shade : (rows, columns) array
        What the light on every pixel is multiplied by.
    """
    # Imported here: it takes longer to import than everything else of this package.
    from scipy.ndimage import gaussian_filter

    scale = float(np.clip(min(shape) / 5.0, 4.0, 40.0))
    axes = _field_axes(shape, scale, generator)
    parcels, cuts = _parcels(axes, 1.5 * scale, generator)
    cover, shade = _fields(parcels, axes, scale, kinds, generator)

    def paint(kind, mask):
        cover[...] *= (1.0 - mask)[:, :, None]
        cover[:, :, kinds.index(kind)] += mask

    if "wood" in kinds:
        hills = _smooth_noise(shape, 2.2 * scale, generator) + 0.35 * _smooth_noise(shape, 0.5 * scale, generator)
        wood = _step(hills, np.quantile(hills, 0.8), 0.06)
        paint("wood", wood)
        shade *= 1.0 + 0.13 * wood * _smooth_noise(shape, 1.6, generator)
    if "asphalt" in kinds:
        paint("asphalt", _roads(axes, cuts, scale))
    if "tiles" in kinds:
        paint("tiles", _roofs(axes, cuts, scale, generator))
    if "water" in kinds:
        river = _river(shape, scale, generator)
        paint("water", river)
        shade += river * (1.0 - shade)
    cover = gaussian_filter(cover, (0.45, 0.45, 0.0), mode="nearest")
    cover /= cover.sum(axis=2, keepdims=True)
    relief = 1.0 + 0.04 * _smooth_noise(shape, 3.0 * scale, generator) + 0.015 * _smooth_noise(shape, 1.0, generator)
    return cover, np.clip(shade * relief, 0.5, 1.4)


def _field_axes(shape, scale, generator):
    """Coordinates along and across the fields, in pixels: turned a little, and not quite straight."""
    rows, columns = np.meshgrid(*(np.arange(size, dtype=np.float64) for size in shape), indexing="ij")
    angle = np.radians(generator.uniform(8.0, 28.0))
    bend = 0.05 * scale
    along = np.cos(angle) * columns + np.sin(angle) * rows + bend * _smooth_noise(shape, 2.0 * scale, generator)
    across = np.cos(angle) * rows - np.sin(angle) * columns + bend * _smooth_noise(shape, 2.0 * scale, generator)
    return along, across


def _parcels(axes, size, generator):
    """The number of the field of every pixel, by cutting the land in two again and again; and the cuts.

    A cut (axis, position, (low, high)) lies at `position` of one axis and spans low to high of the other; the first
    cuts go through the whole picture.
    """
    flat = [axis.ravel() for axis in axes]
    parcels, cuts, count = np.zeros(axes[0].size, np.int64), [], 0
    waiting = [np.arange(axes[0].size)]
    while waiting:
        pixels = waiting.pop(0)
        limits = [(values[pixels].min(), values[pixels].max()) for values in flat]
        # Fields are longer than wide.
        lengths = [(high - low) / stretch for (low, high), stretch in zip(limits, (1.5, 1.0), strict=True)]
        axis = int(lengths[1] > lengths[0])
        if lengths[axis] < size * generator.uniform(0.8, 1.3):
            parcels[pixels] = count
            count += 1
            continue
        low, high = limits[axis]
        position = low + (high - low) * generator.uniform(0.35, 0.65)
        cuts.append((axis, position, limits[1 - axis]))
        below = flat[axis][pixels] < position
        waiting += [pixels[below], pixels[~below]]
    return parcels.reshape(axes[0].shape), cuts


def _fields(parcels, axes, scale, kinds, generator):
    """Cover and shade of the fields: each has its material, its brightness, and rows through which others show."""
    usable = [m for m, kind in enumerate(kinds) if kind in _FIELDS]
    count = int(parcels.max()) + 1
    # Every material of the fields in turn, in random order, so that none is missing where there are enough fields.
    rounds = [generator.permutation(usable) for _ in range(-(-count // len(usable)))]
    main = np.concatenate(rounds)[:count]
    other = generator.permutation(np.resize(usable, count))
    period = generator.uniform(3.0, 5.5, count)[parcels]
    rows_seen = generator.uniform(0.0, 0.1, count)[parcels]
    thin = generator.uniform(0.04, 0.28, count)[parcels]
    crosswise = (generator.random(count) < 0.5)[parcels]
    patchy = _smooth_noise(parcels.shape, 0.35 * scale, generator)
    lines = np.cos(2.0 * np.pi * np.where(crosswise, *axes) / period)
    share = np.clip(thin * (1.0 + 0.35 * patchy) + rows_seen * lines, 0.0, 0.6)
    cover = np.zeros((*parcels.shape, len(kinds)))
    np.put_along_axis(cover, main[parcels][:, :, None], (1.0 - share)[:, :, None], axis=2)
    shown = np.zeros_like(cover)
    np.put_along_axis(shown, other[parcels][:, :, None], share[:, :, None], axis=2)
    cover += shown
    shade = generator.uniform(0.82, 1.12, count)[parcels] * (1.0 + 0.03 * patchy)
    return cover, shade


def _river(shape, scale, generator):
    """A winding band from top to bottom."""
    rows, columns = (np.arange(size, dtype=np.float64) for size in shape)
    reach = generator.uniform(3.0, 4.5) * scale
    middle = shape[1] * generator.uniform(0.3, 0.75)
    middle = middle + 0.8 * scale * np.sin(2.0 * np.pi * (rows / reach + generator.random()))
    middle += 0.4 * scale * _smooth_noise((shape[0], 1), scale, generator)[:, 0]
    half = 0.13 * scale * (1.2 + 0.3 * np.sin(2.0 * np.pi * rows / (1.7 * reach))) + 0.5
    return _step(half[:, None] - np.abs(columns - middle[:, None]), 0.0, 0.3)


def _roads(axes, cuts, scale):
    """Strips along the first two cuts."""
    roads = np.zeros(axes[0].shape)
    for axis, position, (low, high) in cuts[:2]:
        strip = _step(0.6 + 0.012 * scale - np.abs(axes[axis] - position), 0.0, 0.2)
        strip *= (axes[1 - axis] >= low) & (axes[1 - axis] <= high)
        np.maximum(roads, strip, out=roads)
    return roads


def _roofs(axes, cuts, scale, generator):
    """Small rectangles on both sides of the roads."""
    roofs = np.zeros(axes[0].shape)
    for axis, position, (low, high) in cuts[:2]:
        for _ in range(2 + int((high - low) / (2.5 * scale))):
            beside = position + generator.choice([-1.0, 1.0]) * generator.uniform(0.14, 0.3) * scale
            along = generator.uniform(low, high)
            half = np.maximum(generator.uniform(0.05, 0.1, 2) * scale, 0.8)
            roofs[(np.abs(axes[axis] - beside) <= half[0]) & (np.abs(axes[1 - axis] - along) <= half[1])] = 1.0
    return roofs


def _smooth_noise(shape, feature, generator):
    """A random surface of mean 0 and variance 1 whose hills are about `feature` pixels wide."""
    from scipy.ndimage import map_coordinates

    knots = generator.standard_normal([int(np.ceil(size / feature)) + 3 for size in shape])
    places = np.meshgrid(*(1.0 + np.arange(size) / feature for size in shape), indexing="ij")
    surface = map_coordinates(knots, places, order=3, mode="nearest")
    surface -= surface.mean()
    return surface / (surface.std() or 1.0)
