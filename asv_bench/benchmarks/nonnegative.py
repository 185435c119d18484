"""A plain non-negative CPD of one tensor: ours beside other packages, from one start, to one cost.

Ours is Gauss-Newton on squares through `fastccpd.solver`. tensorly's HALS, pyttb's L-BFGS-B (`gcp_opt`, lower bound 0)
and pygenten's (`cp_opt`, likewise) solve the same problem; `cp_als` of pyttb and pygenten one without bounds, so that
its cost may be lower.
"""

import time

import numpy as np

from fastccpd import kernels
from fastccpd.solver import CoupledCPD, Options, Term, minimize

from . import genten

# (shape, rank): a cube and a flat one. Factors overlap, a third of their entries are zero, noise is 5 %.
CASES = {"60x50x40 R=8": ((60, 50, 40), 8), "120x100x12 R=10": ((120, 100, 12), 10)}


def tensor_of(shape, rank, seed=0):
    """A non-negative tensor of low rank with noise."""
    rng = np.random.default_rng(seed)
    factors = [np.maximum(rng.random((n, rank)) - 0.33, 0.0) for n in shape]
    tensor = np.einsum("ir,jr,kr->ijk", *factors, optimize=True)
    return tensor + 0.05 * np.sqrt(np.mean(tensor**2)) * rng.standard_normal(shape)


def start_of(shape, rank, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.1, 0.9, (n, rank)) for n in shape]


def cost_of(tensor, factors, weights=None):
    """Half of the squared residual."""
    A, B, C = (np.ascontiguousarray(factor) for factor in factors)
    return 0.5 * kernels.residual_norm2(tensor, [A if weights is None else A * weights, B, C])


def ours(tensor, start, iterations):
    objective = CoupledCPD([Term(tensor)], rank=start[0].shape[1])
    began = time.perf_counter()
    state = minimize(objective, np.sqrt(np.vstack(start)), Options(max_iter=iterations, ftol=1e-9))
    return time.perf_counter() - began, cost_of(tensor, objective.factors(state.x))


def tensorly_hals(tensor, start, iterations):
    from tensorly.cp_tensor import CPTensor
    from tensorly.decomposition import non_negative_parafac_hals

    first = CPTensor((np.ones(start[0].shape[1]), [factor.copy() for factor in start]))
    began = time.perf_counter()
    weights, factors = non_negative_parafac_hals(
        tensor, len(first.weights), init=first, n_iter_max=iterations, tol=1e-9
    )
    return time.perf_counter() - began, cost_of(tensor, factors, weights)


def pyttb_als(tensor, start, iterations):
    import pyttb

    given, first = pyttb.tensor(tensor), pyttb.ktensor([factor.copy() for factor in start])
    began = time.perf_counter()
    settings = {"init": first, "maxiters": iterations, "stoptol": 1e-9, "printitn": 0}
    model = pyttb.cp_als(given, start[0].shape[1], **settings)[0]
    return time.perf_counter() - began, cost_of(tensor, model.factor_matrices, model.weights)


def pyttb_gcp(tensor, start, iterations):
    import pyttb

    given, first = pyttb.tensor(tensor), pyttb.ktensor([factor.copy() for factor in start])
    loss = pyttb.gcp.handles.Objectives.GAUSSIAN
    function, gradient, _ = pyttb.gcp.fg_setup.setup(loss, given)
    optimizer = pyttb.gcp.optimizers.LBFGSB(maxiter=iterations)
    began = time.perf_counter()
    # Its Gaussian loss knows no bound of its own: with functions of one's own the third is the bound.
    losses = (function, gradient, 0.0)
    model = pyttb.gcp_opt(given, start[0].shape[1], losses, optimizer, init=first, printitn=0)[0]
    return time.perf_counter() - began, cost_of(tensor, model.factor_matrices, model.weights)


def _pygenten(nonnegative):
    def run(tensor, start, iterations):
        child = genten.Child(tensor, start)
        seconds, weights, factors = child.tell("decompose", nonnegative, iterations)
        return seconds, cost_of(tensor, factors, weights)

    return run


def ways_here():
    """{name: way}; each is given a tensor, a start and a number of iterations, and returns (seconds, cost)."""
    found = {
        "fastccpd": ours,
        "tensorly non_negative_parafac_hals": tensorly_hals,
        "pyttb gcp_opt, non-negative": pyttb_gcp,
        "pyttb cp_als, unbounded": pyttb_als,
    }
    if genten.is_there():
        found["pygenten cp_opt, non-negative"] = _pygenten(True)
        found["pygenten cp_als, unbounded"] = _pygenten(False)
    return found
