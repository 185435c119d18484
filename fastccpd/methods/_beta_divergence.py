"""The β-divergence between an image and a non-negative model of it, and what multiplicative updates need of both.

    d_β(y | x) = (y^β + (β − 1) x^β − β y x^(β−1)) / (β (β − 1)),
    d_1(y | x) = y log(y/x) + x − y,          d_0(y | x) = y/x − log(y/x) − 1

is ½ (y − x)² for β = 2, the Kullback-Leibler divergence for β = 1 and that of Itakura and Saito for β = 0. Its slope in
x is w⁺ − w⁻ with w⁺ = x^(β−1) and w⁻ = y x^(β−2), both non-negative. A factor F that x depends on linearly, and with
weights that are not negative, is therefore multiplied by (the pull-back of w⁻ / the pull-back of w⁺)^γ: the minimum of
a function that lies above the divergence and touches it at F, so that the divergence does not rise, where γ = 1/(2 − β)
below β = 1, 1/(β − 1) above 2, and 1 between.

Here x = C S, C (K, R) spectra and S (R, N) maps. The weights are made for a few thousand numbers at a time, which stay
in the processor's cache, and are contracted at once: with the spectra to (R, N), or with the maps to (K, R). Where
β = 3/2 a kernel (`kernels/divergence.py`) keeps them in registers. No power is needed where β is whole.
"""

from typing import Any

import numpy as np

from ..kernels import divergence
from ..kernels.arrays import aligned
from ..kernels.divergence import BANDS, PIXELS, SPECTRA, filled_up
from ..model.types import Array

# Updates of both factors of a matrix between two pulses, and the numbers that they go through, if that is less.
_AT_ONCE, _NUMBERS_AT_ONCE = 20, 4_000_000

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
    if beta == 2.0:
        return data, plus
    minus = np.divide(data, model, out=minus)
    minus *= plus
    return minus, plus


def multiply(factor: Array, minus: Array, plus: Array, beta: float, least: float) -> None:
    """A factor where it stands times (minus / plus)^γ, 1 where there is nothing to go by; none falls below `least`."""
    quotient = np.divide(minus, plus, out=np.ones_like(plus), where=plus > 0.0)
    gamma = exponent(beta)
    factor *= quotient if gamma == 1.0 else quotient**gamma
    np.maximum(factor, least, out=factor)


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

    Maps and what is made of them stand in `room`, with zeros around them, where `within` finds them.
    """

    def __init__(self, image, scale, beta, valid=None):
        *self.size, self.bands = image.shape
        self.pixels, self.beta = int(np.prod(self.size)), beta
        self._data = self._stored(image)
        data = self._data[: self.bands, : self.pixels]
        np.divide(data, scale, out=data)
        np.maximum(data, np.finfo(float).eps if beta == 0.0 else 0.0, out=data)
        self._valid = None
        if valid is not None:
            self._valid = self._stored(valid)
            self._data *= self._valid
        self._constant = self._of_data(data)
        self._width = max(1, _BLOCK // self.bands)
        self._work = np.empty((3, 0 if beta == 1.5 else self.block_size(image.shape)))

    def _stored(self, image):
        """An image with bands as rows and pixels as columns."""
        stored = aligned((filled_up(self.bands, BANDS), filled_up(self.pixels, PIXELS)), np.float64)
        stored[: self.bands, : self.pixels] = image.reshape(-1, self.bands).T
        return stored

    @staticmethod
    def block_size(shape):
        """The most numbers that are worked on at a time, of an image of this shape."""
        return min(max(_BLOCK, shape[2]), int(np.prod(shape)))

    @staticmethod
    def stored_size(shape):
        """The numbers that an image of this shape takes."""
        *size, bands = shape
        return filled_up(bands, BANDS) * filled_up(int(np.prod(size)), PIXELS)

    def room(self, R: int, *several: int) -> Array:
        """Zeros for R maps, or several times R."""
        return aligned((*several, filled_up(R, SPECTRA), filled_up(self.pixels, PIXELS)), np.float64)

    @staticmethod
    def room_size(shape, R):
        """The numbers that R maps of an image of this shape take."""
        return filled_up(R, SPECTRA) * filled_up(shape[0] * shape[1], PIXELS)

    def within(self, room: Array, R: int) -> Array:
        """The R maps of a room, each of the size of the image."""
        return room[..., :R, : self.pixels].reshape(*room.shape[:-2], R, *self.size)

    def by_pixel(self, C: Array, maps: Array, out: Array, measure: bool = True) -> float:
        """C'w⁻ and C'w⁺ of maps in a room, into one for twice as many; the divergence, if it is to be measured."""
        if self.beta == 1.5:
            total = divergence.by_pixel(self._data, self._valid, self._spectra(C), maps, out)
            return max(self._constant + total, 0.0)
        total, R = self._constant, C.shape[1]
        for place, data, model, minus, plus in self._blocks(C, maps):
            np.matmul(C.T, minus, out=out[0, :R, place])
            np.matmul(C.T, plus, out=out[1, :R, place])
            total += self._of_model(data, model, plus) if measure else 0.0
        return max(total, 0.0)

    def by_band(self, C: Array, maps: Array) -> Array:
        """w⁻ S' and w⁺ S', (2, K, R), of maps S in a room."""
        if self.beta == 1.5:
            spectra = self._spectra(C)
            total = np.empty((2, *spectra.shape))
            divergence.by_band(self._data, self._valid, spectra, maps, total)
            return total[:, : self.bands, : C.shape[1]]
        total = np.zeros((2, *C.shape))
        for place, _, _, minus, plus in self._blocks(C, maps):
            those = maps[: C.shape[1], place].T
            total[0] += minus @ those
            total[1] += plus @ those
        return total

    def factor(self, A: Array, B: Array, least: float, most: int, tolerance: float, pulse: Any) -> None:
        """Make A B' the image, as a matrix of bands and pixels, by updates of A and B where they stand.

        They end after so many, or when one lowers the squared misfit by at most `tolerance` of it. `pulse` is called
        between some of them.
        """
        R = A.shape[1]
        C, room = self._spectra(np.maximum(A, least)), self.room(R)
        room[:R, : self.pixels] = np.maximum(B.T, least)
        steps = min(_AT_ONCE, max(1, _NUMBERS_AT_ONCE // self._data.size))
        misfits = np.full(steps + 1, np.inf)
        try:
            for _ in range(0, most, steps):
                pulse()
                misfits[0] = misfits[-1]
                self._update(C, room, R, least, tolerance, misfits)
                if misfits[-1] >= (1.0 - tolerance) * misfits[-2]:
                    break
        finally:
            A[:], B[:] = C[: self.bands, :R], room[:R, : self.pixels].T

    def _update(self, C, room, R, least, tolerance, misfits):
        """As the kernel `update_factors`."""
        if self.beta == 1.5:
            divergence.in_turn(self._data, C, room, least, tolerance, misfits)
            return
        C, S, pulls = C[: self.bands, :R], room[:R, : self.pixels], self.room(R, 2)
        for step in range(1, len(misfits)):
            minus, plus = self.by_band(C, room)
            multiply(C, minus, plus, self.beta, least)
            self.by_pixel(C, room, pulls, measure=False)
            minus, plus = pulls[:, :R, : self.pixels]
            multiply(S, minus, plus, self.beta, least)
            left = self._data[: self.bands, : self.pixels] - C @ S
            misfits[step:] = np.vdot(left, left)
            if misfits[step] >= (1.0 - tolerance) * misfits[step - 1]:
                break

    def _spectra(self, C):
        """With zeros around them."""
        spectra = np.zeros((len(self._data), filled_up(C.shape[1], SPECTRA)))
        spectra[: self.bands, : C.shape[1]] = C
        return spectra

    def _blocks(self, C, maps):
        """(place, data, model, w⁻, w⁺) of each part of the image; the last three are overwritten by the next."""
        for at in range(0, self.pixels, self._width):
            place = slice(at, min(at + self._width, self.pixels))
            data = self._data[: self.bands, place]
            model, minus, plus = (work[: data.size].reshape(data.shape) for work in self._work)
            np.matmul(C, maps[: C.shape[1], place], out=model)
            minus, plus = weights(data, model, self.beta, minus, plus)
            if self._valid is not None:
                plus *= self._valid[: self.bands, place]  # the data are zero there, and w⁻ with them
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
