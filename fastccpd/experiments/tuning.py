"""Tuning with the truth known: a coordinate search from the published setting, of a few runs.

No user has the truth, so what it finds is an upper bound on what careful hands could reach, not a result. It is wide
rather than fine: the lists of values go over decades, and who is beaten at the best of them is beaten fairly.

    1. One knob after the other is moved, the others staying where they are; the best value stays. A short list is run
       over whole. On a longer one, which is in order of size, the search walks up and down from where it stands, and
       past values that are as good, or one that is worse; after two of those in succession it goes no further that
       way. So what is dear and far beyond the best (a subspace of 25 in heavy noise) is not run.
    2. Round after round, each knob tries the values beside its own, until a whole round finds nothing better. So do
       the system's `steps`, knobs that are too many, or too closely tied to others, to be run over whole.
    3. Once more from 1, until that finds nothing better either.

It ends after `MOST` runs in any case. A setting is run once, on one image, and scored by its R-SNR; one that fails
counts as worse than any other.
"""

import itertools
import json
import math
from collections.abc import Generator
from typing import Any

from .rows import as_kept

#: The most runs that tuning may take, on top of that of the published setting.
MOST = 40

# A list of at most as many values is run over whole.
_SHORT = 3

# After so many values in succession that are worse than the best by so many dB, a walk goes no further.
_MISSES = 2
_WORSE = 0.05

Options = dict[str, Any]


def search(system, score: float, most: int = MOST) -> Generator[list[Options], list[float], Options]:
    """Search the settings of a system.

    Parameters
    ----------
    system : System
    score : float
        Of the published setting.
    most : int
        Runs at most.

    Yields
    ------
    list of dict
        Settings to be run, in any order; their scores are to be sent back.

    Returns
    -------
    dict
        The best setting; that of the system itself, if nothing was better.
    """
    walk = _Walk(system, score, most)
    yield from _until_nothing_is_better(walk, _all_values)
    return walk.place


def _until_nothing_is_better(walk, passing):
    moved = True
    while moved and walk.left:
        before = walk.place
        yield from passing(walk)
        moved = walk.place != before


def _all_values(walk):
    for names, values in walk.lists:
        yield from walk.along(names, values)
    yield from _until_nothing_is_better(walk, _values_beside)


def _values_beside(walk):
    for names, values in (*walk.lists, *walk.steps):
        yield from walk.try_values(names, walk.beside(names, values))


def score_of(row):
    """The R-SNR of a row; less than any other where there is none.

    To the digits of a row that is kept: with more, two settings that differ by less would lead a search from rows on
    file another way than the run that made them.
    """
    rsnr = row.get("metrics", {}).get("rsnr")
    return -math.inf if rsnr is None else as_kept(rsnr)


class _Walk:
    """Where a search stands: the best options so far, and the scores of all that were tried."""

    def __init__(self, system, score, most):
        self.system, self.left = system, most
        self.lists, self.steps = system.grid(), system.grid(steps=True)
        self.place = dict(system.options)
        self.scores = {_key(self.place): score}
        for names, values in (*self.lists, *self.steps):
            if self.number(names, values) is None:
                now = tuple(map(system.published, names))
                raise ValueError(f"knobs: {', '.join(names)} of {system.method} lacks the published value {now}")

    def try_values(self, names, values):
        """Yield the settings not yet known among those of a knob's values; move to the best."""
        places = [self._moved(names, value) for value in values]
        new = {_key(place): place for place in places if _key(place) not in self.scores}
        new = dict(itertools.islice(new.items(), self.left))
        self.left -= len(new)
        scores = (yield list(new.values())) if new else []
        self.scores |= dict(zip(new, scores, strict=True))
        known = [place for place in places if _key(place) in self.scores]
        best = max(known, key=self._score, default=self.place)
        if self._score(best) > self._score(self.place):
            self.place = best

    def along(self, names, values):
        """Yield the settings on the way up and down from a knob's value, both a step at a time; move to the best."""
        start = self.number(names, values)
        if start is None or len(values) <= _SHORT:
            yield from self.try_values(names, values)
            return
        ways = dict.fromkeys((1, -1), (start, 0))  # where each way has come to, and its misses in succession
        while ways and self.left:
            ways = {step: (at + step, misses) for step, (at, misses) in ways.items() if 0 <= at + step < len(values)}
            best = self._score(self.place)
            yield from self.try_values(names, [values[at] for at, _ in ways.values()])
            scores = {
                step: self.scores.get(self._key_at(names, values[at]), -math.inf) for step, (at, _) in ways.items()
            }
            misses = {step: 0 if score >= best - _WORSE else ways[step][1] + 1 for step, score in scores.items()}
            ways = {step: (at, misses[step]) for step, (at, _) in ways.items() if misses[step] < _MISSES}

    def beside(self, names, values):
        """The values next to that of a knob; none where it stands at another than those of its list."""
        number = self.number(names, values)
        return [] if number is None else [*values[max(0, number - 1) : number], *values[number + 1 : number + 2]]

    def number(self, names, values):
        """The number in its list of the value that a knob has; None if it has another."""
        return next((n for n, value in enumerate(values) if self._moved(names, value) == self.place), None)

    def _moved(self, names, value):
        """The options with one knob at this value; what is published is not named, unless the system does."""
        options = self.system.changed(self.place, names, value)
        given = self.system.options
        return {name: old for name, old in options.items() if name in given or old != self.system.published(name)}

    def _key_at(self, names, value):
        return _key(self._moved(names, value))

    def _score(self, place):
        return self.scores[_key(place)]


def _key(options):
    return json.dumps(options, sort_keys=True)
