"""The β-divergence between an image and a non-negative model of it, and what multiplicative updates need of both.

    d_β(y | x) = (y^β + (β − 1) x^β − β y x^(β−1)) / (β (β − 1)),
    d_1(y | x) = y log(y/x) + x − y,          d_0(y | x) = y/x − log(y/x) − 1

is ½ (y − x)² for β = 2, the Kullback-Leibler divergence for β = 1 and that of Itakura and Saito for β = 0. Its slope in
x is w⁺ − w⁻ with w⁺ = x^(β−1) and w⁻ = y x^(β−2), both non-negative. A factor F that x depends on linearly, and with
weights that are not negative, is therefore multiplied by (the pull-back of w⁻ / the pull-back of w⁺)^γ: the minimum of
a function that lies above the divergence and touches it at F, so that the divergence does not rise, where γ = 1/(2 − β)
below β = 1, 1/(β − 1) above 2, and 1 between.

Here x = C S, C (K, R) spectra and S (R, N) maps. The weights are made for a few thousand numbers at a time, which stay
in the processor's cache, and are contracted at once: with the spectra to (R, N), or with the maps to (K, R). One root
serves both weights where β = 3/2, and no power is needed where β is whole.
"""

import numpy as np

# So many numbers of an image are worked on at a time: three arrays of them fit into the cache of a core.
_BLOCK = 1 << 15


def exponent(beta):
    """γ, the exponent of multiplicative updates."""
    return 1.0 / (2.0 - beta) if beta < 1.0 else 1.0 / (beta - 1.0) if beta > 2.0 else 1.0


def power(x, exponent, out=None):
    """x^exponent, by a root or a division where that is enough."""
    if exponent == 0.0:
        out = np.empty_like(x) if out is None else out
        out.fill(1.0)
        return out
    if exponent == 1.0:
        return np.positive(x, out=out)
    if exponent == 0.5:
        return np.sqrt(x, out=out)
    if exponent == -0.5:
        out = np.sqrt(x, out=out)
        return np.reciprocal(out, out=out)
    if exponent == -1.0:
        return np.reciprocal(x, out=out)
    return np.power(x, exponent, out=out)


def weights(data, model, beta, minus=None, plus=None):
    """w⁻ and w⁺ of data and a positive model, in arrays that may be given."""
    plus = power(model, beta - 1.0, out=plus)
    if beta == 1.5:
        return np.divide(data, plus, out=minus), plus
    if beta == 2.0:
        return data, plus
    minus = np.divide(data, model, out=minus)
    minus *= plus
    return minus, plus


class BetaFit:
    """One image and its divergence from models C S.

    Parameters
    ----------
    image : (rows, columns, K) array
    scale : float
        What it is divided by.
    beta : float
    valid : bool array of its shape, optional
        False where a value has no part in the divergence.

    Negative values are set to zero, and for β = 0 those below rounding to it.
    """

    def __init__(self, image, scale, beta, valid=None):
        *_, self.bands = image.shape
        self.beta = beta
        pixels = image.reshape(-1, self.bands)
        width = max(1, _BLOCK // self.bands)
        self._places = [slice(at, at + width) for at in range(0, len(pixels), width)]
        self._data = [np.divide(pixels[place].T, scale, dtype=np.float64, order="C") for place in self._places]
        least = np.finfo(float).eps if beta == 0.0 else 0.0
        for data in self._data:
            np.maximum(data, least, out=data)
        self._valid = None
        if valid is not None:
            mask = valid.reshape(-1, self.bands)
            self._valid = [np.ascontiguousarray(mask[place].T, dtype=np.float64) for place in self._places]
            for data, there in zip(self._data, self._valid, strict=True):
                data *= there
        self._constant = sum(self._of_data(data) for data in self._data)
        self._work = np.empty((3, self._data[0].size))

    @staticmethod
    def block_size(shape):
        """The most numbers that are worked on at a time, of an image of this shape."""
        return min(max(_BLOCK, shape[2]), int(np.prod(shape)))

    def by_pixel(self, C, S, out, measure=True):
        """C'w⁻ and C'w⁺ into out (2, R, N); the divergence, if it is to be measured."""
        total = self._constant
        for place, data, model, minus, plus in self._blocks(C, S):
            np.matmul(C.T, minus, out=out[0, :, place])
            np.matmul(C.T, plus, out=out[1, :, place])
            total += self._of_model(data, model, plus) if measure else 0.0
        return max(total, 0.0)

    def by_band(self, C, S):
        """w⁻ S' and w⁺ S', (2, K, R)."""
        total = np.zeros((2, *C.shape))
        for place, _, _, minus, plus in self._blocks(C, S):
            maps = S[:, place].T
            total[0] += minus @ maps
            total[1] += plus @ maps
        return total

    def _blocks(self, C, S):
        """(place, data, model, w⁻, w⁺) of each part of the image; the last three are overwritten by the next."""
        for n, (place, data) in enumerate(zip(self._places, self._data, strict=True)):
            model, minus, plus = (work[: data.size].reshape(data.shape) for work in self._work)
            np.matmul(C, S[:, place], out=model)
            minus, plus = weights(data, model, self.beta, minus, plus)
            if self._valid is not None:
                plus *= self._valid[n]  # the data are zero there, and w⁻ with them
            yield place, data, model, minus, plus

    def _of_data(self, y):
        """What of the divergence does not depend on the model."""
        beta, y = self.beta, y[y > 0.0]
        if beta == 1.0:
            return float(np.sum(y * np.log(y) - y))
        if beta == 0.0:
            return float(-np.sum(np.log(y) + 1.0))
        return float(np.sum(y**beta)) / (beta * (beta - 1.0))

    def _of_model(self, y, x, plus):
        """What of the divergence depends on the model."""
        beta = self.beta
        if beta == 1.0:
            return float(np.vdot(x, plus) - np.vdot(y, np.log(x)))
        if beta == 0.0:
            return float(np.vdot(y, plus) + np.vdot(x * plus, np.log(x)))
        return float(np.vdot(x, plus) / beta - np.vdot(y, plus) / (beta - 1.0))
