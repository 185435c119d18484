"""How wrong maps are to be expected, pixel by pixel and band by band.

**How much.** With the weights w of the squares that bound the price of edges, the maps are the mode of a normal
distribution of precision H, the Hessian of the quadratic. Samples of it cost one solution each: H δ = R'n + D'√w n', n
and n' white on data and differences (random signs, for only second moments matter). What the spectra cannot explain is
added, and the fine detail that the maps lack (`missing_detail.py`), up to as much as all that. On the scenes measured,
errors were about a seventh larger than the distribution says; where there is no noise, and σ is its floor, hardly.

**Where.** Samples are few, so the pattern is shared with what is known without chance. Its square has three parts: the
error of the spectra, z'(B'B)⁻¹z for a pixel's z and the coarse maps B that they were found from; what the choice of λ
decides, the squared changes to the maps at both ends of the path; and the squared step to the neighbours, for edges are
displaced and dulled. The last two are spread over the neighbourhood. Their shares are empirical.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from ..model.types import Array
from ..threads import by_rows
from .map_data import second_moments
from .map_system import MapSystem
from .windows import LARGE

# Pixels, as the standard deviation of a Gaussian, over which the pattern of an expected error is spread.
_NEIGHBOURHOOD = 2.0

# Samples: fewer of large scenes, whose neighbourhoods are as small a part of them, and of many maps, over which chance
# is averaged already; and how far each is solved.
_SAMPLES, _FEWER_SAMPLES, _MANY_MAPS, _CG_STEPS, _CG_RTOL = 4, 2, 10, 60, 0.05

# How much larger errors are than the distribution says: where there is noise, and where there is none.
_DETAILS, _WITHOUT_NOISE = 1.15, 1.02

# Missing detail is believed up to this part of what is expected without it: its count is a rough one.
_MOST_MISSING = 1.0


def expected_error(
    Z: Array,
    coarse: Array,
    ends: Sequence[Array],
    system: MapSystem,
    unexplained: Array,
    missing: Array,
    beyond: Array | float = 0.0,
    noisy: bool = True,
) -> tuple[Array, Array]:
    """The expected error of each pixel, root mean square over bands, and of each band, over pixels.

    Parameters
    ----------
    Z : (I, J, P) array
        The maps.
    coarse : (rows, columns, P) array
        The same at the HSI's pixels.
    ends : sequence of (I, J, P) arrays
        The maps at both ends of the path of λ; none where they were led further than λ does (`unseen_maps.py`).
    system : MapSystem
        With the weights of the squares at Z; it is released.
    unexplained : (bands,) array
        The variance of what the spectra cannot explain, in the caller's units.
    missing : (bands,) array
        That of detail that the maps lack, which has no place.
    beyond : (bands,) array or float
        That of what no maps of these spectra can have, as far as the MSI shows it; it has no place either.
    noisy : bool
        Whether there is noise, or σ is its floor.

    Returns
    -------
    (I, J) array, (bands,) array
        In the caller's units.
    """
    data = system.data
    S, rng = data.hsi.sigma[:, None] * data.F, np.random.default_rng(1)
    root = _root(S.T @ S / len(S))
    pixels, seconds = np.zeros(Z.shape[:2]), np.zeros((Z.shape[2], Z.shape[2]))
    samples = _samples(pixels.size, Z.shape[2])
    for _ in range(samples):
        sample = data.layout.rows(_sample(system, rng))
        pixels += _of_pixels(lambda part, sample=sample: _squares(sample[part], root), sample) / samples
        seconds += second_moments(sample) / (samples * pixels.size)
        del sample  # its room is needed for the next one
    pixels = _spread(pixels) + unexplained.mean()
    known = np.einsum("kp,pq,kq->k", S, seconds, S, optimize=True) + unexplained + beyond
    missing = missing * min(1.0, _MOST_MISSING * float(known.mean()) / max(float(missing.mean()), 1e-300))
    larger = _DETAILS if noisy else _WITHOUT_NOISE
    spectrum = larger * np.sqrt(known + missing)
    system.pulse()
    system.release()
    pattern = np.sqrt(pixels * _pattern(Z, coarse, ends, data))
    size2 = (pixels.mean() + np.mean(beyond) + missing.mean()) / max(float(pattern.mean()), 1e-300)
    return larger * np.sqrt(size2 * pattern), spectrum


def _samples(pixels, maps):
    """How many samples are drawn."""
    if maps >= 2 * _MANY_MAPS:
        return 1
    return _SAMPLES if pixels < LARGE and maps < _MANY_MAPS else _FEWER_SAMPLES


def _spread(values):
    """A plane, each pixel over its neighbourhood: down its columns some of them at a time, then along its rows."""
    # Imported here: it takes long to import.
    from scipy.ndimage import gaussian_filter1d

    down, across = np.empty_like(values), np.empty_like(values)

    def columns(part):
        gaussian_filter1d(values[:, part], _NEIGHBOURHOOD, axis=0, output=down[:, part])

    def rows(part):
        gaussian_filter1d(down[part], _NEIGHBOURHOOD, axis=1, output=across[part])

    by_rows(columns, values.shape[1], values.shape[0])
    by_rows(rows, *values.shape)
    return across


def _root(metric):
    """A matrix whose product with itself transposed is `metric`."""
    return np.linalg.cholesky(metric + 1e-12 * max(float(np.trace(metric)), 1e-300) * np.eye(len(metric)))


def _of_pixels(function, rows):
    """What a function of a slice of (n, P, J) rows gives of each of their pixels, on threads."""
    return np.concatenate(by_rows(function, len(rows), rows[0].size))


def _squares(rows, root):
    """‖root' z‖² of each pixel of some (n, P, J) rows."""
    return np.square(root.T @ rows).sum(axis=1)


def _sample(system, rng):
    """A stack drawn from the distribution of the maps."""
    layout, noise = system.layout, system.r  # it becomes the residual, and takes no room of its own
    noise[...] = 0.0
    system.data.disturb(partial(_signs, rng), noise)
    rows, below, right = (layout.rows(stack) for stack in (noise, system.below, system.right))
    bits = [rng.bytes(-(-rows.size // 8)) for _ in range(2)]
    system.pulse()

    def add(part):
        """White noise on the differences of some rows; what it adds to the row below them is returned."""
        first, count = part.start * rows[0].size, (part.stop - part.start) * rows[0].size
        down, across = (_signs_of(drawn, first, count).reshape(rows[part].shape) for drawn in bits)
        down *= np.sqrt(below[part])
        across *= np.sqrt(right[part])
        rows[part] -= down
        rows[part][1:] += down[:-1]
        rows[part] -= across
        rows[part, :, 1:] += across[:, :, :-1]
        return part.stop, down[-1]

    for i, down in by_rows(add, len(rows), rows[0].size):
        if i < len(rows):
            rows[i] += down
    sample = layout.zeros()
    system.solve(sample, system.residual(sample, noise)[1], _CG_STEPS, _CG_RTOL)
    return sample


def _signs(rng, shape):
    """What gives plus or minus one, by bits that are drawn now."""
    drawn = rng.bytes(-(-int(np.prod(shape)) // 8))
    return lambda: _signs_of(drawn, 0, int(np.prod(shape))).reshape(shape)


def _signs_of(drawn, first, count):
    """Plus or minus one by so many bits of some bytes, from the bit `first` on."""
    skipped = first % 8
    drawn = np.frombuffer(drawn, np.uint8)[first // 8 :]
    bits = np.unpackbits(drawn[: -(-(skipped + count) // 8)])[skipped : skipped + count]
    return 2.0 * bits.astype(np.float32) - np.float32(1.0)


def _pattern(Z, coarse, ends, data):
    """Squares that are known without chance, in units of the noise."""
    metric = data.F.T @ data.F  # maps to spectra, in units of the noise
    B = coarse.reshape(-1, Z.shape[2])
    inverse, root = np.linalg.pinv(B.T @ B), _root(metric)
    Z, ends = np.moveaxis(Z, 2, 1), [np.moveaxis(other, 2, 1) for other in ends]

    def each(function):
        return _of_pixels(function, Z)

    spectral = each(lambda part: ((inverse @ Z[part]) * Z[part]).sum(axis=1))
    changes = [each(lambda part, other=other: _squares(Z[part] - other[part], root)) for other in ends]
    change = _spread(sum(changes)) if changes else 0.0
    down = np.zeros_like(spectral)
    if len(Z) > 1:
        down[:-1] = _of_pixels(lambda part: _squares(Z[1:][part] - Z[:-1][part], root), Z[1:])
    right = each(lambda part: _squares(np.diff(Z[part], axis=2, append=Z[part][:, :, -1:]), root))
    steps = down + right
    steps[1:] += down[:-1]
    steps[:, 1:] += right[:, :-1]
    # An edge well above the noise is lowered by what the noise is worth, not by its height.
    noise2 = np.linalg.norm(root, 2) ** 2 / data.unit**2
    edges = np.square(_spread(np.sqrt(steps / (1.0 + steps / noise2))))
    return 0.6 * spectral + (2.0 * change + 0.5 * edges) / len(data.F)
