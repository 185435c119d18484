"""What "tv-maps", "nn-ccpd-auto" and "auto" share: the stages that do not depend on a random start."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ..estimation import MapFit, Mend, Noise, Shared, Subspace, fit_maps, mend_of, noise_of, subspace_of
from ..estimation.subspace import MOST
from ..model.checks import as_count, is_in_range, set_fields
from ..model.problem import Problem
from ..model.types import Callback
from .method import Compiled

# Stacks of P maps on the fine grid that the maps stage holds at its peak, as if in float64: most of them are float32,
# and of half that size.
_STACKS = 7.5


@dataclass(frozen=True, kw_only=True)
class Staged(Compiled):
    """A method that begins with noise → subspace → tv-maps, made once.

    Parameters
    ----------
    max_iter : int
        Iterations of each stage, at most; the path of the maps' weight has twelve steps.
    """

    max_iter: int = 400

    nonnegative: ClassVar[bool] = True
    shares: ClassVar[bool] = True
    memory_is_for: ClassVar[str] = "maps in float32"

    def __post_init__(self):
        set_fields(self, max_iter=as_count(self.max_iter, "max_iter", least=0))

    def prepare(
        self,
        problem: Any,
        *,
        callback: Callback | None = None,
        time_limit: float | None = None,
        shared: Shared | None = None,
    ) -> "Prepared":
        how = {"max_iter": self.max_iter, "callback": callback, "time_limit": time_limit, "shared": shared}
        return prepare(problem, mends=self._mends, **how)

    @property
    def _mends(self):
        """Whether maps are shown that operators are mended for."""
        return False

    def memory_needed(
        self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike, shared: Shared | None = None
    ) -> int:
        (I, J, _), K = msi_shape, hsi_shape[2]
        maps = min(MOST, K) if shared is None else shared.spectra.shape[1]
        return 8 * (int(_STACKS * I * J * maps) + 4 * int(np.prod(hsi_shape)) + 12 * K * K)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A problem and what was found from its images once, whatever the number of starts.

    `fit` is None where the images are not finite: nothing can be made of them. `part`: they are a part of a scene, and
    what was found is that of the whole. `mend`: what makes images agree that do not, if maps were fitted with it.
    """

    problem: Problem
    noise: Noise | None = None
    subspace: Subspace | None = None
    fit: MapFit | None = None
    part: bool = False
    mend: Mend | None = None

    @property
    def stages(self) -> dict[str, Any]:
        """The stages by name, in their order."""
        mend = {} if self.mend is None else {"mend": self.mend}
        return {"noise": self.noise, **mend, "subspace": self.subspace, "tv-maps": self.fit}


def prepare(
    problem: Problem | Prepared,
    *,
    max_iter: int | None = None,
    callback: Callback | None = None,
    time_limit: float | None = None,
    shared: Shared | None = None,
    mends: bool = False,
) -> Prepared:
    """noise → subspace → tv-maps."""
    if isinstance(problem, Prepared):
        return problem
    if not (is_in_range(problem.hsi) and is_in_range(problem.msi)):
        return Prepared(problem)
    if shared is not None:
        known = {"spectra": shared.spectra, "weight": shared.weight, "errors": shared.errors}
        how = {"max_iter": max_iter, "callback": callback, "time_limit": time_limit}
        fit = fit_maps(problem, shared.noise, shared.subspace, **known, **how)
        return Prepared(problem, shared.noise, shared.subspace, fit, part=True)
    noise, fitted, mend = noise_of(problem), problem, None
    mended = mend_of(problem, noise) if mends else None
    if mended is not None:
        mend, noise = mended
        fitted = replace(problem, degradation=mend.degradation, check_finite=False)
    subspace = subspace_of(fitted, noise)
    fit = fit_maps(fitted, noise, subspace, max_iter=max_iter, callback=callback, time_limit=time_limit)
    return Prepared(problem, noise, subspace, fit if mend is None else mend.placed(fit), mend=mend)
