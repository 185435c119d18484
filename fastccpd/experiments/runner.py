"""Tasks into rows, over processes of one thread each, so that a killed run goes on where it stopped."""

import queue

from ..workers import Crew, worker_count
from . import rows as rows_file
from .measuring import measure, task_of

# Tasks that wait for a free process, for each of them: enough that none is idle.
_AHEAD = 2


class Job:
    """Tasks of which some depend on the rows of others.

    `batches` is a generator that yields lists of tasks and is sent their rows; `most` says how many tasks it can come
    to, `asked` has the identities of those so far, in order.
    """

    def __init__(self, batches, most):
        self.batches, self.most, self.asked = batches, most, []


def listed(tasks):
    """The job of tasks that depend on nothing."""

    def batches():
        yield tasks

    return Job(batches(), len(tasks))


def run(jobs, file=None, *, known=(), workers=None, progress=None):
    """The rows of the jobs' tasks, in their order.

    Parameters
    ----------
    jobs : list of Job
        One is begun when the ones before leave a process without work.
    file : path, optional
        A JSON-lines file: rows that it holds already are not computed again, new ones are added as they are done. In
        the end it has the rows of these jobs in their order, and after them the others it had.
    known : iterable of dict
        Further rows that are not computed again.
    workers : int, optional
        Processes; None: as many as there are cores.
    progress : callable(done, total), optional
        Called at the beginning and after each row; the total is what it can come to at most.
    """
    workers = worker_count(workers)
    done = {task_of(row).identity(): row for row in known}
    if file is None:
        _compute(jobs, done, workers, progress, lambda row: None)
        return _asked(jobs, done)
    with rows_file.appending(file) as append:
        mine = {task_of(row).identity(): row for row in rows_file.read(file)}
        done |= mine
        _compute(jobs, done, workers, progress, append)
        asked = _asked(jobs, done)
        wanted = {task_of(row).identity() for row in asked}
        rows_file.rewrite(file, [*asked, *(row for identity, row in mine.items() if identity not in wanted)])
    return asked


def _asked(jobs, done):
    """The rows that the jobs asked for, each once."""
    return [done[identity] for identity in dict.fromkeys(identity for job in jobs for identity in job.asked)]


def _compute(jobs, done, workers, progress, append):
    """Add the rows of the jobs' tasks to `done`, giving each to `append` when it comes."""
    # After the last row, and on any interruption, no task is begun any more, and none is waited for.
    with Crew(f"{measure.__module__}:{measure.__name__}", workers) as crew:
        board = _Board(crew, done, jobs)
        board.begin(workers)
        if progress is not None:
            progress(*board.count())
        while board.pending:
            append(board.next_row())
            board.begin(workers)
            if progress is not None:
                progress(*board.count())


class _Board:
    """Which tasks are under way, and which jobs wait for them."""

    def __init__(self, crew, done, jobs):
        self.crew, self.done = crew, done
        self.waiting = list(reversed(jobs))
        self.running, self.finished = [], []
        self.pending, self.completed = {}, queue.SimpleQueue()

    def begin(self, workers):
        """Begin jobs until there is enough to do."""
        while self.waiting and len(self.pending) < _AHEAD * workers:
            self._advance(self.waiting.pop(), None)

    def next_row(self):
        """Wait for a row; jobs that have all they asked for go on."""
        identity, future = self.completed.get()
        row = future.result()
        self.done[identity] = row
        del self.pending[identity]
        ready = [entry for entry in self.running if all(task in self.done for task in entry[1])]
        self.running = [entry for entry in self.running if entry not in ready]
        for job, batch in ready:
            self._advance(job, [self.done[task] for task in batch])
        return row

    def count(self):
        """(rows that are there, rows that it can come to) of all jobs."""
        under_way = [job for job, _ in self.running]
        asked = {identity for job in (*self.finished, *under_way) for identity in job.asked}
        to_come = sum(max(0, job.most - len(job.asked)) for job in (*under_way, *self.waiting))
        return sum(identity in self.done for identity in asked), len(asked) + to_come

    def _advance(self, job, rows):
        """Ask a job for further tasks until it has to wait for one."""
        while True:
            try:
                tasks = job.batches.send(rows)
            except StopIteration:
                self.finished.append(job)
                return
            batch = {task.identity(): task for task in tasks}
            job.asked += batch
            new = {identity: task for identity, task in batch.items() if identity not in self.done}
            for identity, task in new.items():
                if identity not in self.pending:
                    self.pending[identity] = task
                    future = self.crew.submit(task)
                    future.add_done_callback(lambda future, identity=identity: self.completed.put((identity, future)))
            if new:
                self.running.append((job, list(batch)))
                return
            rows = [self.done[identity] for identity in batch]
