"""Our MTTKRP inside other packages' decompositions, which run unchanged on it.

tensorly asks its tenalg backend for `unfolding_dot_khatri_rao`, and pyttb asks the tensor itself for `mttkrp` or, where
it wants all modes, `mttkrps`; both form Khatri-Rao matrices. The adapters here answer with `kernels.mttkrp` and
`kernels.mttkrp_all`, which form none. What the kernels do not cover (other orders, complex or integer data, strided
views, other array libraries) is left to the package's own routine.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .kernels import mttkrp, mttkrp_all

__all__ = ["pyttb_on_fastccpd", "pyttb_tensor", "tensorly_on_fastccpd"]

# Who holds a package on our kernels: the first that comes puts them in, the last that goes takes them out.
_lock, _users, _undo = threading.Lock(), Counter(), {}


@contextmanager
def _held(package, change):
    """A package changed as long as somebody is within; `change` returns what undoes it."""
    with _lock:
        if not _users[package]:
            _undo[package] = change()
        _users[package] += 1
    try:
        yield
    finally:
        with _lock:
            _users[package] -= 1
            if not _users[package]:
                _undo.pop(package)()


@contextmanager
def tensorly_on_fastccpd() -> Iterator[None]:
    """Within the context all of tensorly that asks for an MTTKRP runs on our kernels.

    That is parafac, non_negative_parafac, non_negative_parafac_hals, constrained_parafac, the gradient of a CP tensor,
    and the classes of them, on either of tensorly's tenalg backends. It holds for all Python threads.

    Examples
    --------
    >>> import tensorly as tl  # doctest: +SKIP
    >>> from fastccpd.adapters import tensorly_on_fastccpd  # doctest: +SKIP
    >>> with tensorly_on_fastccpd():  # doctest: +SKIP
    ...     weights, factors = tl.decomposition.parafac(tensor, rank=30)
    """
    tenalg = import_module("tensorly.tenalg")  # most of its functions come into being at run time
    name = "unfolding_dot_khatri_rao"
    backends = [type(tenalg.load_backend(one)) for one in tenalg.available_backend_names]

    def answering_for(theirs):
        def unfolding_dot_khatri_rao(tensor, cp_tensor, mode):
            weights, factors = cp_tensor
            if not _covered(tensor, factors):
                return theirs(tensor, cp_tensor, mode)
            product = _any_order(tensor, factors, mode)
            return product if weights is None else product * np.reshape(weights, (1, -1))

        return unfolding_dot_khatri_rao

    def register(methods):
        for backend, method in methods.items():
            backend.register_method(name, method)

    def change():
        own = {backend: getattr(backend, name) for backend in backends}
        register({backend: answering_for(theirs) for backend, theirs in own.items()})
        return lambda: register(own)

    with _held("tensorly", change):
        yield


@contextmanager
def pyttb_on_fastccpd() -> Iterator[None]:
    """Within the context every dense tensor of pyttb multiplies by our kernels, also those that it makes itself.

    `pyttb_tensor` is enough for cp_als. gcp_opt makes a tensor of its own at every evaluation and asks it for all
    modes, which is one pass here. It holds for all Python threads.

    Examples
    --------
    >>> import pyttb  # doctest: +SKIP
    >>> from fastccpd.adapters import pyttb_on_fastccpd  # doctest: +SKIP
    >>> with pyttb_on_fastccpd():  # doctest: +SKIP
    ...     model, start, info = pyttb.gcp_opt(tensor, 30, pyttb.gcp.handles.Objectives.GAUSSIAN, optimizer)
    """
    import pyttb

    def give(methods):
        for name, method in methods.items():
            setattr(pyttb.tensor, name, method)

    def change():
        own = {name: getattr(pyttb.tensor, name) for name in ("mttkrp", "mttkrps")}
        give(_pyttb_methods(own["mttkrp"], own["mttkrps"]))
        return lambda: give(own)

    with _held("pyttb", change):
        yield


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

    for name, method in _pyttb_methods(pyttb.tensor.mttkrp, pyttb.tensor.mttkrps).items():
        setattr(Tensor, name, method)
    return Tensor(np.asfortranarray(array), copy=False)


def _pyttb_methods(own_mttkrp, own_mttkrps):
    """The two methods of a tensor on our kernels; what these do not cover goes to its own."""
    import pyttb

    def factors_of(tensor, U):
        """The factors if the kernels cover them, else None."""
        factors = U.factor_matrices if isinstance(U, pyttb.ktensor) else U
        weighted = isinstance(U, pyttb.ktensor) and not np.all(U.weights == 1.0)
        return None if weighted or not _covered(tensor.data, factors) else factors

    def one(tensor, U, n):
        factors = factors_of(tensor, U)
        return own_mttkrp(tensor, U, n) if factors is None else _any_order(tensor.data, factors, int(n))

    def every(tensor, U):
        factors = factors_of(tensor, U)
        return own_mttkrps(tensor, U) if factors is None else _all_modes(tensor.data, factors)

    return {"mttkrp": one, "mttkrps": every}


def _covered(tensor, factors):
    """Whether the kernels have what it takes: third order, NumPy, one float dtype, one piece of memory."""
    dtype = getattr(tensor, "dtype", None)
    return (
        isinstance(tensor, np.ndarray)
        and tensor.ndim == 3
        and dtype in (np.float32, np.float64)
        and (tensor.flags.c_contiguous or tensor.flags.f_contiguous)
        and all(isinstance(factor, np.ndarray) and factor.dtype == dtype for factor in factors)
    )


def _any_order(tensor, factors, mode):
    """The MTTKRP of a tensor in C or Fortran order; of the latter the transposed view is in C order."""
    if tensor.flags.f_contiguous and not tensor.flags.c_contiguous:
        return mttkrp(tensor.T, list(factors)[::-1], 2 - mode)
    return mttkrp(tensor, list(factors), mode)


def _all_modes(tensor, factors):
    """The same in all three modes, in one pass."""
    if tensor.flags.f_contiguous and not tensor.flags.c_contiguous:
        return list(mttkrp_all(tensor.T, list(factors)[::-1]))[::-1]
    return list(mttkrp_all(tensor, list(factors)))
