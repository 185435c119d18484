"""Lists and ranges of numbers as options have them: "0,5,10", "0:10", "10:80:10"."""

import argparse
import math

from .options import SNR_RANGE

# An experiment runs every system for each of them: whoever asks for more has mistyped.
_MOST_NUMBERS = 1000
_LARGEST_RANK = 100_000


def names(text):
    """Names from "a,b"."""
    return tuple(text.split(","))


def numbers(text):
    """Numbers from "0,5,10", or from a range "first:last[:step]" with both ends."""
    wrong = argparse.ArgumentTypeError(
        f"got {text!r}; a list 0,5,10 or a range first:last[:step] of finite numbers is needed"
    )
    try:
        parts = [float(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError:
        raise wrong from None
    if not all(map(math.isfinite, parts)):
        raise wrong
    if ":" not in text:
        return tuple(parts)
    if len(parts) > 3:
        raise wrong
    first, last, step = (*parts, 1.0)[:3]
    if not (step > 0 and first <= last):
        raise wrong
    if (last - first) / step >= _MOST_NUMBERS:
        raise argparse.ArgumentTypeError(f"got {text!r}, which is more than {_MOST_NUMBERS} numbers")
    return tuple(first + step * k for k in range(int((last - first) / step + 1e-9) + 1))


def snrs(text):
    """SNRs in dB, or "none", alone or at the end of the list: None."""
    given, comma, last = text.rpartition(",")
    if last.strip() == "none":
        return (*(snrs(given) if comma else ()), None)
    found, (low, high) = numbers(text), SNR_RANGE
    if not all(low <= number <= high for number in found):
        raise argparse.ArgumentTypeError(f"got {text!r}; from {low:g} to {high:g} dB are needed")
    return found


def ranks(text):
    """Whole numbers of at least 1."""
    found = numbers(text)
    if not all(number == int(number) and 1 <= number <= _LARGEST_RANK for number in found):
        raise argparse.ArgumentTypeError(
            f"got {text!r}; whole numbers of at least 1 and at most {_LARGEST_RANK} are needed"
        )
    return tuple(int(number) for number in found)
