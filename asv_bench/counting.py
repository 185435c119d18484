"""What each kernel has to do: flops and bytes, from the arguments of a launch.

Flops are those of the algorithm at the true rank, not those spent on padding. Of the bytes every input and output
counts once, scratch never: what must come from memory if nothing is in a cache. Kernels are watched from outside.
"""

import inspect
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np
from fastccpd.kernels import jit
from fastccpd.kernels.lanes import LANES


class Work(NamedTuple):
    """A kernel's part in a run, its flops by (arguments, rank), and the arrays it must read or write."""

    part: str
    flops: Callable
    arrays: str


def _operators(a, rank):
    return 2.0 * rank * sum(a[name].size for name in ("values", "back_values") if name in a)


# What `inputs` of the kernels that multiply by H are.
_OPERATORS = ("values", "places", "bounds")
_INPUTS = (*_OPERATORS, *(f"back_{name}" for name in _OPERATORS), "rows", "weights", "U", "S", "Q", "slope", "diagonal")


def _of_hessian(a, rank):
    return _operators(a, rank) + 6.0 * len(a["U"]) * rank**2


def _of_turn(a, rank):
    return (2.0 * rank + 8.0) * a["p"].size


def _stack(a):
    return float(np.prod(a["shape"]))


def _of_blur(a):
    """The fine grid's energy; the blur along rows, along columns and half of the way back; the mixing in between."""
    (_, P, W), (I1, J1) = a["shape"], (len(a[name][0]) - 1 for name in ("rows", "columns"))
    entries = [len(a[name][2]) for name in ("rows", "columns", "back")]
    return 10.0 * _stack(a) + 2.0 * P * (entries[0] * W + (entries[1] + entries[2]) * I1) + 2.0 * I1 * J1 * P**2


_KERNELS = {
    "mttkrp_add": Work("MTTKRP", lambda a, R: 4.0 * a["Y"].size * R, "Y A B C M0 M1 M2"),
    "see": Work("factors seen, Gramians", lambda a, R: _operators(a, R) + 2.0 * len(a["U"]) * R**2, "values x u U S Q"),
    "gradient": Work(
        "gradient",
        lambda a, R: _operators(a, R) + 2.0 * len(a["U"]) * R**2,
        "values U Q M by_u slope diagonal out",
    ),
    "hessian": Work("H z", _of_hessian, "values back_values U S Q slope diagonal z out"),
    "factor_scaled_blocks": Work(
        "preconditioner, factor", lambda a, R: len(a["slope"]) * (R**3 / 3.0 + 3.0 * R**2), "Q slope diagonal"
    ),
    "solve_blocks": Work("preconditioner, solve", lambda a, R: 2.0 * len(a["b"]) * R**2, "b x"),
    "turn_preconditioned": Work("preconditioner, solve, with CG vectors", _of_turn, "Hd p r y d"),
    # All of it for each product with H, whose number stands in `found` after the launch.
    "newton_step": Work(
        "CG: H z, preconditioner, vectors",
        lambda a, R: a["found"][0] * (_of_hessian(a, R) + _of_turn(a, R)),
        "values back_values U S Q slope diagonal Hd p r y d",
    ),
    "residual_sums": Work("streamed residual", lambda a, R: a["Y"].size * (2.0 * R + 3.0), "Y A B Ct"),
    "render": Work("rendering", lambda a, R: 2.0 * a["out"].size * R, "A B Ct out"),
    "turn_maps": Work("maps, direction", lambda a, R: 9.0 * _stack(a), "own share coverage r d"),
    "blur_maps": Work("maps, blur and energy", lambda a, R: _of_blur(a), "d ones below right out"),
    "advance_maps": Work(
        "maps, step",
        lambda a, R: 24.0 * _stack(a) + 2.0 * np.prod(a["shape"][1:]) * len(a["back"][2]),
        "d ones below right blurred own share coverage Z r",
    ),
    "correct_maps": Work("maps, aggregates", lambda a, R: 4.0 * a["r"].size, "inverse r"),
    "invert_diagonal": Work(
        "maps, diagonal", lambda a, R: 5.0 * a["rows"] * a["maps"] * a["width"], "own share coverage inverse"
    ),
    "reweight_maps": Work("maps, weights of edges", lambda a, R: 6.0 * _stack(a), "Z dearer below right"),
}


# The part of kernels that work on the solver's vectors, and know no tensors: CG's own time, counted by its steps.
CG = "CG vectors"


class Count(NamedTuple):
    """One launch: whose part it is, of which shape, its flops and bytes."""

    part: str
    shape: str
    flops: float
    bytes: float


def count(kernel, args, rank):
    """The `Count` of a launch that is over; without flops and bytes for a kernel that is not in the table."""
    work = _KERNELS.get(kernel.__name__)
    if work is None:
        return Count(CG if kernel.function.__module__.endswith(".vectors") else kernel.__name__, "", 0.0, 0.0)
    named = dict(zip(_parameters(kernel), args))
    named |= dict(zip(_INPUTS, named.get("inputs", ())))
    moved = sum(named[name].nbytes for name in work.arrays.split())
    groups, L = named.get("blocks", (named.get("groups"), named.get("L")))[:2]
    if groups is not None:
        # Of the preconditioner's blocks the lower triangles are read and written, whatever room they have.
        moved += len(L) * LANES * rank * (rank + 1) // 2 * L.itemsize
    moved *= named["found"][0] if "found" in named else 1
    shape = "×".join(map(str, named["Y"].shape)) if "Y" in named else ""
    return Count(work.part, shape, float(work.flops(named, rank)), float(moved))


@cache
def _parameters(kernel):
    names = tuple(inspect.signature(kernel.function).parameters)
    return names[kernel.shares_work :]  # Python names no team


@contextmanager
def watching(see):
    """Within the context, every launch of a kernel is made by `see(launch, kernel, args, sharing)`."""
    original = jit.Kernel.__call__
    jit.Kernel.__call__ = lambda kernel, *args, **sharing: see(original, kernel, args, sharing)
    try:
        yield
    finally:
        jit.Kernel.__call__ = original


def launches_of(run):
    """[(kernel, args, sharing)] of a call, to be looked at or launched again."""
    seen = []

    def see(launch, kernel, args, sharing):
        seen.append((kernel, args, sharing))
        return launch(kernel, *args, **sharing)

    with watching(see):
        run()
    return seen


def vectors_of_cg(steps, size):
    """(flops, bytes) of two sums and three updates a CG step, on float64 vectors."""
    return 10.0 * steps * size, 13.0 * steps * size * np.float64().nbytes
