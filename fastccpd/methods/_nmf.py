"""Non-negative factors X ≈ A W', pixels times spectra, by multiplicative updates with a pull to sums of one.

    A ← A * (X W + δ²) / (A (W'W + δ²)),          W ← W * (X'A) / (W A'A)

lower ‖X − A W'‖² + δ²‖1 − A 1‖²: a band of δ is appended to X and to W, which pulls the abundances of a pixel to the
sum 1; the spectra do not see it. The cost is ‖X − A W'‖², without δ.

Two ways to the same updates. With many bands and few pixels W'W and A'A are formed, once while their factor stays, and
the cost is ‖X‖² − 2⟨X'A, W⟩ + ⟨A'A, W'W⟩ where rounding allows it; what that takes is kept for the next update. With
fewer bands than spectra A W'W is best done as (A W') W; A W' is also what the cost needs, and an update reads and
writes the abundances once, some pixels at a time, by a kernel, for which pixels lie side by side. The second way can
leave out data that are not valid; the band of δ is there as it is written above.
"""

import numpy as np

from ..kernels.abundances import BLOCK, SPECTRA, multiply_all, whole_lanes
from ._spectral import half_square

# Added to denominators, of which it changes none that is not zero: 0/0 is 0.
_LEAST = 1e-100

# Where the cost is above this part of ‖X‖², a difference of sums has a thousand times the digits that a relative change
# of 1e-8 takes.
_SUMS_SUFFICE = 1e-5

# Blocks of pixels between two pulses.
_BLOCKS = 256


def stored_spectra(R: int) -> int:
    """How many spectra `ByProducts` stores the abundances of, for R of them."""
    return -(-R // SPECTRA) * SPECTRA


class BySums:
    """The factors of a matrix X (pixels, bands) of many bands and few pixels.

    They are kept with one row for each spectrum, which makes the products with X faster by a quarter.

    Attributes
    ----------
    W, A : (bands, R), (pixels, R) arrays
        Never overwritten: an update makes new ones.
    cost : float
    """

    def __init__(self, X, W, A, delta):
        self.X, self.delta2 = X, delta**2
        self._spectra, self._abundances = np.ascontiguousarray(W.T), np.ascontiguousarray(A.T)
        self._power = float(np.vdot(X, X))
        self._forget()
        self._with_W = self._with_A = None

    def _forget(self):
        """The cost, and the denominators of the next update that it is made of, are of factors that changed."""
        self._cost = self._decay_of_A = self._decay_of_W = None

    @property
    def W(self):
        return self._spectra.T

    @property
    def A(self):
        return self._abundances.T

    def update_abundances(self):
        if self._with_W is None:
            self._with_W = self._spectra @ self.X.T + self.delta2, self._spectra @ self.W + self.delta2
        products, gram = self._with_W
        decay = gram @ self._abundances if self._decay_of_A is None else self._decay_of_A
        self._abundances = _multiplied(self._abundances, products, decay)
        self._forget()
        self._with_A = None

    def update_spectra(self):
        if self._with_A is None:
            self._with_A = self._abundances @ self.X, self._abundances @ self.A
        products, gram = self._with_A
        decay = gram @ self._spectra if self._decay_of_W is None else self._decay_of_W
        self._spectra = _multiplied(self._spectra, products, decay)
        self._forget()
        self._with_W = None

    @property
    def cost(self):
        if self._cost is None:
            # An update of one factor leaves what was made of the other.
            cost = 0.0
            if self._with_W is not None:
                (products, gram), A = self._with_W, self._abundances
                sums, self._decay_of_A = A.sum(axis=0), gram @ A
                cost = self._power - 2.0 * np.vdot(products, A) + np.vdot(self._decay_of_A, A)
                cost += self.delta2 * float(2.0 * sums.sum() - np.vdot(sums, sums))
            elif self._with_A is not None:
                (products, gram), W = self._with_A, self._spectra
                self._decay_of_W = gram @ W
                cost = self._power - 2.0 * np.vdot(products, W) + np.vdot(self._decay_of_W, W)
            if cost <= _SUMS_SUFFICE * self._power:
                cost = 2.0 * half_square(self.A @ self._spectra, self.X)
            self._cost = cost
        return self._cost

    def take_back(self, W, A, cost):
        """Return to factors of before, of which the cost is known."""
        self._spectra, self._abundances = W.T, A.T
        self._forget()
        self._cost, self._with_W, self._with_A = cost, None, None


class ByProducts:
    """The factors of a matrix X (pixels, bands) of few bands and many pixels, or with gaps.

    `valid` is True where there are data, of the shape of X, which is zero elsewhere; None: everywhere. `pulse` is
    called between some of the pixels of an update.

    Attributes
    ----------
    W, A : (bands, R), (pixels, R) arrays
        An update of A overwrites the abundances of two updates before.
    cost : float
    """

    def __init__(self, X, W, A, delta, valid=None):
        (N, bands), R = X.shape, W.shape[1]
        self.W, self.delta, self.pulse = W, delta, lambda: None
        # X and the model Y, each with the band of δ: the sums over pixels that spectra need are one product.
        self._images = np.zeros((2, bands + 1, whole_lanes(N)))
        self._X, self._Y = self._images
        self._X[:-1, :N], self._X[-1, :N] = X.T, delta
        self._gaps = None if valid is None else ~valid.T
        self._stores = np.zeros((2, stored_spectra(R), whole_lanes(N)))
        self._views, self._now = [store[:R, :N].T for store in self._stores], 0
        self.A[:] = A
        self._costs = np.zeros(-(-whole_lanes(N) // BLOCK))
        self._Y_is_of_W, self._cost = False, None

    @property
    def A(self):
        return self._views[self._now]

    def update_abundances(self):
        """One pass over the abundances; Y, the band of δ included, is what the next update begins with.

        Where `pulse` raises, W, A and the cost are those of before.
        """
        if not self._Y_is_of_W:
            self._make_model()
        old, new, W = self._stores[self._now], self._stores[1 - self._now], self._bordered_spectra()
        self._Y_is_of_W = False
        for first in range(0, len(self._costs), _BLOCKS):
            blocks = range(first, min(first + _BLOCKS, len(self._costs)))
            multiply_all(self._X, W, old, blocks, self._Y, new, self._costs)
            self.pulse()
        self._now, self._Y_is_of_W = 1 - self._now, True
        self._clear_gaps()
        self._cost = float(self._costs.sum()) if self._gaps is None else self._misfit()

    def update_spectra(self):
        if not self._Y_is_of_W:
            self._make_model()
        sums = self._images.reshape(-1, self._images.shape[2]) @ self._stores[self._now].T
        growth, decay = sums[:, : self.W.shape[1]].reshape(2, -1, self.W.shape[1])
        self.W = _multiplied(self.W, growth[:-1], decay[:-1])
        self._cost, self._Y_is_of_W = None, False

    @property
    def cost(self):
        if self._cost is None:
            self._make_model()
            self._cost = self._misfit()
        return self._cost

    def take_back(self, W, A, cost):
        """Return to the factors before the last update, of which the cost is known."""
        self._now, self._Y_is_of_W = next(n for n, view in enumerate(self._views) if view is A), False
        self.W, self._cost = W, cost

    def _bordered_spectra(self):
        """W' with a band of δ, and zeros for spectra beyond the last."""
        W = np.zeros((self._stores.shape[1], len(self._X)))
        W[: self.W.shape[1]] = np.column_stack([self.W.T, np.full(self.W.shape[1], self.delta)])
        return W

    def _make_model(self):
        """Y of the present factors."""
        np.matmul(self._bordered_spectra().T, self._stores[self._now], out=self._Y)
        self._clear_gaps()
        self._Y_is_of_W = True

    def _clear_gaps(self):
        """Zeros in Y where there are no data."""
        if self._gaps is not None:
            self._Y[:-1, : self._gaps.shape[1]][self._gaps] = 0.0

    def _misfit(self):
        left = (model - data for model, data in zip(self._Y[:-1], self._X))
        return float(sum(np.vdot(band, band) for band in left))


def _multiplied(factor, growth, decay):
    """factor * growth / decay; 0/0 is 0. `decay` is overwritten."""
    decay += _LEAST
    np.divide(growth, decay, out=decay)
    decay *= factor
    return decay
