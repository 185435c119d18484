"""Figures that are sums over the pixels of a scene: those of two parts, added, are those of both."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Self, TypeVar

Part = TypeVar("Part", bound="Sums")

# The metadata of a field that all parts of a scene have in common: it is kept, not added.
COMMON = {"common": True}


class Sums:
    """The base of frozen dataclasses that `+` adds field by field.

    A tuple is added entry by entry, and None, where a part has nothing to say, adds nothing.
    """

    def __add__(self, other: Self) -> Self:
        added: dict[str, Any] = {}
        for entry in fields(self):  # type: ignore[arg-type]
            mine, theirs = getattr(self, entry.name), getattr(other, entry.name)
            added[entry.name] = mine if entry.metadata.get("common") else _sum(mine, theirs)
        return type(self)(**added)


def added(parts: Iterable[Part], nothing: Part) -> Part:
    """The sum of some parts, the first to the last; `nothing` where there are none."""
    parts = iter(parts)
    total = next(parts, nothing)
    for part in parts:
        total = total + part
    return total


def _sum(mine, theirs):
    if mine is None or theirs is None:
        return theirs if mine is None else mine
    if isinstance(mine, tuple):
        return tuple(_sum(*pair) for pair in zip(mine, theirs, strict=True))
    return mine + theirs
