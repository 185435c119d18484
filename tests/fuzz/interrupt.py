"""How long a Ctrl-C waits for its answer: SIGINT at random moments of `fastccpd fuse`.

    python tests/fuzz/interrupt.py --size 1024 --bands 200 --trials 20 --method auto --method stereo

The latency is the time from the signal to the end of the fusion; what there is is rendered and written after that, and
how long it takes is for the disk to say. A trial is right if the exit code is 130, one line on stderr and no output, or
4 with an output that can be read, or 0 where the fusion was done already; a traceback never is.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from gaps import parser_of

from fastccpd import formats, methods
from fastccpd.imaging import add_noise, degrade, preset, scenes

# Says when the fusion ends, which the command line itself does not.
SCRIPT = """
import signal, sys, time
from fastccpd.__main__ import _leave, main
print(f"@begin {time.monotonic()}", file=sys.stderr, flush=True)
signal.signal(signal.SIGINT, _leave)  # as `main` does while it imports
from fastccpd.rasters import fusing
fuse = fusing.fuse
def timed(*images, **options):
    try:
        return fuse(*images, **options)
    finally:
        print(f"@end {time.monotonic()} {time.process_time()}", file=sys.stderr, flush=True)
fusing.fuse = timed
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def make(folder, size, bands):
    """A pair of float32 images in files."""
    scene = scenes.synthetic((size, size, bands)).cube.astype(np.float32)
    rng = np.random.default_rng(0)
    images = degrade(scene, preset("stereo", scene.shape))
    for name, image in zip(("hsi", "msi"), images):
        formats.write(folder / f"{name}.npy", formats.Raster(add_noise(image, 25.0, rng).astype(np.float32)))


def begin(folder, method):
    output = folder / "out.npy"
    output.unlink(missing_ok=True)
    arguments = ["fuse", "hsi.npy", "msi.npy", "-o", "out.npy", "--srf", "landsat", "--method", method]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def moments(errors):
    """{"begin": seconds, "end": seconds} as far as they were reached."""
    return {line.split()[0][1:]: float(line.split()[1]) for line in errors.splitlines() if line.startswith("@")}


def trial(folder, method, after):
    """(latency, what is wrong or "") of a SIGINT so many seconds after Python had begun."""
    child = begin(folder, method)
    child.stderr.readline()
    time.sleep(after)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=600)
    ended = moments(errors).get("end", time.monotonic())
    lines = [line for line in errors.splitlines() if not line.startswith("@")]
    output = folder / "out.npy"
    wrong = "a traceback" if "Traceback" in errors else ""
    if child.returncode == 130:
        wrong = wrong or ("an output" if output.exists() else "")
    elif child.returncode in (0, 4):
        wrong = wrong or ("" if output.exists() and formats.read(output).shape else "no output")
    else:
        wrong = f"exit code {child.returncode}: {lines[-1:]}"
    return max(0.0, ended - sent), wrong


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--before", type=float, metavar="S", help="seconds, for a method whose whole run takes long")
    given = parser.parse_args()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, given.size, given.bands)
        for method in given.method or methods.names():
            seconds = given.before
            if seconds is None:
                whole = moments(begin(folder, method).communicate()[1])
                seconds = whole["end"] - whole["begin"]
            found = [trial(folder, method, rng.uniform(0.0, seconds)) for _ in range(given.trials)]
            latencies = sorted(latency for latency, _ in found)
            figures = {"seconds": seconds, "median": latencies[len(latencies) // 2], "worst": latencies[-1]}
            figures["nine of ten"] = latencies[max(0, int(0.9 * len(latencies)) - 1)]
            wrong = [text for _, text in found if text]
            print(method, json.dumps({key: round(value, 2) for key, value in figures.items()}), *wrong, flush=True)


if __name__ == "__main__":
    main()
