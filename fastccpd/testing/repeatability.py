"""Checks that the same request gives the same result, on any thread, beside anything else."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numba
import numpy as np

from ..estimation import verdict_of
from ..kernels.jit import COMPILED, sharing_all_work
from ..model.problem import Factors, Problem
from .cases import small_case
from .running import checked, require, run, same_bytes


@checked
def check_same_seed_gives_same_bytes(method):
    """A seed, or a Generator in one state, gives the same bytes each time and on any number of threads."""
    expected = run(method, rng=5, threads=1)
    require(same_bytes(run(method, rng=5, threads=1), expected), "the same seed gives another result the second time")
    require(same_bytes(run(replace(method), rng=5, threads=1), expected), "an equal method gives another result")
    require(same_bytes(run(method, rng=np.random.default_rng(5)), expected), "a Generator gives another result")
    with sharing_all_work() as shared:
        require(same_bytes(run(method, rng=5), expected), "several threads give another result than one")
    if method.uses_kernels and numba.get_num_threads() > 1 and COMPILED:
        launched = shared.launches
        with sharing_all_work() as judging:  # which every fusion does, whatever the method
            hsi, msi, degradation = small_case()
            verdict_of(Problem(hsi, msi, degradation))
        require(launched > judging.launches, "uses_kernels is True, but no kernel was launched on several threads")


@checked
def check_no_hidden_state(method):
    """What was fused in between, of another shape and dtype, does not show."""
    before = run(method)
    hsi, msi, degradation = small_case((48, 32, 12), noise=0.3)
    run(method, (hsi.astype(np.float32), msi.astype(np.float32), degradation), rng=9)
    require(same_bytes(run(method), before), "the result depends on what was fused before")


@checked
def check_seed_matters_only_with_random_starts(method):
    """Another seed gives another result if the method has random starts, and the same bytes if it has none.

    Maps have no random start, whatever the method may do elsewhere; factors, which may be shown for one seed alone,
    have.
    """
    first, second = run(method, rng=1), run(method, rng=2)
    same = same_bytes(first, second)
    given = "the same bytes" if same else "different results"
    starts = method.has_starts and {first.shown, second.shown} != {"maps"}
    require(same != starts, f"has_starts is {method.has_starts}, but seeds 1 and 2 give {given}")


@checked
def check_several_starts(method):
    """With random starts, the best of several wins; without, more than one is refused."""
    if not method.has_starts:
        try:
            run(method, starts=2)
        except TypeError:
            return
        raise AssertionError("two starts are accepted by a method without a random start")
    result = run(method, starts=2)
    costs = result.start_costs
    if result.shown == "maps":  # which are the same for every start
        require(len(costs) == 1, f"the maps are the image, but {len(costs)} starts were made")
        return
    require(len(costs) == 2 and result.cost == min(costs), f"the cost is {result.cost}, those of the starts {costs}")
    require(costs[0] != costs[1], "both starts end at the very same cost: they did not start apart")


@checked
def check_given_start(method):
    """A start of the caller's own is gone on from, and checked; a method that cannot use one refuses it."""
    case = small_case(noise=0.1)
    first = run(method, case)
    if not method.takes_init:
        try:
            run(method, case, init=first.factors or Factors(*(np.ones((n, 1)) for n in first.sri.shape)))
        except TypeError:
            return
        raise AssertionError("a start is accepted by a method that says it cannot use one")
    if first.factors is None:
        raise AssertionError("the method takes factors as its start, but gives none")
    again = run(method, case, init=first.factors)
    # Entries at zero are moved a little, so the first cost may be a little above the last one.
    require(again.cost <= 1.01 * first.cost, f"from a result of cost {first.cost:.6g} it went to {again.cost:.6g}")
    other = run(method, case, init=first.factors, rng=1)
    require(same_bytes(other, again), "beside a given start the seed still matters")
    cut = Factors(first.factors.A[:-1], first.factors.B, first.factors.C)
    try:
        run(method, case, init=cut)
    except ValueError as refusal:
        require(str(refusal).startswith("init: "), f"a start of the wrong shape is refused, but with: {refusal}")
        return
    raise AssertionError("a start of the wrong shape is accepted")


@checked
def check_settings_are_left_alone(method):
    """The global random state, NumPy's error handling, the warning filters and Numba's threads are as before."""

    def settings():
        state: Any = np.random.get_state()  # noqa: NPY002 - the point is that nobody uses it
        return [(state[1].tobytes(), state[2:]), np.geterr(), list(warnings.filters), numba.get_num_threads()]

    run(method)  # a first run may import what it needs
    before = settings()
    run(method)
    names = ("the global random state", "NumPy's error handling", "the warning filters", "Numba's threads")
    changed = [name for name, old, new in zip(names, before, settings()) if old != new]
    require(not changed, f"a run changes {', '.join(changed)}")


@checked
def check_concurrent_calls(method):
    """Runs side by side in several Python threads give what they give alone."""
    cases = [small_case(noise=noise) for noise in (0.0, 0.2)] * 2
    expected = [run(method, case) for case in cases[:2]] * 2
    with ThreadPoolExecutor(len(cases)) as pool:
        results = list(pool.map(lambda case: run(method, case), cases))
    require(all(map(same_bytes, results, expected)), "a run beside others gives another result")
