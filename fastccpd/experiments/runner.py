"""Tasks into rows, over processes of one thread each, so that a killed run goes on where it stopped."""

from concurrent.futures import as_completed

from ..workers import Crew, worker_count
from . import rows as rows_file
from .measuring import measure, task_of


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
    workers = worker_count(workers)
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
    # After the last row, and on any interruption, no task is begun any more, and none is waited for.
    with Crew(f"{measure.__module__}:{measure.__name__}", min(workers, len(tasks))) as crew:
        futures = {crew.submit(task): task for task in tasks}
        for count, future in enumerate(as_completed(futures), start=1):
            row = future.result()
            append(row)
            done[futures[future].identity()] = row
            if progress is not None:
                progress(before + count, total)
