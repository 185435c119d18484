"""NN-C-CPD-NLS: the non-negative coupled CP decomposition whose factors are squares."""

from dataclasses import dataclass
from typing import ClassVar

from ._ccpd_nls import CoupledNLS
from .method import register

_MODES = ("rows", "columns", "bands")


@register("nn-ccpd-nls")
@dataclass(frozen=True, kw_only=True)
class NNCCPDNLS(CoupledNLS):
    """Non-negative coupled CPD by nonlinear least squares on squared parameters.

    Xi-Yuan Liu, Xiao-Feng Gong, Lei Wang, Wei Feng, Qiu-Hua Lin: A Parametric Non-negative Coupled Canonical Polyadic
    Decomposition Algorithm for Hyperspectral Super-Resolution. With step="dogleg" and curvature="gauss-newton" it is
    the paper's algorithm; the defaults find the same optimum in far fewer Hessian products.

    `nonnegative_modes` names the factors that are squares; the others are unconstrained.
    """

    nonnegative_modes: tuple[str, ...] = _MODES

    nonnegative: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        modes = (self.nonnegative_modes,) if isinstance(self.nonnegative_modes, str) else tuple(self.nonnegative_modes)
        unknown = set(modes) - set(_MODES)
        if unknown:
            raise ValueError(f"nonnegative_modes: got {sorted(unknown)}; 'rows', 'columns', 'bands' are known")
        object.__setattr__(self, "nonnegative_modes", modes)

    def _parametrisation(self):
        return tuple("square" if mode in self.nonnegative_modes else "identity" for mode in _MODES)
