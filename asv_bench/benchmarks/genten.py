"""pygenten beside us, in a process of its own: it aborts at exit if its objects outlive it, and brings its own threads.

The child takes its own time, so that the pipe to it costs nothing; it leaves without the cleaning up that aborts.
"""

import os
import pickle
import subprocess
import sys
import time
from importlib.util import find_spec

# Its fastest for dense tensors.
_METHOD = "MttkrpPhan"


def is_there():
    """Whether pygenten is installed; nothing is imported."""
    return find_spec("pygenten") is not None


class Child:
    """A process in which pygenten works on one tensor."""

    def __init__(self, Y, factors, **environment):
        settings = {"OMP_PROC_BIND": "false", **os.environ, **environment}
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=settings)
        self.tell("take", Y, factors)

    def tell(self, *order):
        """Send an order and wait for what comes of it."""
        pickle.dump(order, self._process.stdin)
        self._process.stdin.flush()
        return pickle.load(self._process.stdout)

    def __call__(self):
        """All three MTTKRPs, as arrays."""
        return self.tell("mttkrps")

    def seconds(self):
        """Of all three MTTKRPs, by the child's own clock."""
        return self.tell("seconds")

    def __del__(self):
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def _serve(orders, answers):
    import numpy as np
    import pygenten

    algorithm = pygenten.AlgParams()
    algorithm.mttkrp_method = getattr(pygenten, _METHOD)
    tensor = model = None

    def take(Y, factors):
        nonlocal tensor, model
        tensor = pygenten.Tensor(Y)
        model = pygenten.Ktensor(np.ones(factors[0].shape[1]), list(factors))

    def mttkrps():
        return [np.array(matrix) for matrix in tensor.mttkrps(model, algorithm).factor_matrices]

    def seconds():
        began = time.perf_counter()
        tensor.mttkrps(model, algorithm)
        return time.perf_counter() - began

    def decompose(nonnegative, iterations):
        """(seconds, weights, factors) from the factors that were given: by ALS, or by L-BFGS-B within bounds."""
        began = time.perf_counter()
        settings = {"rank": model.ncomponents, "maxiters": iterations, "init": model, "printitn": 0, "timings": False}
        if nonnegative:
            found = pygenten.cp_opt(tensor, lower=0.0, gtol=1e-9, ftol=1e-12, **settings)[0]
        else:
            found = pygenten.cp_als(tensor, tol=1e-12, **settings)[0]
        taken = time.perf_counter() - began
        return taken, np.array(found.weights), [np.array(matrix) for matrix in found.factor_matrices]

    known = {"take": take, "mttkrps": mttkrps, "seconds": seconds, "decompose": decompose}
    while True:
        try:
            name, *arguments = pickle.load(orders)
        except EOFError:
            return
        pickle.dump(known[name](*arguments), answers)
        answers.flush()


if __name__ == "__main__":
    # What the library prints goes where warnings go; the pipe is for answers alone.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _serve(sys.stdin.buffer, answers)
    os._exit(0)
