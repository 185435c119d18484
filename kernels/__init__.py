"""Compiled kernels for coupled CP decompositions: public, documented, and knowing nothing of images.

Third-order tensors, float32 and float64, C order. No routine forms a Khatri-Rao matrix. Results have the same bytes for
any number of threads and any Numba threading layer, and any number of Python threads may call at once.
"""

from .block_cholesky import block_cholesky, block_solve
from .c_routines import address, include
from .gram import gram, hadamard_gram
from .jtj import jtj_apply
from .mttkrp import mttkrp, mttkrp_all
from .operators import operator_apply
from .reconstruct import reconstruct, residual_norm2

__all__ = [
    "address",
    "block_cholesky",
    "block_solve",
    "gram",
    "hadamard_gram",
    "include",
    "jtj_apply",
    "mttkrp",
    "mttkrp_all",
    "operator_apply",
    "reconstruct",
    "residual_norm2",
]
