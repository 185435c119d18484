"""Tuning with the truth known: a coordinate search from the published setting, of a few runs.

No user has the truth, so what it finds is an upper bound on what careful hands could reach, not a result. It is wide
rather than fine: the lists of values go over decades, and who is beaten at the best of them is beaten fairly.

    1. One knob after the other runs over all its values, the others staying where they are; the best stays.
    2. Round after round, each knob tries the values beside its own, until a whole round finds nothing better.
    3. Once more from 1, until that finds nothing better either.

It ends after `MOST` runs in any case. A setting is run once, on one image, and scored by its R-SNR; one that fails
counts as worse than any other.
"""

import json
import math
from collections.abc import Generator
from typing import Any

from .systems import merged

#: The most runs that tuning may take, on top of that of the published setting.
MOST = 40

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
    return walk.options(walk.place)


def _until_nothing_is_better(walk, passing):
    moved = True
    while moved and walk.left:
        before = walk.place
        yield from passing(walk)
        moved = walk.place != before


def _all_values(walk):
    for knob, values in enumerate(walk.lists):
        yield from walk.try_values(knob, range(len(values)))
    yield from _until_nothing_is_better(walk, _values_beside)


def _values_beside(walk):
    for knob in range(len(walk.lists)):
        yield from walk.try_values(knob, (walk.place[knob] - 1, walk.place[knob] + 1))


def score_of(row):
    """The R-SNR of a row; less than any other where there is none."""
    rsnr = row.get("metrics", {}).get("rsnr")
    return -math.inf if rsnr is None else rsnr


class _Walk:
    """Where a search stands: for each knob the number of its value in the knob's list."""

    def __init__(self, system, score, most):
        self.system, self.left = system, most
        self.names, self.lists = zip(*system.grid()) if system.grid() else ((), ())
        self.start = self.place = tuple(map(self._published_place, self.names, self.lists))
        self.scores = {self._key(self.place): score}

    def options(self, place):
        """The options at a place; a knob at its published value is not named."""
        options = dict(self.system.options)
        for names, values, number, start in zip(self.names, self.lists, place, self.start):
            if number != start:
                options = self.system.changed(options, names, values[number])
        return options

    def try_values(self, knob, numbers):
        """Yield the settings not yet known among those of a knob's values; move to the best."""
        places = [self._moved(knob, number) for number in numbers if 0 <= number < len(self.lists[knob])]
        new = [place for place in places if self._key(place) not in self.scores][: self.left]
        self.left -= len(new)
        scores = (yield [self.options(place) for place in new]) if new else []
        self.scores |= {self._key(place): score for place, score in zip(new, scores, strict=True)}
        known = [place for place in places if self._key(place) in self.scores]
        best = max(known, key=self._score, default=self.place)
        if self._score(best) > self._score(self.place):
            self.place = best

    def _moved(self, knob, number):
        return (*self.place[:knob], number, *self.place[knob + 1 :])

    def _score(self, place):
        return self.scores[self._key(place)]

    def _key(self, place):
        return json.dumps(self.options(place), sort_keys=True)

    def _published_place(self, names, values):
        """The number of the published value in a knob's list."""
        now = tuple(map(self.system.published, names))
        for number, value in enumerate(values):
            given = (value,) if len(names) == 1 else value
            whole = (merged(part, old) if isinstance(part, tuple) else part for part, old in zip(given, now))
            if tuple(whole) == now:
                return number
        raise ValueError(f"knobs: {', '.join(names)} of {self.system.method} lacks the published value {now}")
