"""The kernels of the solver under the machine's roof: arithmetic intensity against GFLOP/s, on three problems.

Every launch that one iteration makes is recorded and made again, many times; the least time counts.
"""

import itertools

import numpy as np

from fastccpd import Problem
from fastccpd.solver.coupled_cpd import CoupledCPD

from ..benchmarks import pairs
from ..counting import count, launches_of
from ..measuring import Limits, Table, least_times

# (rows, columns, bands, multispectral bands, rank): the sizes of Salinas and of Indian Pines, and a large scene.
_SIZES = (80, 84, 204, 6, 30), (144, 144, 200, 6, 60), pairs.LARGE


def roofline():
    """GFLOP/s and GB/s of each kernel, beside the limit at its intensity."""
    limits = Limits.measured()
    points = [point for size in _SIZES for point in _points(size)]
    rows = []
    for point in points:
        kernel, shape, rank, flops, moved, seconds = point.values()
        rates = flops / seconds / 1e9, moved / seconds / 1e9
        rows.append([
            kernel, f"{shape} R={rank}", f"{1e3 * seconds:.3f}", f"{flops / 1e6:.1f}", f"{moved / 1e6:.2f}",
            *(f"{rate:.1f}" for rate in rates), f"{100.0 * limits.least_seconds(flops, moved) / seconds:.0f} %",
        ])  # fmt: skip
    rows.append([f"limits: {limits}", *[""] * 7])
    head = ["kernel", "problem", "ms", "MFLOP", "MB", "GFLOP/s", "GB/s", "of the limit"]
    yield Table("roofline", head, rows, {"limits": limits._asdict(), "points": points})


def _points(size):
    *shape, _, rank = size
    objective = CoupledCPD(Problem(*pairs.smooth_pair(size)), rank)

    def iterate():
        _, g = objective.cost_and_gradient(pairs.start_of(shape, rank))
        objective.hessp(objective.precondition(g))

    for kernel, args, sharing in launches_of(iterate):
        counted = count(kernel, args, rank)
        rounds = 3 if counted.flops > 1e8 else 100
        way = {"": lambda kernel=kernel, args=args, sharing=sharing: kernel(*args, **sharing)}
        yield {
            "kernel": counted.part, "shape": counted.shape or "×".join(map(str, shape)), "rank": rank,
            "flops": counted.flops, "bytes": counted.bytes, "seconds": least_times(way, rounds)[""],
        }  # fmt: skip


def draw(numbers):
    """The figure of a `roofline` table's numbers."""
    from fastccpd import plots

    limits = Limits(**numbers["limits"])
    points = [point for point in numbers["points"] if point["flops"]]
    places = np.array([(point["flops"] / point["bytes"], point["flops"] / point["seconds"] / 1e9) for point in points])
    drawn, ((axes,),) = plots.figure(height=5.0)
    left, right = places[:, 0].min() / 2.5, 3.0 * places[:, 0].max()
    lowest, peak, rate = places[:, 1].min() / 2.0, limits.flops / 1e9, limits.bytes / 1e9
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(lowest, 1.8 * max(peak, places[:, 1].max())))
    axes.plot([left, peak / rate, right], [left * rate, peak, peak], color="black", linewidth=1.5)
    handles = {}
    for kernel in dict.fromkeys(point["kernel"] for point in points):
        look = plots.system_style(len(handles)) | {"linestyle": "none", "markersize": 6.0}
        mine = [point["kernel"] == kernel for point in points]
        (handles[kernel],) = axes.plot(*places[mine].T, **look)
    plots.label(axes, x="arithmetic intensity (flop / byte)", y="GFLOP/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(alpha=0.3, linewidth=0.5, which="both")
    plots.legend(drawn, list(handles.values()), list(handles))
    ranks = ", ".join(f"{rank} in {shape}" for shape, rank in _problems(points))
    plots.heading(drawn, f"Kernels of one iteration under the roof of this machine (float64; rank {ranks})")
    drawn.draw_without_rendering()
    axes.text(right / 1.1, 1.05 * peak, f"DGEMM {peak:.0f} GFLOP/s", ha="right", fontsize=plots.LABEL_SIZE)
    _write_along(axes, max(left, lowest / rate), rate, f"triad {rate:.0f} GB/s")
    _name_points(drawn, axes, places, [point["shape"] for point in points])
    return drawn


def _problems(points):
    """(shape, rank) of the scenes, in their order: those of the points that are not one image's."""
    return dict.fromkeys((point["shape"], point["rank"]) for point in points if point["kernel"] != "MTTKRP")


def _write_along(axes, start, rate, text):
    """A text along the line of a memory rate, above it."""
    from fastccpd import plots

    low, high = axes.transData.transform([(n * start, n * start * rate) for n in (1.0, 10.0)])
    angle = np.degrees(np.arctan2(*(high - low)[::-1]))
    axes.text(1.1 * start, 1.25 * start * rate, text, rotation=angle, rotation_mode="anchor", va="bottom",
              fontsize=plots.LABEL_SIZE)  # fmt: skip


def _name_points(drawn, axes, places, names):
    """A name beside each point, where it covers neither a point nor a line nor a name; far ones have a thin line."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    from fastccpd import plots

    renderer = FigureCanvasAgg(drawn).get_renderer()
    inside = axes.get_window_extent(renderer)
    centres = axes.transData.transform(places)
    roof = itertools.pairwise(axes.transData.transform(axes.lines[0].get_xydata()))
    taken = [Bbox([centre - 5.0, centre + 5.0]) for centre in centres]
    taken += [text.get_window_extent(renderer) for text in axes.texts]
    taken += [box for start, stop in roof for box in _along(start, stop)]
    around = np.radians(np.arange(0.0, 360.0, 15.0))
    for n in np.argsort(centres[:, 1]):
        text = axes.text(*centres[n], names[n], transform=None, va="center", fontsize=plots.TICK_SIZE)
        for distance, angle in itertools.product(range(9, 150, 4), around):
            end = centres[n] + distance * np.array([np.cos(angle), np.sin(angle)])
            text.set(position=end, ha="left" if end[0] > centres[n][0] else "right")
            box = text.get_window_extent(renderer).padded(1.0)
            leader = list(_along(centres[n] + (end - centres[n]) * 6.0 / distance, end)) if distance > 13 else []
            fits = all(inside.contains(*corner) for corner in box.corners())
            if fits and not any(part.count_overlaps(taken) for part in (box, *leader)):
                break
        ends = axes.transData.inverted().transform([centres[n], end])
        text.set(position=ends[1], transform=axes.transData)
        if leader:
            axes.plot(*ends.T, color="0.5", linewidth=0.5, zorder=1.0)
        taken += [box, *leader]


def _along(start, stop):
    """Small boxes along a line, for names to keep off."""
    from matplotlib.transforms import Bbox

    steps = max(2, int(np.hypot(*(stop - start)) / 2.0))
    return (Bbox([point - 1.0, point + 1.0]) for point in np.linspace(start, stop, steps))
