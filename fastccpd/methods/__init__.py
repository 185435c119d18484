"""One file per system, all behind `fastccpd.fuse(..., method=name)`."""

from .b_scott import BSCOTT
from .cbtd_apg import CBTDAPG
from .fuse_sylvester import FUSESylvester
from .hysure import HySure
from .method import Method, Progress, Solution, get, make, names, register
from .nn_ccpd_auto import NNCCPDAuto
from .nn_ccpd_nls import NNCCPDNLS
from .scott import SCOTT
from .stereo import Stereo
from .uc_ccpd_nls import UCCCPDNLS

#: The method of whoever chooses none.
DEFAULT = "nn-ccpd-auto"

__all__ = [
    "BSCOTT",
    "CBTDAPG",
    "DEFAULT",
    "NNCCPDNLS",
    "SCOTT",
    "UCCCPDNLS",
    "FUSESylvester",
    "HySure",
    "Method",
    "NNCCPDAuto",
    "Progress",
    "Solution",
    "Stereo",
    "get",
    "make",
    "names",
    "register",
]
