"""The default method's own stages: time and memory, the passes of the maps under the machine's roof, growth."""

import tracemalloc
from dataclasses import asdict

import numba
import numpy as np

from fastccpd import fuse

from ..benchmarks.maps import problem_of, steps_of, system_of
from ..counting import CG, count, launches_of
from ..measuring import Limits, Table, least_times, speed
from .profile import COLUMNS, Watch

_SCENES = (80, 84, 204), (144, 144, 200), (512, 512, 100)
_SIDES, _MAPS = (256, 512, 1024), (6, 12, 24)


def maps():
    """Synthetic scenes at 20 dB; nothing but the package is needed."""
    limits = Limits.measured()
    for shape in _SCENES:
        yield profile_of(shape, limits)
    yield memory_of((_SCENES[1], (1024, 1024, 32)))
    yield roofline_of((144, 1024), 6, limits)
    yield growth(_SIDES, _MAPS)
    yield threads_of(_SIDES[-1], _MAPS[0])


def profile_of(shape, limits):
    """Seconds of each stage and of each pass of one run of the default."""
    problem = problem_of(shape)
    images = problem.hsi, problem.msi, problem.degradation
    fuse(*images)
    watch = Watch(1)
    with watch.on():
        result = watch.timed("rest", lambda: fuse(*images))
    whole = sum(spent.seconds for spent in watch.parts.values())
    parts = dict(sorted(watch.parts.items(), key=lambda item: (item[0] == "rest", -item[1].seconds)))
    rows = [[part, *spent.row(whole, limits)] for part, spent in parts.items()]
    stages = {name: stage.seconds for name, stage in result.stages.items() if hasattr(stage, "seconds")}
    rows += [
        [f"of it the stage {name}", f"{s:.3f}", f"{100.0 * s / whole:.0f} %", *[""] * 6] for name, s in stages.items()
    ]
    rows.append([f"limits: {limits}", *[""] * 8])
    name = "×".join(map(str, shape))
    numbers = {
        "parts": {part: asdict(spent) for part, spent in parts.items()},
        "stages": stages,
        "seconds": whole,
        "maps": result.stages["tv-maps"].number,
        "limits": limits._asdict(),
    }
    return Table(f"maps, profile, {name}", [f"{name}, {numbers['maps']} maps", *COLUMNS], rows, numbers)


def memory_of(shapes):
    """The most that the default holds at once beside images in float32, in stacks of maps; by `tracemalloc`."""
    rows, numbers = [], {}
    for shape in shapes:
        problem = problem_of(shape, dtype=np.float32)
        images = problem.hsi, problem.msi, problem.degradation
        fuse(*images)  # what is kept from a first run is not counted
        tracemalloc.start()
        try:
            result = fuse(*images)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        name, fit = "×".join(map(str, shape)), result.stages["tv-maps"]
        numbers[name] = {"peak": peak, "stack": fit.Z.nbytes, "maps": fit.number}
        megabytes = (f"{size / 1e6:.1f}" for size in (peak, fit.Z.nbytes))
        rows.append([name, f"{fit.number}", *megabytes, f"{peak / fit.Z.nbytes:.1f}"])
    head = ["memory, float32", "maps", "MB at the peak", "MB of a stack", "stacks"]
    return Table("maps, memory", head, rows, numbers)


def roofline_of(sides, number, limits):
    """Each pass of a step of conjugate gradients, made again many times, beside the limit at its intensity."""
    points, rows = [], []
    for side in sides:
        system, Z = system_of(side, number)
        for kernel, args, sharing in _last_of_each(launches_of(lambda s=system, Z=Z: steps_of(s, Z, 1))):
            counted = count(kernel, args, number)
            way = {"": lambda kernel=kernel, args=args, sharing=sharing: kernel(*args, **sharing)}
            seconds = least_times(way, 20 if side < 500 else 3)[""]
            points.append({"kernel": counted.part, "side": side, "flops": counted.flops, "bytes": counted.bytes})
            points[-1]["seconds"] = seconds
            share = limits.least_seconds(counted.flops, counted.bytes) / seconds
            rates = (f"{value / seconds / 1e9:.1f}" for value in (counted.flops, counted.bytes))
            rows.append(
                [counted.part, f"{side}×{side}×{number}", f"{1e3 * seconds:.3f}", *rates, f"{100.0 * share:.0f} %"]
            )
    rows.append([f"limits: {limits}", *[""] * 5])
    head = ["pass", "maps", "ms", "GFLOP/s", "GB/s", "of the limit"]
    return Table("maps, roofline", head, rows, {"limits": limits._asdict(), "points": points})


def _last_of_each(launches):
    """One launch of each kernel of the maps."""
    found = {kernel.__name__: (kernel, args, sharing) for kernel, args, sharing in launches}
    return [launch for launch in found.values() if count(launch[0], launch[1], 1).part != CG]


def growth(sides, numbers_of_maps):
    """A residual and five steps as pixels and maps grow, and the exponents of both."""
    series = {
        "pixels": [(side, numbers_of_maps[0]) for side in sides],
        "maps": [(sides[0], number) for number in numbers_of_maps],
    }
    numbers, rows = {}, []
    for axis, cases in series.items():
        seconds = [_seconds(*case) for case in cases]
        sizes = [side**2 if axis == "pixels" else number for side, number in cases]
        slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        numbers[axis] = {"cases": cases, "seconds": seconds, "exponent": slope}
        listed = ", ".join(f"{side}×{side}×{n}: {1e3 * t:.1f} ms" for (side, n), t in zip(cases, seconds))
        rows.append([axis, listed, f"{slope:.2f}"])
    return Table("maps, growth", ["with", "a residual and five steps", "exponent"], rows, numbers)


def _seconds(side, number):
    system, Z = system_of(side, number)
    return least_times({"": lambda: steps_of(system, Z)}, 3)[""]


def threads_of(side, number):
    """A residual and five steps on all threads, against one."""
    most, (system, Z) = numba.config.NUMBA_NUM_THREADS, system_of(side, number)

    def run(count):
        numba.set_num_threads(count)
        steps_of(system, Z)

    try:
        times = least_times({str(count): lambda count=count: run(count) for count in sorted({1, most})}, 5)
    finally:
        numba.set_num_threads(most)
    case, gain = f"{side}×{side}×{number}", times["1"] / times[str(most)]
    rows = [[case, f"{times['1']:.3f}", f"{times[str(most)]:.3f}", f"{gain:.2f}×"]]
    speeds = (speed("threads of the maps", case, "one thread", times[str(most)], times["1"]),)
    return Table("maps, threads", ["seconds", "one thread", f"{most} threads", "gain"], rows, times, speeds)
