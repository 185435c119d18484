"""A crew of processes of one thread each, for work that falls into independent pieces.

Such work uses the cores best by one piece on each, so kernels and BLAS are told to use one thread. The processes are
started anew (not forked: a fork does not survive OpenMP) and speak pickle over pipes; both ends are this module, and
nothing is asked of the caller's main module. A process ends with its input, so that it does not outlive the one that
feeds it, however that one ends.
"""

import atexit
import gc
import os
import pickle
import queue
import subprocess
import sys
import threading
import traceback
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from . import machine
from .model.checks import as_count

_ONE_THREAD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


# Each is a process of some 200 MB: whoever asks for more, on a machine of few cores, has mistyped.
_MOST_WORKERS = 256


def worker_count(workers, name="workers"):
    """How many processes: as many as asked for by the argument `name`, or one for each core that this one may use."""
    cores = machine.core_count()
    return cores if workers is None else as_count(workers, name, most=max(_MOST_WORKERS, 4 * cores))


class Crew:
    """Up to `size` processes that call one function of ours; leaving the `with` block ends them, whatever they do.

    `submit(request)` is a future of function(request). An exception that the function raises is raised here, with the
    process's traceback as a note; a process that dies is a ChildProcessError, and another takes its place.
    """

    def __init__(self, function, size):
        self._function, self._size = function, size
        self._requests = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads, self._processes = [], []
        self._dismissed = False

    def __enter__(self):
        # For a program that ends inside the block. A pool of `concurrent.futures` would wait there for its tasks.
        atexit.register(self._dismiss)
        return self

    def __exit__(self, *_):
        atexit.unregister(self._dismiss)
        self._dismiss()

    def _dismiss(self):
        with self._lock:
            self._dismissed = True
            for process in self._processes:
                process.kill()
        with suppress(queue.Empty):
            while True:
                self._requests.get_nowait()[0].cancel()
        for _ in self._threads:
            self._requests.put(None)
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.wait()
            process.stdout.close()
            with suppress(BrokenPipeError):
                process.stdin.close()

    def start(self, count):
        """Start up to so many processes now: they import while the caller makes its first requests."""
        for _ in range(min(count, self._size) - len(self._threads)):
            self._add(at_once=True)

    def submit(self, request):
        future = Future()
        self._requests.put((future, request))
        if len(self._threads) < self._size:
            self._add()
        return future

    def _add(self, at_once=False):
        self._threads.append(threading.Thread(target=self._serve_one, args=(at_once,), daemon=True))
        self._threads[-1].start()

    def _serve_one(self, at_once):
        """What a thread does: one request after the other, by a process of its own."""
        process = None
        if at_once:
            with suppress(OSError):  # which is met again, and told, by the first request
                process = self._hired()
        while (task := self._requests.get()) is not None:
            future, request = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                process = process or self._hired()
                answer, error = _asked(process, request)
            except BaseException as failure:  # also what cannot be pickled, of which half may have been sent
                if process is not None:
                    process.kill()
                process, error = None, failure
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)

    def _hired(self):
        with self._lock:
            if self._dismissed:
                raise ChildProcessError("worker: the crew is dismissed")
            self._processes.append(_start(self._function))
            return self._processes[-1]


def _asked(process, request):
    """(answer, None) or (None, the exception) of a process."""
    try:
        pickle.dump(request, process.stdin, protocol=5)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (OSError, EOFError, pickle.UnpicklingError):
        raise ChildProcessError(f"worker: it ended (exit code {process.wait()}) in its task") from None


def _start(function):
    package = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, **dict.fromkeys(_ONE_THREAD, "1")}
    # `-c`, not `-m`: this module must not be there twice, as itself and as __main__.
    command = [sys.executable, "-c", f"from {__name__} import serve; serve({function!r})"]
    # In a session of its own, Ctrl-C reaches the caller alone, who then dismisses the crew.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )


def serve(function):
    """Answer requests on standard input by "module:name" until there are no more."""
    # Standard output is for answers alone; whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    module, name = function.split(":")
    gc.disable()  # a tenth of the time of the imports, which leave nothing to collect
    answer = getattr(import_module(module), name)
    gc.freeze()
    gc.enable()
    with suppress(EOFError, BrokenPipeError):  # nobody asks, or waits for the answer, any more
        while True:
            pickle.dump(_answered(answer, sys.stdin.buffer), answers, protocol=5)
            answers.flush()


def _answered(answer, requests):
    """(answer, None), or (None, the exception) also where the request itself cannot be read."""
    try:
        request = pickle.load(requests)
        return answer(request), None
    except EOFError:
        raise
    except Exception as error:
        error.add_note(traceback.format_exc())
        return None, error
