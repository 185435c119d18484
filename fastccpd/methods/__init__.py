"""One file per system, all behind `fastccpd.fuse(..., method=name)`."""

from .method import Method, Progress, Solution, get, make, names, register
from .nn_ccpd_nls import NNCCPDNLS
from .uc_ccpd_nls import UCCCPDNLS

__all__ = ["NNCCPDNLS", "UCCCPDNLS", "Method", "Progress", "Solution", "get", "make", "names", "register"]
