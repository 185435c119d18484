"""The kernels of the solver under the machine's roof: arithmetic intensity against GFLOP/s, on three problems.

Every launch that one iteration makes is recorded and made again, many times; the least time counts.
"""

import itertools
import string

import numpy as np

from fastccpd import Problem
from fastccpd.solver.coupled_cpd import CoupledCPD

from ..benchmarks import pairs
from ..counting import CG, count, launches_of
from ..measuring import Limits, Table, least_times, speed

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
        rows.append(
            [
                kernel,
                f"{shape} R={rank}",
                f"{1e3 * seconds:.3f}",
                f"{flops / 1e6:.1f}",
                f"{moved / 1e6:.2f}",
                *(f"{rate:.1f}" for rate in rates),
                f"{100.0 * limits.least_seconds(flops, moved) / seconds:.0f} %",
            ]
        )
    rows.append([f"limits: {limits}", *[""] * 7])
    head = ["kernel", "problem", "ms", "MFLOP", "MB", "GFLOP/s", "GB/s", "of the limit"]
    speeds = tuple(_row(point, limits) for point in points)
    yield Table("roofline", head, rows, {"limits": limits._asdict(), "points": points}, speeds)


def _row(point, limits):
    kernel, shape, rank, flops, moved, seconds = point.values()
    work = {"flops": flops, "bytes": moved, "peak_flops": limits.flops, "peak_bytes": limits.bytes}
    limit = limits.least_seconds(flops, moved)
    return speed(kernel, f"{shape} R={rank}", "the machine's limit", seconds, limit, **work)


def _points(size):
    *shape, _, rank = size
    objective = CoupledCPD.of_problem(Problem(*pairs.smooth_pair(size)), rank)

    def iterate():
        _, g = objective.cost_and_gradient(pairs.start_of(shape, rank))
        objective.hessp(objective.precondition(g))

    for kernel, args, sharing in launches_of(iterate):
        counted = count(kernel, args, rank)
        if counted.part == CG:
            continue
        rounds = 3 if counted.flops > 1e8 else 100
        way = {"": lambda kernel=kernel, args=args, sharing=sharing: kernel(*args, **sharing)}
        yield {
            "kernel": counted.part,
            "shape": counted.shape or "×".join(map(str, shape)),
            "rank": rank,
            "flops": counted.flops,
            "bytes": counted.bytes,
            "seconds": least_times(way, rounds)[""],
        }


def draw(numbers):
    """The figure of a `roofline` table's numbers."""
    from fastccpd import plots

    limits = Limits(**numbers["limits"])
    points = [point for point in numbers["points"] if point["flops"]]
    places = np.array([(point["flops"] / point["bytes"], point["flops"] / point["seconds"] / 1e9) for point in points])
    drawn, ((axes,),) = plots.figure(height=5.0)
    left, right = places[:, 0].min() / 2.5, 3.0 * places[:, 0].max()
    lowest, peak, rate = places[:, 1].min() / 1.5, limits.flops / 1e9, limits.bytes / 1e9
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(lowest, 1.5 * max(peak, places[:, 1].max())))
    axes.plot([left, peak / rate, right], [left * rate, peak, peak], color="black", linewidth=1.5)
    handles = {}
    for kernel in dict.fromkeys(point["kernel"] for point in points):
        look = plots.system_style(len(handles)) | {"linestyle": "none", "markersize": 6.0}
        mine = [point["kernel"] == kernel for point in points]
        (handles[kernel],) = axes.plot(*places[mine].T, **look)
    plots.label(axes, x="arithmetic intensity (flop / byte)", y="GFLOP/s")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    plots.log_axis(axes, places[:, 1])
    axes.grid(alpha=0.3, linewidth=0.5, which="both")
    plots.legend(drawn, list(handles.values()), list(handles))
    letters = _letters(points)
    told = ", ".join(f"{letter}: {shape} R={rank}" for (shape, rank), letter in letters.items())
    plots.heading(drawn, f"Kernels of one iteration under the machine's roof, float64\n{told}")
    # Names are placed by where everything stands: from here on nothing may move.
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    axes.text(right / 1.1, 1.05 * peak, f"DGEMM {peak:.0f} GFLOP/s", ha="right", fontsize=plots.LABEL_SIZE)
    _write_along(axes, max(left, lowest / rate), rate, f"triad {rate:.0f} GB/s")
    names = [letters.get((point["shape"], point["rank"]), point["shape"]) for point in points]
    _name_points(drawn, axes, places, names)
    return drawn


def _letters(points):
    """{(shape, rank): letter} of the scenes; an MTTKRP, which sees one image, is known by that image's shape."""
    scenes = dict.fromkeys((point["shape"], point["rank"]) for point in points if point["kernel"] != "MTTKRP")
    return dict(zip(scenes, string.ascii_uppercase))


def _write_along(axes, start, rate, text):
    """A text along the line of a memory rate, above it."""
    from fastccpd import plots

    low, high = axes.transData.transform([(n * start, n * start * rate) for n in (1.0, 10.0)])
    angle = np.degrees(np.arctan2(*(high - low)[::-1]))
    axes.text(
        1.1 * start,
        1.25 * start * rate,
        text,
        rotation=angle,
        rotation_mode="anchor",
        va="bottom",
        fontsize=plots.LABEL_SIZE,
    )


def _name_points(drawn, axes, places, names):
    """A name beside each point, where it covers neither a point nor the roof nor another name."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    from fastccpd import plots

    renderer = FigureCanvasAgg(drawn).get_renderer()
    centres = axes.transData.transform(places)
    roof = itertools.pairwise(axes.transData.transform(axes.lines[0].get_xydata()))
    taken = [Bbox([point - 2.0, point + 2.0]) for ends in roof for point in np.linspace(*ends, 300)]
    taken += [Bbox([centre - 5.0, centre + 5.0]) for centre in centres]
    taken += [text.get_window_extent(renderer) for text in axes.texts]
    directions = [(np.cos(angle), np.sin(angle)) for angle in np.radians(np.arange(0.0, 360.0, 15.0))]
    # Long names first: short ones find a place anywhere.
    for n in sorted(range(len(names)), key=lambda n: -len(names[n])):
        text = axes.annotate(
            names[n], places[n], (0.0, 0.0), textcoords="offset pixels", va="center", fontsize=plots.TICK_SIZE
        )
        for distance, (right, up) in itertools.product(range(8, 40, 2), directions):
            text.set(position=(distance * right, distance * up), ha="left" if right > 0.0 else "right")
            box = text.get_window_extent(renderer)
            if not box.count_overlaps(taken):
                break
        text.set(position=np.multiply((right, up), distance * 72.0 / drawn.dpi), anncoords="offset points")
        taken.append(box)
