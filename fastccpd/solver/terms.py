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

    def __post_init__(self):
        cube = as_cube(self.tensor, "tensor")
        operators = self.operators
        if not isinstance(operators, tuple | list) or len(operators) != 3:
            got = f"{len(operators)} of them" if isinstance(operators, tuple | list) else type(operators).__name__
            raise TypeError(f"operators: got {got}; three, each a matrix or None for the identity, are needed")
        names = (f"operators[{mode}]" for mode in range(3))
        operators = tuple(None if P is None else as_matrix(P, name) for P, name in zip(operators, names, strict=True))
        for mode, (P, size) in enumerate(zip(operators, cube.shape, strict=True)):
            if P is not None and P.shape[0] != size:
                raise ValueError(f"operators[{mode}]: {P.shape[0]} rows, but the tensor has {size}; they must agree")
        set_fields(
            self,
            tensor=np.ascontiguousarray(cube, dtype=working_dtype(cube)),
            operators=operators,
            weight=as_number(self.weight, "weight"),
            valid=as_valid(self.valid, "valid", cube.shape),
        )

    @property
    def scene_shape(self) -> tuple[int, int, int]:
        """The rows of A, B and C that the tensor sees."""
        sizes = zip(self.operators, self.tensor.shape, strict=True)
        I, J, K = (size if P is None else P.shape[1] for P, size in sizes)
        return I, J, K


def terms_of(problem: Problem, weights: Sequence[float] = (1.0, 1.0)) -> tuple[Term, Term]:
    """The two terms of a fusion problem: the HSI sees (P1 A, P2 B, C), the MSI sees (A, B, PM C).

    Parameters
    ----------
    problem : Problem
    weights : (w_H, w_M)

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
        Term(problem.hsi, (P1, P2, None), w_H, problem.hsi_valid),
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
