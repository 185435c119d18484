"""Our MTTKRP inside other packages' decompositions, which run unchanged on it.

tensorly asks its tenalg backend for `unfolding_dot_khatri_rao`, and pyttb asks the tensor itself for `mttkrp`; both ask
for one mode at a time and form a Khatri-Rao matrix for it. The two adapters here answer with `kernels.mttkrp`, which
forms none. What the kernels do not cover (other orders, complex or integer data, other array libraries) is left to the
package's own routine.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .kernels import mttkrp


@contextmanager
def tensorly_on_fastccpd() -> Iterator[None]:
    """Within the context, tensorly's CP decompositions (parafac, non_negative_parafac_hals, …) run on our kernels.

    Examples
    --------
    >>> import tensorly as tl  # doctest: +SKIP
    >>> from fastccpd.adapters import tensorly_on_fastccpd  # doctest: +SKIP
    >>> with tensorly_on_fastccpd():  # doctest: +SKIP
    ...     weights, factors = tl.decomposition.parafac(tensor, rank=30)
    """
    tenalg = import_module("tensorly.tenalg")  # most of its functions come into being at run time
    backend = tenalg.current_backend()
    name = "unfolding_dot_khatri_rao"
    own = getattr(backend, name)

    def unfolding_dot_khatri_rao(tensor, cp_tensor, mode):
        weights, factors = cp_tensor
        if not _covered(tensor, factors):
            return own(tensor, cp_tensor, mode)
        product = _any_order(tensor, factors, mode)
        return product if weights is None else product * np.reshape(weights, (1, -1))

    tenalg.register_backend_method(name, unfolding_dot_khatri_rao)
    try:
        yield
    finally:
        tenalg.register_backend_method(name, own)


def pyttb_tensor(array: ArrayLike) -> Any:
    """A `pyttb.tensor` of an array, whose MTTKRPs are ours: give it to `pyttb.cp_als` and the like.

    Nothing is copied of an array in Fortran order, which is how pyttb keeps its data.

    Examples
    --------
    >>> import pyttb  # doctest: +SKIP
    >>> from fastccpd.adapters import pyttb_tensor  # doctest: +SKIP
    >>> model, start, info = pyttb.cp_als(pyttb_tensor(array), rank=30)  # doctest: +SKIP
    """
    import pyttb

    class Tensor(pyttb.tensor):
        """A dense tensor that multiplies with Khatri-Rao products by fastccpd's kernels."""

        def mttkrp(self, U, n):
            factors = U.factor_matrices if isinstance(U, pyttb.ktensor) else U
            weighted = isinstance(U, pyttb.ktensor) and not np.all(U.weights == 1.0)
            if weighted or not _covered(self.data, factors):
                return super().mttkrp(U, n)
            return _any_order(self.data, factors, int(n))

    return Tensor(np.asfortranarray(array), copy=False)


def _covered(tensor, factors):
    """Whether the kernels have what it takes: third order, NumPy, one float dtype."""
    dtype = getattr(tensor, "dtype", None)
    return (
        isinstance(tensor, np.ndarray)
        and tensor.ndim == 3
        and dtype in (np.float32, np.float64)
        and all(isinstance(factor, np.ndarray) and factor.dtype == dtype for factor in factors)
    )


def _any_order(tensor, factors, mode):
    """The MTTKRP of a tensor in C or Fortran order; of the latter the transposed view is in C order."""
    if tensor.flags.f_contiguous and not tensor.flags.c_contiguous:
        return mttkrp(tensor.T, list(factors)[::-1], 2 - mode)
    return mttkrp(tensor, list(factors), mode)
