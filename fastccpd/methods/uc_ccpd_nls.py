"""UC-C-CPD-NLS: the same coupled CP decomposition without the sign constraint."""

from dataclasses import dataclass

from ._ccpd_nls import CoupledNLS
from .method import register


@register("uc-ccpd-nls")
@dataclass(frozen=True, kw_only=True)
class UCCCPDNLS(CoupledNLS):
    """Unconstrained coupled CPD by nonlinear least squares.

    Parameters
    ----------
    **options
        Those of `CoupledNLS`.

    References
    ----------
    .. [1] The comparison method of Xi-Yuan Liu, Xiao-Feng Gong, Lei Wang, Wei Feng, Qiu-Hua Lin: A Parametric
       Non-negative Coupled Canonical Polyadic Decomposition Algorithm for Hyperspectral Super-Resolution.
    """
