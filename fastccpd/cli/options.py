"""Options that several verbs have, each named once; and the options of a method from all of them."""

import argparse
import json
import math

from .. import methods
from ..model.checks import as_count

#: Beyond these, in dB, the noise or the image is lost in rounding.
SNR_RANGE = (-100.0, 300.0)


def add_output_options(verb, force=None):
    """--json and --quiet, and --force where there is something to overwrite."""
    verb.add_argument("--json", action="store_true", help="the outcome as JSON on stdout")
    verb.add_argument("--quiet", action="store_true", help="nothing but warnings and errors on stderr")
    if force is not None:
        verb.add_argument("--force", action="store_true", help=force)


def add_band_axis(verb):
    """For the formats that do not declare their axes."""
    verb.add_argument(
        "--band-axis",
        type=int,
        choices=(0, 1, 2),
        help="which stored axis holds the bands, in npy, npz and mat files, which do not say (default: the last)",
    )


def add_seed(verb, what):
    """The one number that all randomness comes from."""
    verb.add_argument("--seed", type=int, default=0, metavar="N", help=f"of {what} (default 0)")


def add_operator_options(verb, default_ratio, default_srf=None):
    """--ratio, --psf, and --srf or --bands."""
    verb.add_argument(
        "--ratio",
        type=int,
        metavar="D",
        help=f"MSI pixels per HSI pixel, in each direction (default: {default_ratio})",
    )
    verb.add_argument(
        "--psf",
        metavar="SPEC",
        help="the blur between the grids: auto (estimated from the images, with the shift), stereo, scott, "
        "gaussian[,sigma=…,taps=…,phase=…,boundary=…] or a FILE.npz that holds P1 and P2; sigma and phase in MSI "
        "pixels, one number or 1.6x2 for rows and columns (default: auto where no response is given either, else a "
        "Gaussian about the middle of the HSI's pixels where both images are georeferenced, else stereo)",
    )
    default = f" (default: {default_srf})" if default_srf else ""
    response = verb.add_mutually_exclusive_group()
    response.add_argument(
        "--srf",
        metavar="SPEC",
        help="the spectral response of the MSI: auto (estimated from the images), a sensor that fastccpd info lists, "
        "such as sentinel-2a (sentinel-2a::B2,B3 picks bands), landsat (of published experiments), a FILE.csv (columns "
        "band, wavelength_nm, response, or wavelength_nm and one a band; FILE.csv::B2,B3 picks bands), or a FILE.npy, "
        ".npz or .mat that holds the matrix "
        f"PM{default}",
    )
    response.add_argument(
        "--bands",
        metavar="GROUPS",
        help="for each MSI band the HSI bands that it averages, counted from 1: 6-12,13-19+21,25 is three bands",
    )


def add_output(verb, metavar, help):
    """-o, of verbs that need an output."""
    verb.add_argument("-o", "--output", required=True, metavar=metavar, help=help)


def add_fusion_options(verb):
    """Which method, from which random starts, and when it stops."""
    add_method_options(verb)
    add_seed(verb, "the random starts")
    _add_stopping_options(verb)


def add_method_options(verb):
    """Which method, at which rank and precision."""
    verb.add_argument(
        "--method",
        default=methods.DEFAULT,
        metavar="NAME",
        help=f"one that fastccpd methods lists (default {methods.DEFAULT})",
    )
    verb.add_argument(
        "--rank",
        type=_rank,
        metavar="R",
        help="a number, three as in 12,12,12, or auto where the method can find it (default: the method's)",
    )
    verb.add_argument(
        "--dtype", choices=("float32", "float64"), help="precision of work and result (default: the data's)"
    )


def _add_stopping_options(verb):
    """When a method stops, and its other options."""
    verb.add_argument("--max-iter", type=int, metavar="N", help="iterations at most (default: the method's)")
    verb.add_argument("--tol", type=float, help="relative change of the cost at which to stop (default: the method's)")
    verb.add_argument("--time-limit", type=float, metavar="S", help="seconds at most, over all starts")
    verb.add_argument(
        "--option",
        action="append",
        default=[],
        type=option_of,
        metavar="NAME=VALUE",
        help="any other option of the method, as JSON or text; may be repeated (see fastccpd methods NAME)",
    )


def check_snr(value, option):
    """Refuse a signal-to-noise ratio beyond what numbers can hold; inf is no noise."""
    if not (SNR_RANGE[0] <= value <= SNR_RANGE[1] or value == math.inf):
        low, high = SNR_RANGE
        raise ValueError(
            f"{option}: got {value}; a number of dB, or inf for no noise, is needed, from {low:g} to {high:g}"
        )


def method_settings(options):
    """What the method is given by these options; whatever is wrong with them is said before any file is read."""
    given = dict(getattr(options, "option", []))
    known = methods.get(options.method).option_names()
    if getattr(options, "tol", None) is not None:
        name = next((name for name in ("ftol", "tol") if name in known), None)
        if name is None:
            raise ValueError(f"--tol: {options.method} has no tolerance to stop at; leave it out, or use --max-iter")
        given[name] = options.tol
    for name in ("rank", "max_iter"):
        if getattr(options, name, None) is not None:
            given[name] = getattr(options, name)
    methods.make(options.method, given)
    as_count(getattr(options, "seed", 0), "--seed", least=0)
    return given


# Options of fuse that `fuse_files` and `fuse_files_in_tiles` know by the same names.
_SAME = ("psf", "srf", "bands", "align", "place", "match_values", "fill_nodata", "keep_filled", "uncertainty", "method")
_SAME += ("dtype", "starts", "combine", "time_limit", "messages")


def fusion_arguments(options):
    """What both `fuse_files` and `fuse_files_in_tiles` are given by the options of fuse, beside the method's own."""
    return {name: getattr(options, name) for name in _SAME} | {"rng": options.seed, "overwrite": options.force}


def _rank(text):
    if text == "auto":
        return text
    try:
        ranks = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"got {text!r}; a whole number, three as in 12,12,12, or auto is needed"
        ) from None
    return ranks[0] if len(ranks) == 1 else ranks


def option_of(text):
    """The name and the value of NAME=VALUE."""
    name, mark, value = text.partition("=")
    if not (mark and name):
        raise argparse.ArgumentTypeError(f"got {text!r}; NAME=VALUE is needed")
    try:
        return name.replace("-", "_"), json.loads(value)
    except ValueError:
        return name.replace("-", "_"), value
    except RecursionError:
        raise argparse.ArgumentTypeError(f"got {text[:40]!r}…, nested too deeply; NAME=VALUE is needed") from None
