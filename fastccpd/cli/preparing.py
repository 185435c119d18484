"""The options that say how two files are made ready, and the `Preparation` that they stand for."""

import argparse
import re

from ..rasters import Preparation


def add_preparation_options(verb):
    """--no-align, --grid, --bbox, --window, --keep-bands, scales, offsets and masks."""
    group = verb.add_argument_group("how the two files are made ready")
    group.add_argument(
        "--no-align",
        dest="align",
        action="store_false",
        help="leave the blur where it is given or assumed, rather than move it by the shift that the images show",
    )
    group.add_argument(
        "--grid",
        default="hsi",
        metavar="hsi|msi|FILE",
        help="the fine grid of the result: the HSI's pixels divided by the ratio, to which the MSI is warped where it "
        "lies otherwise (hsi, the default), the MSI's own pixels (msi, for images of one coordinate system), or that "
        "of a FILE",
    )
    group.add_argument(
        "--bbox",
        type=_bbox,
        metavar="LEFT,BOTTOM,RIGHT,TOP",
        help="cut out whole HSI pixels that meet this box, in the coordinates of the grid",
    )
    group.add_argument(
        "--window",
        type=_window,
        metavar="ROW:ROW,COL:COL",
        help="cut out HSI pixels, counted from 0, the last not included: 10:60,0:50",
    )
    group.add_argument(
        "--keep-bands",
        metavar="BANDS",
        help="HSI bands, counted from 1, that are used although they are constant or marked as bad: 7,12-15, or all",
    )
    for name in ("hsi", "msi"):
        for part in ("scale", "offset"):
            group.add_argument(
                f"--{name}-{part}",
                type=float,
                metavar="X",
                help=f"a physical value of the {name.upper()} is stored value × scale + offset "
                f"(default {part}: what the file says, else {'1' if part == 'scale' else '0'})",
            )
        group.add_argument(
            f"--{name}-mask",
            metavar="FILE",
            help=f"a raster that is not zero where pixels of the {name.upper()} are left out; scl.tif::3,8,9,10 names "
            "the values that mask, as of Sentinel-2's scene classification",
        )


def preparation_of(options):
    """The `Preparation` that the options stand for."""
    names = ("grid", "bbox", "window", "keep_bands", "ratio", "band_axis")
    names += tuple(f"{image}_{part}" for image in ("hsi", "msi") for part in ("scale", "offset", "mask"))
    return Preparation(**{name: getattr(options, name) for name in names})


def _bbox(text):
    try:
        left, bottom, right, top = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}; LEFT,BOTTOM,RIGHT,TOP, four numbers, are needed") from None
    return left, bottom, right, top


def _window(text):
    match = re.fullmatch(r"(\d*):(\d*),(\d*):(\d*)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"got {text!r}; ROW:ROW,COL:COL as in 10:60,0:50 is needed")
    top, bottom, left, right = (int(number) if number else None for number in match.groups())
    return slice(top, bottom), slice(left, right)
