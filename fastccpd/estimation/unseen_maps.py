"""What the MSI does not see of a scene, by what it sees: pixels that are alike in the MSI are mostly alike in spectrum.

Maps of which the MSI's bands tell nothing are measured at the HSI's pixels alone. Between them total variation lets
them follow the edges of the others, and no more. But at its own pixels the HSI shows which unseen maps u go with which
m, the MSI blurred. So for each coarse pixel they are regressed on m and on the place, over the coarse pixels that are
most like it and not far away,

    u ≈ c + B (m, place),                                                                                     (1)

and a fine pixel, whose m is that of the fitted maps, takes the mean of the regressions of the two coarse pixels that
are most like it.

**Its error.** What a regression would leave of its own pixel, had that no part in it, is known without another fit. Let
C be the mean square of it, of which a part is noise. A coarse pixel is a mean, so at fine ones the rest is larger: not
at all, if what is left is alike in a whole neighbourhood, and by 1/Σp², p the weights of the blur, if it is not alike
even in two neighbours. On nine scenes without noise it was 6 to 29 times as large where 1/Σp² is 35; taken is its power
0.7, which is 12. The noise of the MSI comes in by the slopes:

    V = (Σp²)^(−0.7) (C − noise) + noise of B m + C (numbers in a regression) / (pixels in it).                 (2)

**What is done with it.** The fit gets ½ Σ (z − ẑ)²/V beside its other terms, for those of the unseen maps of which the
regressions leave more than noise, and less than half: of the others total variation knows more. Where the predictions,
blurred, are further from the HSI than C says, they are not believed: ẑ goes from the maps as they are to what (1) says
by the part 1 / max(1, e²/C) of the way, e the errors around. Without that one scene of ten would lose 1.3 dB by it.
"""

from collections.abc import Callable

import numpy as np

from ..kernels.arrays import readonly
from ..kernels.likely_maps import predict_maps
from ..model.types import Array
from ..threads import by_rows, over_pieces
from .map_data import MapData
from .moments import eigh_signed

# Coarse pixels of a regression, and the least for each number in it.
_NEIGHBOURS, _FEWEST = 40, 3

# The side of the blocks that are worked on at once, and how far around them is looked, in coarse pixels; so many blocks
# are enough to tell how good regressions are.
_BLOCK, _AROUND, _ENOUGH_BLOCKS = 8, 8, 64

# Fine pixels that are predicted between two pulses.
_AT_ONCE = 1 << 17

# What a coarse pixel of distance counts, in standard deviations of m; the ridge, as a part of the moments.
_PLACE, _RIDGE = 0.05, 1e-2

# Likeness is told by m divided by this power of its steps, the power that maps are scaled with.
_POWER = 0.7

# By which power of 1/Σp² errors are larger at fine pixels.
_FINER = 0.7

# Regressions of a map that leave more than this part of its variance know too little of it.
_UNEXPLAINED = 0.5


class UnseenMaps:
    """Regressions of the unseen maps on what the MSI sees.

    Parameters
    ----------
    data : MapData
    noise : float
        The part of the variance that the data are divided by that is noise.
    pulse : callable, optional
        Called several times a second.

    Attributes
    ----------
    which : (n,) array of int
        The maps that can be predicted, of those that the MSI does not see.
    variances : (n,) array
        V of each.
    left : float
        The part of the variance of all of them that the regressions leave.
    """

    def __init__(self, data: MapData, noise: float, pulse: Callable[[], None] = lambda: None):
        self._data, self._pulse = data, pulse
        self.which, self.variances, self.left = np.nonzero(data.unseen)[0], np.empty(0), 1.0
        if len(self.which) == data.layout.P:
            self.which = self.which[:0]
        if not len(self.which):
            return
        self._chosen, self._centres = _whole(data), [_centres(P) for P in data.blur.operators]
        m = data.blur.coarse(np.ascontiguousarray(data.msi.image)) / data.msi.sigma
        self._likeness = _likeness(m)
        m = m @ self._likeness
        self._place = _PLACE * float(m.std(axis=(0, 1)).mean())
        self._features = self._with_place(m, [np.arange(side, dtype=np.float64) for side in m.shape[:2]])
        self._measured, own = self._maps_of_hsi()
        self._known = np.zeros(m.shape[:2], bool)
        self._models = np.zeros((*m.shape[:2], 1 + self._features.shape[2], len(self.which)), np.float32)
        blocks = _blocks(m.shape[:2])
        step = -(-len(blocks) // _ENOUGH_BLOCKS)
        self._judge(self._regress(blocks[::step]), own, noise)
        self._later = [block for n, block in enumerate(blocks) if n % step]

    def _maps_of_hsi(self):
        """The unseen maps at the HSI's pixels, and how much of their variance is noise, if that is 1 in each band."""
        hsi = self._data.hsi
        has = hsi.bands[hsi.usual]
        back, image = np.linalg.pinv(self._data.F[has])[self.which] / hsi.sigma[has], hsi.image
        rows = by_rows(lambda part: image[part][:, :, has] @ back.T, len(image), image[0].size)
        return np.concatenate(rows), np.square(back * hsi.sigma[has]).sum(axis=1)

    def _with_place(self, m, along):
        """m and the place of each pixel of a grid, whose coordinates along both sides are given."""
        places = np.stack(np.meshgrid(*along, indexing="ij"), axis=-1)
        return np.concatenate([m, self._place * places], axis=2)

    def _judge(self, left, own, noise):
        """V, by what some regressions leave, and which maps are worth it."""
        if len(left) < 2 * _NEIGHBOURS:
            self.which = self.which[:0]
            return
        C, share = np.square(left).mean(axis=0), _share(self._data.blur)
        slopes = self._models[self._known][:, 1 : 1 + len(self._likeness)]
        by_slopes = noise * np.square(self._likeness @ slopes).sum(axis=1).mean(axis=0)
        signal = C - noise * own - share * by_slopes
        own_variances = self._measured[self._known].var(axis=0)
        clear = (signal > noise * own) & (C < _UNEXPLAINED * own_variances)
        sizes = np.square(self._data.F[:, self.which[clear]]).sum(axis=0)
        self.left = float((sizes @ C[clear]) / (sizes @ own_variances[clear])) if clear.any() else 1.0
        numbers = 1 + self._features.shape[2]
        variances = share**-_FINER * signal + by_slopes + C * numbers / _NEIGHBOURS
        self.which, self.variances, self._mean_square = self.which[clear], variances[clear], C[clear]
        self._models, self._measured = self._models[..., clear], self._measured[..., clear]

    def _around(self, block):
        """Where the whole coarse pixels in and around a block are."""
        window = tuple(slice(max(0, part.start - _AROUND), part.stop + _AROUND) for part in block)
        return tuple(index + part.start for index, part in zip(np.nonzero(self._chosen[window]), window))

    def _regress(self, blocks):
        """The regressions of the coarse pixels of some blocks; what each would leave of its own pixel, (n, maps)."""
        left = [np.zeros((0, len(self.which)))]
        for first in range(0, len(blocks), _AROUND):
            left += over_pieces(self._regress_block, blocks[first : first + _AROUND])
            self._pulse()
        return np.concatenate(left)

    def _regress_block(self, block):
        around = self._around(block)
        own = tuple(index + part.start for index, part in zip(np.nonzero(self._chosen[block]), block))
        x, y, here = self._features[around], self._measured[around], self._features[own]
        count = min(_NEIGHBOURS, len(x))
        if not len(here) or count < _FEWEST * (x.shape[1] + 1):
            return np.zeros((0, y.shape[1]))
        apart = _squared_distances(here, x)
        near = np.argpartition(apart, count - 1, axis=1)[:, :count]
        apart = np.take_along_axis(apart, near, axis=1)
        farthest = np.maximum(apart.max(axis=1, keepdims=True), np.finfo(apart.dtype).tiny)
        weights = np.maximum(1.0 - apart / farthest, 1e-3)
        means, slopes, parts = weighted_regressions(x[near], y[near], weights, here)
        self._models[(*own, slice(1, None))] = slopes
        self._models[(*own, 0)] = means - np.matmul(here[:, None], slopes)[:, 0]
        self._known[own] = True
        return (self._measured[own] - means) / np.maximum(1.0 - parts, 0.1)[:, None]

    def lead(self, Z: Array, room: Array) -> None:
        """Lead the fit of the data by these predictions, from the maps Z on.

        Parameters
        ----------
        Z : stack
            The maps as they are.
        room : stack
            Of any contents, which are lost.
        """
        if not len(self.which):
            return
        self._regress(self._later)
        data, which = self._data, self.which
        room[...] = 0.0
        rows, likely = data.layout.rows(Z), data.layout.rows(room)
        self._predict(Z, room)
        believed = self._believed(data.blur.coarse_of_stack(data.layout, room)[:, :, which])

        def led(part):
            now = rows[part][:, which]
            return now + believed[part][:, None] * (likely[part][:, which] - now)

        data.lead(which, 1.0 / self.variances, led, self.left)

    def _predict(self, Z, likely):
        """Predict the unseen maps of all fine pixels, each by coarse ones in and around the block of its nearest."""
        layout, operators = self._data.layout, self._data.blur.operators
        mix, middle = self._data.R.T @ self._likeness, self._features.mean(axis=(0, 1))
        along = [np.interp(np.arange(P.shape[1]), *_line(c)) for c, P in zip(self._centres, operators)]
        sides = [_windows(c, P.shape[1]) for c, P in zip(self._centres, operators)]
        windows = np.concatenate([np.tile(block[2:], (block[1] - block[0], 1)) for block in sides[0]])
        coarse = (self._features - middle).astype(np.float32), self._known, self._models
        given = (mix, np.full(2, self._place), np.concatenate(along), windows, sides[1], middle, *coarse, self.which)
        given, count = tuple(map(readonly, given)), max(1, _AT_ONCE // layout.J)
        for first in range(0, layout.I, count):
            last = min(layout.I, first + count)
            work = 20.0 * self._features[0, 0].size * (last - first) * layout.J * (_BLOCK + 2 * _AROUND) ** 2
            predict_maps(first, last, layout.shape, readonly(Z), *given, likely, work=work)
            self._pulse()

    def _believed(self, coarse):
        """How far the predictions of each fine pixel, which are `coarse` at the HSI's pixels, are believed."""
        P1, P2 = (abs(P) for P in self._data.blur.operators)
        seen = P1.T @ np.ones(self._known.shape) @ P2
        known = P1.T @ self._known.astype(np.float64) @ P2
        errors = np.where(self._known, (np.square(self._measured - coarse) / self._mean_square).mean(axis=2), 0.0)
        around = (P1.T @ errors @ P2) / np.where(known > 0.0, known, 1.0)
        return np.where(known >= 0.5 * seen, 1.0 / np.maximum(1.0, around), 0.0) * (seen > 0.0)


def weighted_regressions(X: Array, Y: Array, weights: Array, at: Array) -> tuple[Array, Array, Array]:
    """Linear regressions, each of its own points.

    Parameters
    ----------
    X : (n, points, d) array
    Y : (n, points, maps) array
    weights : (n, points) array
    at : (n, d) array
        One point of each regression, which is that of its largest weight.

    Returns
    -------
    (n, maps) array
        What each says at its point.
    (n, d, maps) array
        Slopes.
    (n,) array
        By how much that changes with the value at its point.
    """
    weights = weights / weights.sum(axis=1, keepdims=True)
    x, y = (np.matmul(weights[:, None], values) for values in (X, Y))
    X, Y, off = X - x, Y - y, at - x[:, 0]
    weighted = np.swapaxes(X * weights[:, :, None], 1, 2)
    gram = weighted @ X
    ridge = _RIDGE * np.trace(gram, axis1=1, axis2=2) / X.shape[2] + 1e-300
    inverse = np.linalg.inv(gram + ridge[:, None, None] * np.eye(X.shape[2]))
    slopes = inverse @ (weighted @ Y)
    parts = weights.max(axis=1) * (1.0 + np.einsum("nd,nde,ne->n", off, inverse, off))
    return y[:, 0] + np.matmul(off[:, None], slopes)[:, 0], slopes, parts


def _squared_distances(one, other):
    """Between the rows of two arrays."""
    middle = other.mean(axis=0)  # far from the origin the squares would lose their digits
    one, other = ((rows - middle).astype(np.float32) for rows in (one, other))
    apart = np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1)
    apart -= 2.0 * (one @ other.T)
    return np.maximum(apart, 0.0, out=apart)


def _whole(data):
    """The HSI's pixels that have all bands, and see nothing that the MSI lacks."""
    whole, lacks = data.hsi.kinds == data.hsi.usual, data.msi.kinds != data.msi.usual
    if lacks.any():
        P1, P2 = (abs(P) for P in data.blur.operators)
        whole = whole & ~((P1 @ lacks.astype(np.float64) @ P2.T) > 0.0)
    return whole


def _likeness(coarse):
    """What m is multiplied by so that distances tell likeness."""
    steps = np.concatenate([np.diff(coarse, axis=axis).reshape(-1, coarse.shape[2]) for axis in (0, 1)])
    variances, turn = eigh_signed(steps.T @ steps / max(len(steps), 1))
    return turn / np.maximum(variances, 2.0) ** (0.5 * _POWER)  # two pixels' noise is in a difference


def _share(blur):
    """Σp² of a coarse pixel, in the mean."""
    return float(blur.size**2 * np.prod([np.mean(P.multiply(P).sum(axis=1)) for P in blur.operators]))


def _blocks(shape):
    """Blocks of a grid."""
    rows, columns = ([slice(i, min(side, i + _BLOCK)) for i in range(0, side, _BLOCK)] for side in shape)
    return [(i, j) for i in rows for j in columns]


def _centres(P):
    """Where coarse pixels are among fine ones, along one side; a blur may be periodic."""
    weights, side = abs(P).toarray(), P.shape[1]
    peaks = weights.argmax(axis=1)
    away = (np.arange(side) - peaks[:, None] + side // 2) % side - side // 2
    centres = peaks + (weights * away).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-300)
    return np.maximum.accumulate(np.clip(centres, 0.0, side - 1.0))


def _line(centres):
    """The centres, and their numbers."""
    return centres, np.arange(len(centres))


def _nearest(centres, side, part):
    """The fine pixels that are nearest to some coarse ones, along one side."""
    ends = np.ceil(0.5 * (centres[1:] + centres[:-1])).astype(int)
    ends = [0, *ends.tolist(), side]
    return slice(ends[part.start], ends[part.stop])


def _windows(centres, side):
    """(start, stop, first, last) of each block along one side: its fine pixels, and the coarse ones in and around."""
    found, count = [], len(centres)
    for block, _ in _blocks((count, 1)):
        fine = _nearest(centres, side, block)
        found.append((fine.start, fine.stop, max(0, block.start - _AROUND), min(count, block.stop + _AROUND)))
    return np.array(found)
