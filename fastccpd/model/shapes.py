"""Shapes as people say them."""

from collections.abc import Iterable


def size_name(shape: Iterable[int]) -> str:
    """What a sentence or a label calls a shape: 80×84×204.

    Parameters
    ----------
    shape : sequence of int

    Returns
    -------
    str
    """
    return "×".join(map(str, shape))
