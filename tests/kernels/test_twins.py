"""Serial and parallel twins, thread counts and layers: the same bytes, no abort; and the kernel contract."""

import gc
import os
import subprocess
import sys
import time

import numba
import numpy as np
import pytest
from fastccpd.kernels import jit, parts, simd, team

# Dtype and row of the counts that only `newton_step` is given.
STAGES = f"<i8({team.APART},)"

JIT_ON = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK), reason="compares code as users run it"
)


@pytest.fixture
def replay(fresh):
    """Call a function with copies of recorded arguments, and return the copies."""

    def run(function, args):
        copies = [fresh(arg) for arg in args]
        function(*copies)
        return copies

    return run


@pytest.fixture
def launch(monkeypatch):
    """A record of launches of the test's own, in which they cost nothing."""
    launch = jit._Launch()
    launch.seconds = 0.0
    monkeypatch.setattr(jit, "_launch", launch)
    return launch


def same_bytes(one, other):
    """Of arguments after a call; groups of arrays are inputs only, and who took which piece of a stage is chance."""
    pairs = [
        (a, b) for a, b in zip(one, other) if isinstance(a, np.ndarray) and a.dtype.str + str(a.shape[1:]) != STAGES
    ]
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


def test_every_kernel_is_launched_by_the_front_doors(launches):
    assert {kernel.__name__ for kernel, _ in launches} == {kernel.__name__ for kernel in jit.KERNELS}


@JIT_ON
def test_parallel_and_serial_twins_write_the_same_bytes(launches, replay):
    for kernel, args in launches:
        serial = replay(kernel.serial, args)
        parallel = replay(kernel.parallel, args)
        assert same_bytes(serial, parallel), kernel


@JIT_ON
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
def test_any_number_of_threads_writes_the_same_bytes(launches, replay):
    before = numba.get_num_threads()
    try:
        results = []
        for threads in range(1, numba.config.NUMBA_NUM_THREADS + 1):
            numba.set_num_threads(threads)
            results.append([replay(k.parallel, args) for k, args in launches])
    finally:
        numba.set_num_threads(before)
    for other in results[1:]:
        for first, second in zip(results[0], other):
            assert same_bytes(first, second)


def test_kernels_leave_their_read_only_inputs_alone(launches, replay):
    for kernel, args in launches:
        after = replay(kernel.serial, args)
        for before, now in zip(args, after):
            if isinstance(before, np.ndarray) and not before.flags.writeable:
                assert before.tobytes() == now.tobytes(), kernel


def test_kernels_do_not_write_beyond_their_outputs(launches):
    """Every writable array is a slice of a larger one; what surrounds it must survive."""
    canary, margin = 0xA5, 256
    for kernel, args in launches:
        guarded, buffers = [], []
        for arg in args:
            if isinstance(arg, np.ndarray) and arg.flags.writeable:
                buffer = np.full(arg.nbytes + 2 * margin + 64, canary, np.uint8)
                start = margin + (-(buffer.ctypes.data + margin)) % 64
                inner = buffer[start : start + arg.nbytes].view(arg.dtype).reshape(arg.shape)
                inner[...] = arg
                guarded.append(inner)
                buffers.append((buffer, start, start + arg.nbytes))
            else:
                guarded.append(arg)
        kernel.serial(*guarded)
        for buffer, start, stop in buffers:
            assert (buffer[:start] == canary).all(), kernel
            assert (buffer[stop:] == canary).all(), kernel


@JIT_ON
def test_each_kernel_compiles_once_for_each_dtype(launches):
    signatures = {kernel.__name__: set() for kernel in jit.KERNELS}
    for kernel, args in launches:
        signatures[kernel.__name__].add(tuple(map(numba.typeof, args)))
    for name, known in signatures.items():
        # Maps of either dtype move along directions in float32, and float64 maps have a residual of their own.
        most = {"advance_maps": 3, "dot_pieces": 1}.get(name, 2)
        assert 1 <= len(known) <= most, (name, known)


def test_kernels_document_their_shapes_and_take_no_liberties_with_nan():
    for kernel in jit.KERNELS:
        lines = [line.strip() for line in kernel.__doc__.splitlines() if line.strip()]
        assert lines[0].endswith((".", ":")), kernel
        assert "->" in lines[1], f"{kernel}: the second line of its docstring gives its shapes"
        if not numba.config.DISABLE_JIT:
            assert kernel.compiled.targetoptions["fastmath"] == {"contract"}


@JIT_ON
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
def test_after_a_launch_that_came_late_kernels_run_serially_for_a_while(monkeypatch, launch):
    kernel, ran = jit.nearly_nothing, []
    monkeypatch.setattr(kernel, "serial", lambda *args: ran.append("serial"))
    monkeypatch.setattr(kernel, "parallel", lambda *args: ran.append("parallel"))

    def call():
        kernel(np.zeros(2), work=1e9)
        return ran[-1]

    assert call() == "parallel"
    launch.judge(seconds=0.9, serially=0.3)
    assert call() == "parallel"
    launch.judge(seconds=9.0, serially=0.3)
    assert call() == "serial"
    rest = launch.rest
    launch.judge(seconds=9.0, serially=0.3)
    assert launch.rest == 2 * rest
    launch.resting_until = 0.0
    assert call() == "parallel"
    assert launch.rest < 2 * rest


@JIT_ON
def test_what_a_launch_costs_is_timed_again_if_the_first_ones_come_late(monkeypatch, launch):
    launch.seconds = None
    monkeypatch.setattr(jit.nearly_nothing, "parallel", lambda counts: time.sleep(0.002))
    assert not launch.pays(1e15)
    assert launch.rests()
    assert not launch.pays(1e15)
    launch.resting_until = 0.0
    monkeypatch.setattr(jit.nearly_nothing, "parallel", lambda counts: None)
    assert launch.pays(1e15)


@JIT_ON
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
def test_work_beyond_the_caches_is_not_judged_by_the_pace_of_work_within_them(launch):
    launch.resting_until = np.inf
    kernel = jit.Kernel.__new__(jit.Kernel)
    kernel.was_launched, kernel.paces, kernel.shares_work = True, {}, True
    kernel.serial = lambda: None
    kernel.parallel = lambda: time.sleep(0.02)
    kernel(work=5e6)
    launch.resting_until = 0.0
    kernel(work=5e8)
    assert not launch.rests()
    kernel(work=5e6)
    assert launch.rests()


@JIT_ON
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
def test_a_launch_that_did_its_work_many_times_over_is_not_late(launch):
    kernel = jit.Kernel.__new__(jit.Kernel)
    kernel.was_launched, kernel.paces, kernel.shares_work = True, {}, True
    kernel.serial, kernel.parallel = (lambda: None), (lambda: time.sleep(0.02))
    kernel(work=5e6, times=lambda: 30)
    assert not launch.rests()
    kernel(work=5e6, times=lambda: 1)
    assert launch.rests()


@JIT_ON
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
def test_within_the_block_little_work_is_shared_and_outside_it_is_not():
    def launches(**sharing):
        shared = jit.SharedWork()
        counts = np.zeros(2)
        jit.nearly_nothing(counts, **sharing)
        assert (counts == 1).all()
        return shared.launches

    assert launches(work=1) == 0
    with jit.sharing_all_work() as outer:
        assert launches(work=1) == 1
        with jit.sharing_all_work():
            assert launches(work=1, least=1e9) == 1
        assert launches(work=1) == 1
        assert launches() == 0  # what names no work is serial
        numba.set_num_threads(1)
        try:
            assert launches(work=1) == 0
        finally:
            numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    assert launches(work=1) == 0
    assert outer.launches == 3


def reaches_a_tile(function, seen=()):
    """Whether a function calls `panel`, itself or through the functions that it calls."""
    function = getattr(function, "py_func", function)
    known = function.__globals__
    called = [known[name] for name in function.__code__.co_names if name in known]
    if any(thing is simd.panel for thing in called):
        return True
    helpers = [thing for thing in called if hasattr(getattr(thing, "py_func", thing), "__code__")]
    return any(reaches_a_tile(helper, (*seen, function)) for helper in helpers if helper not in seen)


def test_a_kernel_says_that_it_uses_tiles_if_and_only_if_it_does():
    """One that forgets it is compiled without them: the first process that calls it before any other is aborted."""
    by_code = {kernel.__name__ for kernel in jit.KERNELS if reaches_a_tile(kernel.function)}
    assert by_code == {kernel.__name__ for kernel in jit.KERNELS if kernel.uses_tiles}
    assert {"hessian", "mttkrp_add"} < by_code


@JIT_ON
def test_garbage_is_not_collected_while_a_kernel_is_compiled_and_is_afterwards():
    during = []

    class Watched(parts.WholeCompiler):
        def define_pipelines(self):
            during.append(gc.isenabled())
            return super().define_pipelines()

    assert numba.njit(pipeline_class=Watched)(lambda x: x + 1)(2) == 3
    assert during == [False]
    assert gc.isenabled()


HAMMER = """
import threading, numpy as np, numba
from fastccpd import kernels
from fastccpd.kernels import jit
jit._LAUNCHES_WORTH = 0
rng = np.random.default_rng(0)
Y = rng.random((200, 150, 8)); factors = [rng.random((n, 32)) for n in Y.shape]
expected = b"".join(m.tobytes() for m in kernels.mttkrp_all(Y, factors))
wrong = []
def work():
    for _ in range(25):
        if b"".join(m.tobytes() for m in kernels.mttkrp_all(Y, factors)) != expected:
            wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(numba.threading_layer(), len(wrong))
"""


@JIT_ON
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_eight_python_threads_may_call_a_kernel_at_once(layer):
    environment = os.environ | {"NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", HAMMER], env=environment, capture_output=True, text=True, timeout=300)
    if layer == "omp" and "No threading layer could be loaded" in done.stderr:
        pytest.skip("no OpenMP on this machine")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [layer, "0"]


FORK = """
import os, numpy as np
from fastccpd import kernels
from fastccpd.kernels import jit
jit._LAUNCHES_WORTH = 0
rng = np.random.default_rng(0)
Y = rng.random((200, 150, 8)); factors = [rng.random((n, 32)) for n in Y.shape]
expected = kernels.mttkrp_all(Y, factors)[2].tobytes()
child = os.fork()
if child == 0:
    os._exit(0 if kernels.mttkrp_all(Y, factors)[2].tobytes() == expected else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@JIT_ON
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_after_a_parallel_launch_still_computes():
    environment = os.environ | {"NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", FORK], env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "0", done.stderr
