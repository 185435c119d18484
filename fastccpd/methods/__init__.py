"""One file per system, all behind `fastccpd.fuse(..., method=name)`."""

from .b_scott import BSCOTT
from .fuse_sylvester import FUSESylvester
from .method import Method, Progress, Solution, get, make, names, register
from .nn_ccpd_nls import NNCCPDNLS
from .scott import SCOTT
from .uc_ccpd_nls import UCCCPDNLS

__all__ = [
    "BSCOTT",
    "NNCCPDNLS",
    "SCOTT",
    "UCCCPDNLS",
    "FUSESylvester",
    "Method",
    "Progress",
    "Solution",
    "get",
    "make",
    "names",
    "register",
]
