"""How large tiles may be, and how many at once, within the memory that may be used."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import machine
from ..methods import Method
from ..model.checks import as_number
from ..model.degradation import Degradation
from .plan import DEFAULT_TILE, FIRST_BLOCK, LADDER, Plan, make_plan

# A process with all that it imports, before it has done anything; measured 210 to 250 MB.
PROCESS = 260 << 20

# Blocks of the first pass where memory forces it, and the bytes that its tasks take for each value of the images of a
# block: measured 40 to 44, for they work in double precision.
_SMALLER_BLOCKS, _OF_FIRST = (384, 256, 192, 128), 44

# Output is made in blocks of this side, and so many tiles are held for it.
BLOCK, HELD = 256, 4


def memory_limit(memory: float | None = None) -> int:
    """Bytes that all processes of a run may take together.

    Parameters
    ----------
    memory : float, optional
        What is given. None: half of what is available.

    Returns
    -------
    int
    """
    if memory is not None:
        limit = int(as_number(memory, "memory"))
    else:
        available = machine.available_memory()
        limit = (available if available is not None else 4 << 30) // 2
    if limit < 2 * PROCESS:
        raise MemoryError(
            f"memory: got {limit / 1e9:.2f} GB, but two processes alone take {2 * PROCESS / 1e9:.2f} GB; more is needed"
        )
    return limit


def choose_plan(
    degradation: Degradation,
    method: Method,
    dtype: Any,
    *,
    tile: int | None = None,
    workers: int = 1,
    memory: float | None = None,
    shared: Any = None,
    block: int = FIRST_BLOCK,
) -> tuple[Plan, int]:
    """The plan with the largest tiles that fit, no larger than asked for, and how many workers fit beside each other.

    Parameters
    ----------
    degradation : Degradation
    method : Method
    dtype : dtype
        That the images are worked on in.
    tile : int, optional
        Side of a tile in fine pixels, which is then taken or refused. None: 512, less where memory forces it.
    workers : int
        The most.
    memory : float, optional
        Bytes for all processes together.
    shared : Shared, optional
        What is known of the scene, above all the number of its maps.
    block : int
        Side of the blocks of the first pass, as of `of_first_pass`.

    Returns
    -------
    (Plan, int)
    """
    limit, needed = memory_limit(memory), 0
    for size in _sizes(tile):
        form = {"periodic": method.needs_periodic_blur, "least_window": method.least_window}
        plan = make_plan(degradation.P1, degradation.P2, size, block=block, **form)
        here, needed = of_assembly(plan, degradation, dtype), of_worker(plan, degradation, method, dtype, shared)
        fitting = (limit - PROCESS) // needed
        if fitting >= 1 and here <= limit:
            return plan, int(min(workers, fitting, len(plan)))
        needed = max(needed + PROCESS, here)
    asked = f"tiles of {tile}" if tile is not None else "the smallest tiles"
    raise MemoryError(
        f"memory: got {limit / 1e9:.2f} GB, but {asked} need {needed / 1e9:.2f} GB; more memory or "
        "smaller tiles are needed"
    )


def of_first_pass(
    degradation: Degradation, workers: int, memory: float | None = None, block: int | None = None
) -> tuple[int, int]:
    """The side of the blocks of the first pass, and how many processes, of at most so many, fit the memory.

    Parameters
    ----------
    degradation : Degradation
    workers : int
        The most; one in any case.
    memory : float, optional
        Bytes for all processes together.
    block : int, optional
        The side that a run was begun with, which is taken or refused. None: 512, less where memory forces it.

    Returns
    -------
    (int, int)
    """
    limit, fitting, needed = memory_limit(memory), 0, 0
    for size in (FIRST_BLOCK, *_SMALLER_BLOCKS) if block is None else (block,):
        needed = PROCESS + _OF_FIRST * _values(degradation, size)
        fitting = (limit - PROCESS) // needed
        if fitting >= 1:
            break
    if block is not None and not fitting:
        raise MemoryError(
            f"memory: got {limit / 1e9:.2f} GB, but this run was begun with blocks of {block}, which need "
            f"{(needed + PROCESS) / 1e9:.2f} GB; more memory is needed, or begin anew"
        )
    return size, int(min(workers, max(1, fitting)))


def _values(degradation, size):
    """How many values the images of a block have, at most."""
    shapes = degradation.P1.shape, degradation.P2.shape
    fine = [min(size, shape[1]) for shape in shapes]
    coarse = [-(-side * shape[0] // shape[1]) for side, shape in zip(fine, shapes)]
    return coarse[0] * coarse[1] * degradation.PM.shape[1] + fine[0] * fine[1] * degradation.PM.shape[0]


def _sizes(tile) -> Iterator[int]:
    if tile is not None:
        yield tile
        return
    yield from (size for size in LADDER if size <= DEFAULT_TILE)


def of_worker(plan: Plan, degradation: Degradation, method: Method, dtype: Any, shared: Any = None) -> int:
    """Bytes of a process that fuses the largest tile: its images as read and as worked on, the method, the result."""
    known = {} if shared is None else {"shared": shared}
    shapes = plan.largest(degradation.PM.shape[1], degradation.PM.shape[0])
    values = sum(2 * int(np.prod(shape)) for shape in shapes)
    if method.keeps_pixels:
        values += int(np.prod(shapes[1][:2])) * shapes[0][2]
    images = np.dtype(dtype).itemsize * values
    return PROCESS + images + int(method.memory_needed(*shapes, np.dtype(dtype), **known))


def of_assembly(plan: Plan, degradation: Degradation, dtype: Any) -> int:
    """Bytes that joining tiles takes: a block in double precision and as it is written, and the tiles held for it."""
    _, (rows, cols, _) = plan.largest(1, 1)
    bands, size = degradation.PM.shape[1], np.dtype(dtype).itemsize
    return PROCESS + BLOCK * BLOCK * bands * (8 + 2 * size) + HELD * rows * cols * min(bands, 30) * size
