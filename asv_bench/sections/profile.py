"""Where the time of a whole fusion goes, and how far each part is from what the machine can do.

The kernels and the CG loop are timed from outside, while `fuse` runs to its own end. Parts whose data stay in the
caches may come nearer to the limit than memory would let them, or pass it.
"""

import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from unittest.mock import patch

from fastccpd import fuse
from fastccpd.solver import trust_region
from fastccpd.solver.coupled_cpd import CoupledCPD

from ..benchmarks import pairs, solvers
from ..counting import CG, count, vectors_of_cg, watching
from ..measuring import Limits, Table, seconds_of

# The solver itself, whatever `fuse` does by default.
_METHOD = {"method": "nn-ccpd-nls"}
COLUMNS = ["seconds", "of the whole", "calls", "GFLOP", "GB", "GFLOP/s", "GB/s", "of the limit"]


def profile():
    """Needs the real scenes, in the folder that FASTCCPD_DATA names."""
    *_, large_rank = pairs.LARGE
    cases = {
        "Salinas 5 dB R=30": (lambda: solvers.pair_of("salinas-a", 5.0), {"rank": 30, **_METHOD}),
        "Indian Pines 30 dB R=60": (lambda: solvers.pair_of("indian-pines", 30.0), {"rank": 60, **_METHOD}),
        "256x256x200 / 1024x1024x8 R=64": (
            lambda: pairs.smooth_pair(pairs.LARGE),
            {"rank": large_rank, "max_iter": 10, **_METHOD},
        ),
    }
    limits = Limits.measured()
    for name, (case, options) in cases.items():
        yield _profile_of(name, case(), options, limits)


def _profile_of(name, case, options, limits):
    fuse(*case, **options | {"max_iter": 2})
    untimed = min(seconds_of(lambda: fuse(*case, **options)) for _ in range(2))
    # The fastest of a few runs is the one that the machine disturbed least.
    whole, parts, result = min((_watched(case, options) for _ in range(3)), key=lambda run: run[0])
    parts = dict(sorted(parts.items(), key=lambda item: (item[0] == "rest", -item[1].seconds)))
    rows = [[part, *spent.row(whole, limits)] for part, spent in parts.items()]
    rows.append([f"whole ({untimed:.2f} s when no part is timed)", f"{whole:.3f}", "100 %", *[""] * 6])
    rows.append([f"limits: {limits}", *[""] * 8])
    numbers = {
        "parts": {part: asdict(spent) for part, spent in parts.items()},
        "seconds": whole,
        "seconds when no part is timed": untimed,
        "iterations": result.n_iter,
        "limits": limits._asdict(),
    }
    return Table(f"profile, {name}", [f"{name}, {result.n_iter} iterations", *COLUMNS], rows, numbers)


def _watched(case, options):
    """(seconds, parts, result) of one fusion."""
    watch = Watch(options["rank"])
    with watch.on():
        result = watch.timed("rest", lambda: fuse(*case, **options))
    return sum(spent.seconds for spent in watch.parts.values()), watch.parts, result


@dataclass
class Spent:
    """What one part has taken and done so far."""

    seconds: float = 0.0
    calls: int = 0
    flops: float = 0.0
    bytes: float = 0.0

    def row(self, whole, limits):
        start = [f"{self.seconds:.3f}", f"{100.0 * self.seconds / whole:.0f} %", str(self.calls)]
        if not self.flops:
            return [*start, *[""] * 5]
        rates = self.flops / self.seconds / 1e9, self.bytes / self.seconds / 1e9
        share = limits.least_seconds(self.flops, self.bytes) / self.seconds
        return [
            *start,
            f"{self.flops / 1e9:.2f}",
            f"{self.bytes / 1e9:.2f}",
            *(f"{rate:.1f}" for rate in rates),
            f"{100.0 * share:.0f} %",
        ]


class Watch:
    """Seconds by part: of each timed call, what is not spent in calls timed within it."""

    def __init__(self, rank):
        self.rank = rank
        self.parts = defaultdict(Spent)
        self._within = 0.0
        self._counts = {}

    def on(self):
        stack = ExitStack()
        stack.enter_context(watching(self._launch))
        for owner, name, part in (
            (trust_region, "steihaug", self._steps),
            (CoupledCPD, "hessp", self._around),
            (CoupledCPD, "precondition", self._around),
        ):
            stack.enter_context(patch.object(owner, name, part(getattr(owner, name))))
        return stack

    def timed(self, part, call):
        result, seconds = self._clocked(call)
        self.parts[part].seconds += seconds
        return result

    def _clocked(self, call):
        """What a call returns, and its seconds without those of calls timed within it."""
        outer, self._within = self._within, 0.0
        began = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - began
        own, self._within = seconds - self._within, outer + seconds
        return result, own

    def _launch(self, launch, kernel, args, sharing):
        # How often a step multiplied by H shows afterwards only.
        again = kernel.__name__ == "newton_step"
        key = kernel.__name__, getattr(args[0], "shape", None)
        if not again and key not in self._counts:
            self._counts[key] = count(kernel, args, self.rank)
        result, seconds = self._clocked(lambda: launch(kernel, *args, **sharing))
        counted = count(kernel, args, self.rank) if again else self._counts[key]
        part = f"{counted.part}, {counted.shape}" if counted.shape else counted.part
        self.parts[part].seconds += seconds
        if part != CG:
            self._add(part, 1, counted.flops, counted.bytes)
        return result

    def _steps(self, steihaug):
        def call(g, *args, **options):
            step = self.timed(CG, lambda: steihaug(g, *args, **options))
            if not hasattr(options.get("walk"), "whole"):
                self._add(CG, step.products, *vectors_of_cg(step.products, g.size))
            return step

        return call

    def _add(self, part, calls, flops, moved):
        spent = self.parts[part]
        spent.calls += calls
        spent.flops += flops
        spent.bytes += moved

    def _around(self, method):
        """What the objective does around its kernels is not the CG loop's."""
        return lambda objective, vector: self.timed("rest", lambda: method(objective, vector))
