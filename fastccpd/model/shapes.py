"""Shapes as people say them."""


def size_name(shape):
    """What a sentence or a label calls a shape: 80×84×204."""
    return "×".join(map(str, shape))
