"""What a decomposition of a scene is made with, and what comes of it."""

from dataclasses import dataclass, field

from ..model.problem import Factors
from ..model.result import Status, Trace
from .rank_path import RankPath, effective_rank


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Factors of a scene: the fourth stage of the default method.

    Attributes
    ----------
    factors : Factors
    of : "maps" or "images"
        What they were fitted to.
    chi2, dof, risk : float or None
        χ² of the images over their noise, degrees of freedom, estimated risk; None where only the maps were looked at.
    status : Status
    trace : Trace
        Over all fits at its rank, in the caller's units.
    seconds : float
    path : RankPath or None
        The ranks that were tried, if it was to be found.
    """

    factors: Factors
    of: str
    chi2: float | None
    dof: float
    risk: float | None
    status: Status
    trace: Trace
    seconds: float
    path: RankPath | None = None

    @property
    def n_iter(self) -> int:
        return max(0, len(self.trace) - 1)

    @property
    def effective_rank(self) -> int:
        """The number of terms that are not pruned."""
        return effective_rank(self.factors)


@dataclass(frozen=True)
class Choice:
    """Which of maps and factors is the image: the last stage of the default method.

    Attributes
    ----------
    shown : "maps" or "factors"
    reason : str
        One sentence.
    risks : dict
        The estimated risk of "maps" and of "factors"; None for what was not made.
    bound : float
        No decomposition of this rank has a lower risk; NaN where the fit was ended early.
    seconds : float
        What the bound took; the decomposition has its own.
    status : Status
    trace : Trace
        Empty: nothing is iterated.
    """

    shown: str
    reason: str
    risks: dict[str, float | None]
    bound: float
    seconds: float
    status: Status = Status.FINISHED
    trace: Trace = field(default_factory=Trace)


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How factors are fitted; what the methods "nn-ccpd-auto" and "auto" let a user choose of it.

    Attributes
    ----------
    rank : int or "auto"
        "auto" adds terms until the maps' own error is larger than what the factors leave of them.
    ridge : float or "auto"
        μ, for data divided by the scene's scale; "auto" is a small one, at a rank that is found none at the end.
    max_iter, ftol
        As of `solver.Rules`, for each fit.
    closeness : float
        Where rank is "auto", no more terms are tried when this part of the maps' energy is left.
    """

    rank: int | str = "auto"
    ridge: float | str = "auto"
    max_iter: int = 400
    ftol: float = 1e-2
    closeness: float = 1e-4
