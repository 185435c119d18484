"""Scenes fused whole and in tiles of several sizes: R-SNR, CPU seconds, and the error at seams. A row of Markdown each.

    python asv_bench/tile_sizes.py 1024 --tiles 1024 512 256
    python asv_bench/tile_sizes.py 192 --tiles 96 --bands 36 --method all

One thread, in this process. "all" is every method of the registry, those that take long with settings that keep them
brief (`BRIEF`); one that needs a periodic blur gets one. The seam's figure is the root mean square error within 8
pixels of a seam over that elsewhere, divided by the same ratio of the image fused whole: a scene is harder in some
places than in others.
"""

import argparse
import time

import numpy as np

import fastccpd
from fastccpd import Degradation, methods
from fastccpd.cli.options import option_of
from fastccpd.imaging import add_noise, degrade, gaussian, landsat, metrics, preset, scenes
from fastccpd.tiles import fuse_tiles

# Settings of the methods that take long, and of those whose defaults are for larger scenes.
BRIEF = {
    "b-scott": {"blocks": (2, 2), "rank": (20, 20, 4)},
    "cbtd-apg": {"rank": 6, "max_iter": 100},
    "ltmr": {"rank": 4, "eta": 1e-2, "mu": 0.05, "clusters": 40, "max_iter": 20},
    "nctcp": {"rank": 30, "max_iter": 2},
    "nn-btd-mu": {"rank": 6, "max_iter": 100},
    "nn-ccpd-nls": {"rank": 12, "max_iter": 50},
    "nnstf": {"max_iter": 2},
    "nssr": {"max_iter": 5},
    "stereo": {"rank": 12},
    "uc-ccpd-nls": {"rank": 12, "max_iter": 50},
}


def main():
    options = _options()
    for method in methods.names() if options.method == ["all"] else options.method:
        measure(method, options)


def measure(method, options):
    """The rows of one method."""
    boundary = "periodic" if methods.get(method).needs_periodic_blur else options.boundary
    truth, hsi, msi, degradation = pair(options.side, options.bands, options.snr, boundary)
    settings = BRIEF.get(method, {}) | dict(options.option)
    began = time.process_time()
    whole = fastccpd.fuse(hsi, msi, degradation, method=method, threads=1, **settings).sri
    untiled = metrics.rsnr(whole, truth)
    error = np.square(whole - truth).mean(axis=2)
    del whole
    print(f"| {options.side}², {method}, {boundary} | untiled | {untiled:.3f} | ", end="")
    print(f"{time.process_time() - began:.1f} | |", flush=True)
    for tile in options.tiles:
        began = time.process_time()
        with fuse_tiles(hsi, msi, degradation, tile=tile, method=method, workers=0, **settings) as fused:
            image, seconds = fused.sri, time.process_time() - began
            found = seam_ratio(np.square(image - truth).mean(axis=2), error, fused.plan)
        print(f"| | {tile} | {metrics.rsnr(image, truth) - untiled:+.4f} | {seconds:.1f} | {found:.4f} |", flush=True)


def pair(side, bands, snr, boundary):
    """(truth, hsi, msi, degradation) in float32."""
    shape = side, side, bands
    truth = scenes.synthetic(shape).cube.astype(np.float32)
    degradation = preset("stereo", shape)
    if boundary != "periodic":
        degradation = Degradation(*gaussian(shape[:2], 4, phase=1.5, boundary=boundary), landsat(bands))
    rng = np.random.default_rng(0)
    return truth, *(add_noise(image, snr, rng).astype(np.float32) for image in degrade(truth, degradation)), degradation


def seam_ratio(tiled, whole, plan):
    """How much larger the error is at seams than elsewhere, both in units of the untiled error there."""
    seams = np.zeros(tiled.shape, bool)
    for span in plan.rows[1:]:
        seams[span.core[0] - 8 : span.core[0] + 8] = True
    for span in plan.cols[1:]:
        seams[:, span.core[0] - 8 : span.core[0] + 8] = True
    if not seams.any():
        return 1.0
    return float(np.sqrt(tiled[seams].mean() / whole[seams].mean() * whole[~seams].mean() / tiled[~seams].mean()))


def _options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("side", type=int)
    parser.add_argument("--tiles", type=int, nargs="+", default=[512, 256, 128])
    parser.add_argument("--bands", type=int, default=60)
    parser.add_argument("--snr", type=float, default=30.0)
    parser.add_argument("--method", nargs="+", default=["auto"], help="one or more, or all")
    parser.add_argument("--option", action="append", default=[], type=option_of, metavar="NAME=VALUE")
    parser.add_argument("--boundary", default="reflect", help="reflect, or periodic: that of the preset stereo")
    return parser.parse_args()


if __name__ == "__main__":
    main()
