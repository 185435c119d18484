"""What a coupled decomposition is fitted to: tensors that see one set of factors, each through operators of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model.checks import as_cube, as_matrix, as_number, as_valid, set_fields, working_dtype
from ..model.problem import Problem


@dataclass(frozen=True, eq=False)
class Term:
    """One tensor of a coupled decomposition: ½ w ‖Y − [[P0 A, P1 B, P2 C]]‖² over the data there are.

    Parameters
    ----------
    tensor : (I', J', K') array of any real dtype
        The data Y. Becomes float32 if it is float32 or float16, else float64; not copied if it is that in C order.
    operators : three matrices, dense or scipy.sparse, or None
        How the tensor sees the rows of A, B and C; None is the identity.
    weight : float
        w, at least zero.
    valid : bool array, optional
        True where there are data: (rows, columns), (bands,) or the tensor's whole shape. What stands elsewhere, NaN
        too, is not looked at. None: everywhere.
    basis : (K', p) array, optional
        Orthonormal spectra: what Y has outside of their span is left out, and its passes cost p/K' of before
        (`solver/misfit.py`). C stays whole. None: Y as it is.
    in_basis : bool
        Whether `tensor` is Y in the basis already, (I', J', p).

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.solver import Term
    >>> halves = np.kron(np.eye(4), [[0.5, 0.5]])
    >>> Term(np.ones((4, 8, 6)), operators=(halves, None, None)).scene_shape
    (8, 8, 6)
    """

    tensor: np.ndarray
    operators: Sequence[Any] = (None, None, None)
    weight: float = 1.0
    valid: np.ndarray | None = None
    basis: np.ndarray | None = None
    in_basis: bool = False

    def __post_init__(self):
        cube = as_cube(self.tensor, "tensor")
        operators = self.operators
        if not isinstance(operators, tuple | list) or len(operators) != 3:
            got = f"{len(operators)} of them" if isinstance(operators, tuple | list) else type(operators).__name__
            raise TypeError(f"operators: got {got}; three, each a matrix or None for the identity, are needed")
        names = (f"operators[{mode}]" for mode in range(3))
        operators = tuple(None if P is None else as_matrix(P, name) for P, name in zip(operators, names, strict=True))
        bands = np.shape(self.basis)[:1] if self.in_basis and self.basis is not None else cube.shape[2:]
        for mode, (P, size) in enumerate(zip(operators, (*cube.shape[:2], *bands), strict=True)):
            if P is not None and P.shape[0] != size:
                raise ValueError(f"operators[{mode}]: {P.shape[0]} rows, but the tensor has {size}; they must agree")
        set_fields(
            self,
            tensor=np.ascontiguousarray(cube, dtype=working_dtype(cube)),
            operators=operators,
            weight=as_number(self.weight, "weight"),
            valid=as_valid(self.valid, "valid", cube.shape),
        )
        if self.basis is not None:
            set_fields(self, basis=_as_basis(self.basis, *bands))
            if self.in_basis and self.basis.shape[1] != cube.shape[2]:
                given = f"{self.basis.shape[1]} spectra, but the tensor has {cube.shape[2]} in it"
                raise ValueError(f"basis: {given}; they must agree")
            if self.valid is not None:
                raise ValueError("basis: a tensor with gaps has no whole spectra to project; leave basis or valid out")

    @property
    def scene_shape(self) -> tuple[int, int, int]:
        """The rows of A, B and C that the tensor sees."""
        sizes = zip(self.operators, self.shape, strict=True)
        I, J, K = (size if P is None else P.shape[1] for P, size in sizes)
        return I, J, K

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of Y, whole."""
        I, J, K = self.tensor.shape
        return I, J, K if self.basis is None else len(self.basis)


def _as_basis(value, bands):
    """`value` as orthonormal columns of as many entries as there are bands."""
    needed = f"an array ({bands}, p) of orthonormal columns is needed"
    basis = np.ascontiguousarray(value, dtype=np.float64) if isinstance(value, np.ndarray) else None
    if basis is None or basis.ndim != 2 or len(basis) != bands or not 1 <= basis.shape[1] <= bands:
        got = type(value).__name__ if basis is None else f"shape {basis.shape}"
        raise ValueError(f"basis: got {got}; {needed}")
    if not np.allclose(basis.T @ basis, np.eye(basis.shape[1]), rtol=0.0, atol=1e-8):
        raise ValueError(f"basis: got columns that are not orthonormal; {needed}")
    return basis


def terms_of(
    problem: Problem, weights: Sequence[float] = (1.0, 1.0), basis: np.ndarray | None = None
) -> tuple[Term, Term]:
    """The two terms of a fusion problem: the HSI sees (P1 A, P2 B, C), the MSI sees (A, B, PM C).

    Parameters
    ----------
    problem : Problem
    weights : (w_H, w_M)
    basis : (K, p) array, optional
        Of the HSI's spectra, as of `Term`.

    Returns
    -------
    (Term, Term)
        Of the HSI and of the MSI; no image is copied.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; a fastccpd.Problem is needed")
    w_H, w_M = (as_number(weight, f"weights[{n}]") for n, weight in enumerate(weights))
    P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM
    return (
        Term(problem.hsi, (P1, P2, None), w_H, problem.hsi_valid, basis),
        Term(problem.msi, (None, None, PM), w_M, problem.msi_valid),
    )


def scene_shape_of(terms: Sequence[Term]) -> tuple[int, int, int]:
    """The one scene that all terms see; refused where they do not agree."""
    for n, term in enumerate(terms):
        if not isinstance(term, Term):
            raise TypeError(f"terms[{n}]: got {type(term).__name__}; a fastccpd.solver.Term is needed")
        if term.scene_shape != terms[0].scene_shape:
            shapes = f"of shape {term.scene_shape}, but terms[0] one of shape {terms[0].scene_shape}"
            raise ValueError(f"terms[{n}]: sees a scene {shapes}; they must agree")
    if not terms:
        raise ValueError("terms: got none; at least one is needed")
    return terms[0].scene_shape
