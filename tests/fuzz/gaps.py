"""How long a method may be deaf: processor time between two calls of its callback, on one thread.

    NUMBA_NUM_THREADS=1 python tests/fuzz/gaps.py --size 1024 --seconds 40 --method hysure --method ltmr

`interrupt.py` measures what a user waits for, which on a busy machine says more of the machine; this does not depend on
what else runs. Each method is stopped by its callback after so many seconds. Printed are the seconds before the first
call (until then Ctrl-C ends it all at once), the longest gaps with the stage and iteration they began in, and the time
from the stop to the result.
"""

import argparse
import time
import warnings

import numpy as np

from fastccpd import fuse, methods
from fastccpd.imaging import add_noise, degrade, preset, scenes


def pair(size, bands, rng):
    """(hsi, msi, degradation), in float32."""
    scene = scenes.synthetic((size, size, bands)).cube.astype(np.float32)
    degradation = preset("stereo", scene.shape)
    return *(add_noise(image, 25.0, rng).astype(np.float32) for image in degrade(scene, degradation)), degradation


def calls(images, method, seconds):
    """[(time, stage, iteration)] of the callback's calls, and when `fuse` was back."""
    began, seen = time.process_time(), []

    def look(state):
        seen.append((time.process_time() - began, getattr(state, "stage", ""), state.n_iter))
        return seen[-1][0] > seconds

    fuse(*images, method=method, rng=0, callback=look)
    return seen, time.process_time() - began


def parser_of(text):
    """The options of a scene and of the methods that fuse it."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--bands", type=int, default=200)
    parser.add_argument("--method", action="append", choices=methods.names())
    return parser


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=40.0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    large, small = (pair(size, given.bands, rng) for size in (given.size, 160))
    for method in given.method or methods.names():
        calls(small, method, 1.0)  # compiles
        seen, ended = calls(large, method, given.seconds)
        times = [when for when, *_ in seen]
        gaps = sorted(zip(np.diff(times), seen), reverse=True)[:6]
        longest = ", ".join(f"{gap:.2f} s ({stage} {n_iter})" for gap, (_, stage, n_iter) in gaps)
        print(f"{method}: first {times[0]:.2f} s; longest {longest}; to the end {ended - times[-1]:.2f} s", flush=True)


if __name__ == "__main__":
    main()
