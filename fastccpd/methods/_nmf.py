"""Non-negative factors X ≈ A W', pixels times spectra, by multiplicative updates with a pull to sums of one.

    A ← A * (X W + δ²) / (A (W'W + δ²)),          W ← W * (X'A) / (W A'A)

lower ‖X − A W'‖² + δ²‖1 − A 1‖²: a band of δ is appended to X and to W, which pulls the abundances of a pixel to the
sum 1; the spectra do not see it. The cost is ‖X − A W'‖², without δ.

Two ways to the same updates. With many bands and few pixels W'W and A'A are formed, once while their factor stays, and
the cost is ‖X‖² − 2⟨X'A, W⟩ + ⟨A'A, W'W⟩ where rounding allows it. With fewer bands than spectra A W'W is best done as
(A W') W; A W' is also what the cost needs, and an update reads and writes the abundances once, block by block. The
second way can leave out data that are not valid; the band of δ is there as it is written above.
"""

import numpy as np

from ._spectral import half_square

# Added to denominators, of which it changes none that is not zero: 0/0 is 0.
_LEAST = 1e-100

# Where the cost is above this part of ‖X‖², a difference of sums has a thousand times the digits that a relative change
# of 1e-8 takes.
_SUMS_SUFFICE = 1e-5

# Numbers of a block of abundances.
BLOCK = 1 << 15


class BySums:
    """The factors of a matrix X (pixels, bands) of many bands and few pixels.

    Attributes
    ----------
    W, A : (bands, R), (pixels, R) arrays
        Never overwritten: an update makes new ones.
    cost : float
    """

    def __init__(self, X, W, A, delta):
        self.X, self.W, self.A, self.delta2 = X, W, A, delta**2
        self._power = float(np.vdot(X, X))
        self._with_W = self._with_A = self._cost = None

    def update_abundances(self):
        if self._with_W is None:
            self._with_W = self.X @ self.W, self.W.T @ self.W
        products, gram = self._with_W
        self.A = _multiplied(self.A, products + self.delta2, self.A @ (gram + self.delta2))
        self._with_A = self._cost = None

    def update_spectra(self):
        if self._with_A is None:
            self._with_A = self.X.T @ self.A, self.A.T @ self.A
        products, gram = self._with_A
        self.W = _multiplied(self.W, products, self.W @ gram)
        self._with_W = self._cost = None

    @property
    def cost(self):
        if self._cost is None:
            # An update of one factor leaves what was made of the other.
            pairs = (self._with_W, self.A), (self._with_A, self.W)
            known, cost = [(sums, factor) for sums, factor in pairs if sums is not None], 0.0
            if known:
                (products, gram), factor = known[0]
                cost = self._power - 2.0 * np.vdot(products, factor) + np.vdot(factor @ gram, factor)
            if not known or cost <= _SUMS_SUFFICE * self._power:
                cost = 2.0 * half_square(self.A @ self.W.T, self.X)
            self._cost = cost
        return self._cost

    def take_back(self, W, A, cost):
        """Return to factors of before, of which the cost is known."""
        self.W, self.A, self._cost = W, A, cost
        self._with_W = self._with_A = None


class ByProducts:
    """The factors of a matrix X (pixels, bands) of few bands and many pixels, or with gaps.

    `valid` is True where there are data, of the shape of X, which is zero elsewhere; None: everywhere.

    Attributes
    ----------
    W, A : (bands, R), (pixels, R) arrays
        An update of A overwrites the abundances of two updates before.
    cost : float
    """

    def __init__(self, X, W, A, delta, valid=None):
        self.W, self.A, self.delta = W, A, delta
        self._X = _bordered(X, delta)
        self._valid = None if valid is None else _bordered(valid, True)
        self._spare, self._Y = np.empty_like(A), np.empty_like(self._X)
        self._Y_is_of_W, self._cost = False, None
        self.pulse = lambda: None

    def update_abundances(self):
        """One pass over the abundances; Y, the band of δ included, is what the next update begins with.

        `pulse` is called between blocks of pixels. Where it raises, W, A and the cost are those of before.
        """
        new, (W, W_back), cost = self._spare, self._bordered_spectra(), 0.0
        known, self._Y_is_of_W = self._Y_is_of_W, False
        for rows in self._blocks():
            if not known:
                self._model(rows, self.A, W_back)
            new[rows] = _multiplied(self.A[rows], self._X[rows] @ W, self._Y[rows] @ W)
            cost += self._model(rows, new, W_back)
            self.pulse()
        self._spare, self.A, self._cost, self._Y_is_of_W = self.A, new, cost, True

    def update_spectra(self):
        if not self._Y_is_of_W:
            self._sum_up()
        self.W = _multiplied(self.W, (self._X.T @ self.A)[:-1], (self._Y.T @ self.A)[:-1])
        self._cost, self._Y_is_of_W = None, False

    @property
    def cost(self):
        if self._cost is None:
            self._sum_up()
        return self._cost

    def take_back(self, W, A, cost):
        """Return to the factors before the last update, of which the cost is known."""
        self._spare, self._Y_is_of_W = self.A, False
        self.W, self.A, self._cost = W, A, cost

    def _blocks(self):
        step = max(1, BLOCK // self.A.shape[1])
        return (slice(start, start + step) for start in range(0, len(self.A), step))

    def _bordered_spectra(self):
        """W with a band of δ, and its transpose row by row: a product with so few columns is slow otherwise."""
        W = np.vstack([self.W, np.full(self.W.shape[1], self.delta)])
        return W, np.ascontiguousarray(W.T)

    def _model(self, rows, A, W_back):
        """Make Y = A W' of some pixels, without what is not valid, and return their cost."""
        Y = np.matmul(A[rows], W_back, out=self._Y[rows])
        if self._valid is not None:
            Y *= self._valid[rows]
        left = Y - self._X[rows]
        left[:, -1] = 0.0
        return float(np.vdot(left, left))

    def _sum_up(self):
        _, W_back = self._bordered_spectra()
        self._cost, self._Y_is_of_W = sum(self._model(rows, self.A, W_back) for rows in self._blocks()), True


def _bordered(columns, last):
    """`columns` and one more of the same value everywhere."""
    return np.column_stack([columns, np.full(len(columns), last)])


def _multiplied(factor, growth, decay):
    """factor * growth / decay; 0/0 is 0. `decay` is overwritten."""
    decay += _LEAST
    np.divide(growth, decay, out=decay)
    decay *= factor
    return decay
