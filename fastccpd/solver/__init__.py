"""Solvers to build on: a trust-region method that knows no tensors, and the coupled CP decomposition that does."""

from .coupled_cpd import CoupledCPD
from .objective import Objective
from .parametrisation import PARAMETRISATIONS, Parametrisation
from .regularisers import Regulariser, Ridge, Smoothness, Subspace
from .terms import Term, terms_of
from .trust_region import Options, Rules, State, minimize

__all__ = [
    "PARAMETRISATIONS",
    "CoupledCPD",
    "Objective",
    "Options",
    "Parametrisation",
    "Regulariser",
    "Ridge",
    "Rules",
    "Smoothness",
    "State",
    "Subspace",
    "Term",
    "minimize",
    "terms_of",
]
