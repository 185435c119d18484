"""One large scene, fused by `fastccpd fuse` in tiles: time, memory of all processes together, and quality.

    python asv_bench/large_scene.py FOLDER --side 3000 --bands 224 --memory 4G --crop 999 --spectra enmap-potsdam

The scene is a few maps times a few spectra, so that it need not be held: images are made, and the result is compared
with it, block by block. The memory is the sum of the resident sizes of all processes, looked at every twentieth of a
second (pages that they share count in each), and the same with shared pages divided (PSS), which takes long to find
out, every fortieth time. With --int16 the images are integers, as products have them, and are worked on in float64.

Whatever ends it, the same command goes on: images that are there are not made again, tiles that are done are kept, and
the figures of a fusion that is done stay in FOLDER/measured.json.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from functools import cached_property
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import psutil

from fastccpd import Degradation, fuse
from fastccpd.formats import windows
from fastccpd.imaging import gaussian, metrics, scenes
from fastccpd.imaging.landscape import kinds_of, maps, spectrum
from fastccpd.model.files import write_whole
from fastccpd.rasters.tiling import folder_of

RATIO, MSI_BANDS, MATERIALS, SNR, SIGMA = 3, 10, 8, 35.0, 1.5


def main():
    options = _options()
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    scene = Scene(options.side, options.bands, options.spectra, np.int16 if options.int16 else np.float32)
    scene.write(folder)
    out, kept = folder / "fused.tif", folder / "measured.json"
    if not (out.exists() and kept.exists()):
        write_whole(kept, json.dumps(_fused(scene, folder, out, options)), overwrite=True)
    found = json.loads(kept.read_text())
    found |= {"side": options.side, "bands": options.bands}
    found["cpu_microseconds_per_pixel"] = 1e6 * found["cpu_seconds"] / options.side**2
    found["output_gb"] = out.stat().st_size / 1e9
    found["rsnr_db"] = scene.rsnr(out, options.side)
    if options.crop:
        found["rsnr_db_in_crop"] = scene.rsnr(out, options.crop)
        found["crop_fused_whole_rsnr_db"] = scene.rsnr_of_crop(options.crop)
    print(json.dumps(found, indent=2))


def _fused(scene, folder, out, options):
    files = str(folder / "hsi.npy"), str(folder / "msi.npy")
    command = [sys.executable, "-m", "fastccpd", "fuse", *files, "-o", str(out), "--cog", "--json"]
    command += ["--psf", scene.psf, "--bands", scene.groups, "--memory", options.memory, "--method", options.method]
    command += ["--workers", str(options.workers)] if options.workers else []
    command += ["--tile", str(options.tile)] if options.tile else []
    resumed = folder_of(out).exists()
    found = measured([*command, "--resume" if resumed else "--force"]) | {"resumed": resumed}
    printed = found.pop("printed")
    return found | {name: printed[name] for name in ("tiles", "shared", "status")}


class Scene:
    """Maps times spectra, and how two sensors see them."""

    def __init__(self, side, bands, spectra=None, dtype=np.float32):
        rng = np.random.default_rng(0)
        kinds = kinds_of(MATERIALS)
        wavelengths = np.linspace(420.0, 2450.0, bands)
        made = np.array([spectrum(kind, wavelengths, rng) for kind in kinds])
        self.spectra = (made if spectra is None else purest(scenes.load(spectra), wavelengths)).astype(np.float32)
        self._kinds, self._rng = kinds, rng
        self.dtype, self.unit = dtype, 1e4 if dtype == np.int16 else 1.0
        self.side, self.bands = side, bands
        edges = np.linspace(0, bands, MSI_BANDS + 1).astype(int)
        self.groups = ",".join(f"{a + 1}-{b}" for a, b in pairwise(edges))
        self.PM = np.array([[(a <= k < b) / (b - a) for k in range(bands)] for a, b in pairwise(edges)])
        self.psf = f"gaussian,sigma={SIGMA},phase=1,boundary=reflect"

    @cached_property
    def maps(self):
        cover, shade = maps((self.side, self.side), self._kinds, self._rng)
        return (cover * shade[:, :, None]).astype(np.float32)

    def blur(self, side):
        return gaussian((side, side), RATIO, sigma=SIGMA, phase=1.0, boundary="reflect")

    def write(self, folder):
        if all((folder / f"{name}.npy").exists() for name in ("hsi", "msi")):
            return
        P1, P2 = self.blur(self.side)
        coarse = np.stack([(P1 @ (P2 @ layer.T).T) for layer in np.moveaxis(self.maps, 2, 0)], axis=2)
        response = self.spectra @ self.PM.T.astype(np.float32)
        for seed, (name, layers, seen) in enumerate((("hsi", coarse, self.spectra), ("msi", self.maps, response))):
            path, rng = folder / f"{name}.npy", np.random.default_rng(seed)
            if path.exists():
                continue
            shape, unfinished = (*layers.shape[:2], seen.shape[1]), path.with_suffix(".part")
            out = np.lib.format.open_memmap(unfinished, "w+", self.dtype, shape)
            clean = layers[:: max(1, len(layers) // 50)] @ seen
            sigma = np.sqrt(np.mean(clean**2) / 10 ** (SNR / 10))
            for first in range(0, len(layers), 100):
                block = layers[first : first + 100] @ seen
                block += sigma * rng.standard_normal(block.shape, dtype=np.float32)
                out[first : first + 100] = np.rint(self.unit * block) if self.dtype == np.int16 else block
            out.flush()
            unfinished.rename(path)

    def rsnr(self, path, side):
        """Of the file's first rows and columns, block by block."""
        image, error, power = windows(path), 0.0, 0.0
        for first in range(0, side, 256):
            rows = slice(first, min(first + 256, side))
            truth = self.maps[rows, :side] @ self.spectra
            found = image.read(rows, slice(0, side)) / np.float32(self.unit)
            error += float(np.square(found - truth).sum(dtype=np.float64))
            power += float(np.square(truth).sum(dtype=np.float64))
        return 10 * np.log10(power / error)

    def rsnr_of_crop(self, side):
        """Of a crop of the scene that is fused whole."""
        truth = self.maps[:side, :side] @ self.spectra
        P1, P2 = self.blur(side)
        hsi = np.einsum("ai,ijk->ajk", P1.toarray(), truth, optimize=True)
        hsi = np.einsum("bj,ajk->abk", P2.toarray(), hsi, optimize=True).astype(np.float32)
        msi, rng = (truth @ self.PM.T).astype(np.float32), np.random.default_rng(2)
        for image in (hsi, msi):
            sigma = np.sqrt(np.mean(image**2) / 10 ** (SNR / 10))
            image += sigma * rng.standard_normal(image.shape, dtype=np.float32)
        return metrics.rsnr(fuse(hsi, msi, Degradation(P1, P2, self.PM)).sri, truth)


def purest(scene, wavelengths):
    """Spectra of pixels that are far from what others span: each the one of which most is left by those before it."""
    pixels = np.asarray(scene.cube, np.float64).reshape(-1, scene.cube.shape[2])
    pixels = pixels[np.isfinite(pixels).all(axis=1) & (pixels > 0.0).all(axis=1)]
    left, chosen = pixels.copy(), []
    for _ in range(MATERIALS):
        chosen.append(int(np.argmax(np.square(left).sum(axis=1))))
        unit = left[chosen[-1]] / np.linalg.norm(left[chosen[-1]])
        left -= np.outer(left @ unit, unit)
    known = np.linspace(wavelengths[0], wavelengths[-1], pixels.shape[1])
    found = np.array([np.interp(wavelengths, known, pixels[n]) for n in chosen])
    return found / found.max()


def measured(command):
    """What a command took: seconds, CPU seconds, the peak of all its processes together; and what it printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    # Its workers, too, are waited for by it, and so counted.
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    tree, peaks = psutil.Process(process.pid), {"rss": 0, "pss": 0}
    for look in count():
        if process.poll() is not None:
            break
        try:
            for name in ("rss", "pss") if look % 40 == 0 else ("rss",):
                everybody = (tree, *tree.children(recursive=True))
                ask = psutil.Process.memory_info if name == "rss" else psutil.Process.memory_full_info
                peaks[name] = max(peaks[name], sum(getattr(ask(one), name) for one in everybody))
        except psutil.Error:
            continue
        time.sleep(0.05)
    printed = process.stdout.read()
    if process.returncode not in (0, 4):
        raise SystemExit(process.returncode)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peaks = {f"peak_{name}_gb": size / 1e9 for name, size in peaks.items()}
    return {
        "seconds": time.monotonic() - began,
        "cpu_seconds": cpu,
        "cores": os.cpu_count(),
        **peaks,
        "printed": json.loads(printed),
    }


def _options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder")
    parser.add_argument("--side", type=int, default=3000, help="of the fine grid, a multiple of 3")
    parser.add_argument("--bands", type=int, default=224)
    parser.add_argument("--int16", action="store_true", help="images of integers, ten thousand times the reflectance")
    parser.add_argument("--memory", default="4G")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--spectra", help="a scene of real data whose purest pixels are the spectra, as enmap-potsdam")
    parser.add_argument("--tile", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--crop", type=int, help="also fuse a crop of this side whole")
    return parser.parse_args()


if __name__ == "__main__":
    main()
