"""One file per system, all behind `fastccpd.fuse(..., method=name)`."""

from ..model.result import Progress
from .auto import Auto
from .b_scott import BSCOTT
from .cbtd_apg import CBTDAPG
from .cnmf import CNMF
from .fuse_sylvester import FUSESylvester
from .gsa import GSA
from .hysure import HySure
from .ltmr import LTMR
from .method import Method, Solution, get, make, names, register
from .nctcp import NCTCP
from .nn_btd_mu import NNBTDMU
from .nn_ccpd_auto import NNCCPDAuto
from .nn_ccpd_nls import NNCCPDNLS
from .nnstf import NNSTF
from .nssr import NSSR
from .scott import SCOTT
from .stereo import Stereo
from .tv_maps import TVMaps
from .uc_ccpd_nls import UCCCPDNLS

#: What `fuse` takes where no method is named.
DEFAULT = "auto"

__all__ = [
    "BSCOTT",
    "CBTDAPG",
    "CNMF",
    "DEFAULT",
    "GSA",
    "LTMR",
    "NCTCP",
    "NNBTDMU",
    "NNCCPDNLS",
    "NNSTF",
    "NSSR",
    "SCOTT",
    "UCCCPDNLS",
    "Auto",
    "FUSESylvester",
    "HySure",
    "Method",
    "NNCCPDAuto",
    "Progress",
    "Solution",
    "Stereo",
    "TVMaps",
    "get",
    "make",
    "names",
    "register",
]
