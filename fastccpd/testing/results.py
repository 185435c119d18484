"""Checks of what a method returns."""

from itertools import pairwise

import numpy as np

from ..model.problem import Factors
from ..model.result import FusionResult, Status, Trace
from .cases import small_case
from .running import briefly, checked, distance, require, run

_FIELDS = {
    "status": Status,
    "cost": float,
    "n_iter": int,
    "trace": Trace,
    "seconds": float,
    "method": str,
    "options": dict,
    "seed": int,
    "provenance": dict,
    "start_costs": tuple,
    "sri": np.ndarray,
    "known_factors": Factors | None,
}


@checked
def check_result_fields(method):
    """`fuse` with the method object gives a complete FusionResult."""
    result = run(method, rng=11)
    require(isinstance(result, FusionResult), f"the result is a {type(result).__name__}")
    for name, kind in _FIELDS.items():
        value = getattr(result, name)
        require(isinstance(value, kind), f"result.{name} is a {type(value).__name__}")
    require(np.isfinite(result.cost) and result.cost >= 0.0, f"the cost is {result.cost}")
    require(result.status is not Status.NOT_FINITE, f"the run ended with: {result.status}")
    require(result.n_iter >= 0, f"n_iter is {result.n_iter}")
    require(result.options == briefly(method).options(), "result.options are not the method's")
    require(result.seed == 11, f"the seed was 11, but the result says {result.seed}")
    require(result.start_costs == (result.cost,), f"start_costs is {result.start_costs} at cost {result.cost}")


@checked
def check_image(method):
    """The image has the scene's shape and the data's dtype, is the caller's own, and its blocks are parts of it."""
    hsi, msi, degradation = small_case()
    result = run(method, (hsi, msi, degradation))
    sri = result.sri
    require(sri.shape == degradation.sri_shape, f"the image's shape is {sri.shape}, not {degradation.sri_shape}")
    require(sri.dtype == np.float64, f"the image is {sri.dtype} for float64 data")
    require(sri.flags.c_contiguous and sri.flags.writeable, "the image is not a writable array in C order")
    require(not (np.shares_memory(sri, hsi) or np.shares_memory(sri, msi)), "the image shares memory with the data")
    block = result.render(slice(3, 7), slice(None), [0, 5])
    require(distance(block, sri[3:7][:, :, [0, 5]]) < 1e-12, "a rendered block is not that part of the image")
    if result.known_factors is not None:
        shape = result.known_factors.shape
        require(shape == degradation.sri_shape, f"the factors' shape is {shape}, not {degradation.sri_shape}")


@checked
def check_nonnegative_where_promised(method):
    """A method that calls itself non-negative gives no negative value, whatever the noise."""
    lowest = run(method, small_case(noise=1.0)).sri.min()
    require(not method.nonnegative or lowest >= 0.0, f"the image holds {lowest} although the method is non-negative")


@checked
def check_trace(method):
    """The trace has one entry for the start and one for each iteration, in every column, and its clock goes forward."""
    result = run(method)
    for column, entries in vars(result.trace).items():
        count = f"{len(entries)} entries of {column} after {result.n_iter} iterations"
        require(len(entries) == result.n_iter + 1, f"the trace has {count}")
    seconds = result.trace.seconds
    require(all(a <= b for a, b in pairwise(seconds)), "the trace's seconds go back")
