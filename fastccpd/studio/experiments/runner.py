"""Tasks into rows, over processes of one thread each, so that a killed run goes on where it stopped.

Rows are independent, so the cores are used best by one task on each; kernels and BLAS are told to use one thread. The
processes are started anew (not forked: a fork does not survive OpenMP) and speak JSON over pipes, so that nothing is
asked of the caller's main module.
"""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path

from ...model.checks import as_count
from . import rows as rows_file
from .measuring import task_of

_ONE_THREAD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def run(tasks, file=None, *, workers=None, progress=None):
    """The rows of the tasks, in their order.

    Parameters
    ----------
    tasks : list of Task
    file : path, optional
        A JSON-lines file: rows that it holds already are not computed again, new ones are added as they are done. In
        the end it has the rows of these tasks in their order, and after them the others it had.
    workers : int, optional
        Processes; None: as many as there are cores.
    progress : callable(done, total), optional
        Called at the beginning and after each row.
    """
    workers = as_count(os.cpu_count() or 1 if workers is None else workers, "workers")
    if file is None:
        done = {}
        _compute(tasks, done, workers, progress, lambda row: None)
        return [done[task.identity()] for task in tasks]
    with rows_file.appending(file) as append:
        before = rows_file.read(file)
        done = {task_of(row).identity(): row for row in before}
        _compute([task for task in tasks if task.identity() not in done], done, workers, progress, append)
        asked = {task.identity(): done[task.identity()] for task in tasks}
        others = [row for identity, row in done.items() if identity not in asked]
        rows_file.rewrite(file, [*asked.values(), *others])
    return list(asked.values())


def _compute(tasks, done, workers, progress, append):
    """Add the rows of the tasks to `done`, giving each to `append` when it comes."""
    total, before = len(tasks) + len(done), len(done)
    if progress is not None:
        progress(before, total)
    if not tasks:
        return
    crew = _Crew()
    with ThreadPoolExecutor(min(workers, len(tasks))) as pool:
        futures = {pool.submit(crew.answer, task): task for task in tasks}
        try:
            for count, future in enumerate(as_completed(futures), start=1):
                row = future.result()
                append(row)
                done[futures[future].identity()] = row
                if progress is not None:
                    progress(before + count, total)
        finally:
            # After the last row, and on any interruption: no task is begun any more, and none is waited for.
            for future in futures:
                future.cancel()
            crew.dismiss()


class _Crew:
    """One worker process a thread."""

    def __init__(self):
        self._own = threading.local()
        self._lock = threading.Lock()
        self._all = []
        self._dismissed = False

    def answer(self, task):
        """The row of a task, from the process of this thread."""
        if not hasattr(self._own, "process"):
            with self._lock:
                if self._dismissed:
                    raise ChildProcessError("worker: the experiment is over")
                self._own.process = _start()
                self._all.append(self._own.process)
        process = self._own.process
        try:
            process.stdin.write(task.identity() + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise ChildProcessError(f"worker: it ended (exit code {process.wait()}) in the task {task.identity()}")
        return json.loads(line)

    def dismiss(self):
        with self._lock:
            self._dismissed = True
            for process in self._all:
                process.kill()
                process.wait()
                process.stdout.close()
                with suppress(BrokenPipeError):
                    process.stdin.close()


def _start():
    package = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, **dict.fromkeys(_ONE_THREAD, "1")}
    command = [sys.executable, "-m", f"{__package__}.worker"]
    # In a session of its own, Ctrl-C reaches the caller alone, who then dismisses the crew.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment,
        start_new_session=True,
    )  # fmt: skip
