"""Who does the tasks: processes of this machine, or the workers of a dask cluster. Both give futures.

Never more tasks are out than there are hands for them and one beside each, whatever the size of the scene. A task whose
worker is lost is done again.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..workers import Crew
from .tasks import perform, perform_in_worker


@dataclass(frozen=True)
class Hands:
    """What does the tasks: a crew of processes, or a cluster.

    Attributes
    ----------
    submit : callable(task) -> Future
    count : int
        How many tasks are done at once.
    memory : int or None
        Bytes for each of them; None where they share this machine's.
    """

    submit: Callable[[Any], Future]
    count: int
    memory: int | None = None


# How often a task may lose its worker.
_TRIES = 3

# Seconds after which a wait looks up: a Ctrl-C is heard then at the latest.
_PULSE = 0.2


def _at_once(task):
    """The task done in this process."""
    future = Future()
    try:
        future.set_result(perform(task))
    except Exception as error:
        future.set_exception(error)
    return future


class _DaskCrew:
    """A dask cluster that looks like a `Crew`."""

    def __init__(self, client):
        self._client, self._out = client, set()

    def submit(self, task):
        ours, theirs = Future(), self._client.submit(perform_in_worker, task, pure=False)
        self._out.add(theirs)  # dask forgets a task whose future is gone

        def pass_on(done):
            self._out.discard(theirs)
            try:
                ours.set_result(done.result())
            except CancelledError:
                ours.set_exception(ChildProcessError("dask: the task was cancelled"))
            except Exception as error:
                lost = type(error).__name__ in ("KilledWorker", "FutureCancelledError", "CommClosedError")
                ours.set_exception(ChildProcessError(f"dask: {error}") if lost else error)

        theirs.add_done_callback(pass_on)
        return ours

    def cancel(self):
        self._client.cancel(list(self._out), force=True)


@contextmanager
def crew_of(workers: int, client: Any = None, soon: int = 0) -> Iterator[Hands]:
    """Who does the tasks; on leaving, what is not done is dropped.

    Parameters
    ----------
    workers : int
        Processes of this machine, unless there is a client; 0 is this process itself.
    client : distributed.Client or str, optional
        A client, or the address of a scheduler.
    soon : int
        How many of the processes to start at once, for tasks that come soon; the others start with their first task.
    """
    if client is None and workers == 0:
        yield Hands(_at_once, 1)
    elif client is None:
        with Crew(f"{perform_in_worker.__module__}:{perform_in_worker.__name__}", workers) as crew:
            crew.start(soon)
            yield Hands(crew.submit, workers)
    else:
        with _connected(client) as connected:
            _warm_up(connected)
            crew = _DaskCrew(connected)
            try:
                yield Hands(crew.submit, *_of_cluster(connected))
            finally:
                crew.cancel()


def _warm_up(client):
    """Have every worker import what tasks need."""
    try:
        client.run(_ready)
    except Exception as error:
        raise ConnectionError(f"scheduler: its workers cannot run fastccpd ({str(error).splitlines()[0]})") from None


def _ready():
    """What every worker of a cluster does first: it has imported this module, with all that tasks need."""


def _of_cluster(client):
    """How many tasks a cluster does at once, and the least memory that one of them has."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    limits = [worker["memory_limit"] // worker["nthreads"] for worker in workers if worker["memory_limit"]]
    count = sum(worker["nthreads"] for worker in workers)
    if count == 0:
        raise ConnectionError("scheduler: it has no workers; start some")
    return count, min(limits, default=None)


@contextmanager
def _connected(client):
    """A client; one that is made here is closed here."""
    if not isinstance(client, str):
        yield client
        return
    try:
        from distributed import Client
    except ImportError:
        raise ModuleNotFoundError('a scheduler needs dask.distributed; pip install "fastccpd[scale]"') from None
    try:
        made = Client(client, timeout=5)
    except (OSError, ValueError, TimeoutError) as error:
        raise ConnectionError(f"scheduler: {client} does not answer ({str(error).splitlines()[0]})") from None
    with made:
        yield made


def done_in_any_order(
    crew: Hands,
    tasks: Iterable[tuple[Any, Callable[[], Any]]],
    most: int,
    lost: Callable[[Any, ChildProcessError], Any] | None = None,
) -> Iterator[tuple[Any, Any]]:
    """(key, result) of tasks as they are done.

    Parameters
    ----------
    crew : Hands
    tasks : iterable of (key, callable that makes the task)
        A task is made when its turn comes: it may hold pixels.
    most : int
        How many are out at once.
    lost : callable(key, error), optional
        Gives what stands for the result of a task that lost its worker again and again. None: that is an error.
    """
    waiting, coming = {}, iter(tasks)
    while True:
        while len(waiting) < most and (entry := next(coming, None)) is not None:
            key, make = entry
            waiting[crew.submit(make())] = key, make, 1
        if not waiting:
            return
        done, _ = wait(waiting, timeout=_PULSE, return_when=FIRST_COMPLETED)
        for future in done:
            key, make, tries = waiting.pop(future)
            try:
                yield key, future.result()
            except ChildProcessError as error:
                if tries < _TRIES:
                    time.sleep(0.1)
                    waiting[crew.submit(make())] = key, make, tries + 1
                    continue
                error = ChildProcessError(f"task {key}: its worker was lost {tries} times ({error})")
                if lost is None:
                    raise error from None
                yield key, lost(key, error)
