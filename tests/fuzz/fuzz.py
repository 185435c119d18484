"""Damage small files of every format, read each in a process of its own, and keep those that are not answered.

    PYTHONPATH=tests python tests/fuzz/fuzz.py --seconds 600
    PYTHONPATH=tests python tests/fuzz/fuzz.py --trials 2000 --format mat7.3 --seed 5

A file is answered if it is read, or refused by a ValueError, OSError or MemoryError of one line that names the file, in
time, within a ceiling of memory, and without a word on stdout or stderr. What is not is kept under `finds/`, a folder
for each, which `test_finds.py` replays. For systems with fork.
"""

import argparse
import faulthandler
import hashlib
import io
import json
import os
import random
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import product_files
import rasterio  # noqa: F401 - loaded before the forks, each of which would load it else
import spectral.io.envi  # noqa: F401
from scipy.io import savemat

import fastccpd
from fastccpd import formats, testing
from fastccpd.imaging import read_edges, read_response

FINDS = Path(__file__).parent / "finds"

# Seconds of a core, seconds of a clock, which a busy machine may need, and bytes that an answer may take.
SECONDS, PATIENCE, MEMORY = 5, 60.0, 300 << 20

NUMBERS = [0, 1, 2, 3, 4, 7, 8, 127, 128, 255, 256, 1000, 32767, 65535, 65536, 1 << 20, 2**31 - 1, 2**31, 2**32 - 1]
WORDS = [
    b"",
    b"0",
    b"-1",
    b"1",
    b"nan",
    b"inf",
    b"1e400",
    b"9" * 400,
    b"{",
    b"}",
    b"{1, 2}",
    b"=",
    b"\0",
    b"\xff",
    b",",
]
VALUES = [None, True, 0, -1, 1 << 70, 1e308, float("nan"), "", "x", [], [1], {}, {"a": 1}]

RASTER = formats.Raster(
    np.arange(60.0).reshape(4, 5, 3),
    wavelengths=[450.0, 550.0, 650.0],
    fwhm=[10.0, 11.0, 12.0],
    nodata=-1.0,
    bad_bands=[False, True, False],
    georeference=formats.Georeference(None, (30.0, 0.0, 5e5, 0.0, -30.0, 4.2e6)),
)


@dataclass(frozen=True)
class Target:
    """A kind of file: how a whole one is made in a folder, which of its files are damaged, and what reads them."""

    make: callable
    read: callable
    damage: tuple[str, ...] = ()  # patterns, in the folder; none: every file


def _raster(name, *others):
    return Target(
        lambda folder: formats.write(folder / name, RASTER), lambda folder: formats.read(folder / name), others
    )


def _made(name, write, read=formats.read):
    return Target(lambda folder: write(folder / name), lambda folder: read(folder / name))


def _mat73(path):
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("cube", data=RASTER.cube.T, chunks=(3, 5, 2), compression="gzip")
        file.create_dataset("wavelengths", data=RASTER.wavelengths[:, None])
        for name in file:
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    with open(path, "rb+") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM")


def _saved(path):
    fastccpd.fuse(*testing.small_case((8, 8, 6), (4, 4), 2), method="nn-ccpd-nls", rank=2, max_iter=1).save(path)


def _rendered(path):
    fastccpd.load(path).render(slice(0, 4))


def _tables(folder):
    (folder / "response.csv").write_text(
        "band,wavelength_nm,response\nred,450,0.5\nred,550,1\nblue,450,1\nblue,650,0\n"
    )
    (folder / "edges.csv").write_text("sensor,band,low_nm,high_nm\none,red,450,550\none,blue,550,650\n")


def _product(make, find="*", *damage):
    """A product of several files: what is read is the first path that fits."""
    return Target(make, lambda folder: formats.read(next(folder.glob(find))), damage)


def _virtual(folder):
    product_files.write_tiff(folder / "s.tif", np.arange(20, dtype=np.uint16).reshape(4, 5, 1))
    product_files.vrt(folder / "a.vrt", ["s.tif", "s.tif"], (4, 5))


def _zipped(folder):
    root, _ = product_files.sentinel2(folder, 8, 8)
    product_files.zipped(root, folder / "a.zip")
    shutil.rmtree(root)


def _jpeg2000(path):
    product_files.write_jp2(path, np.arange(64, dtype=np.uint16).reshape(8, 8), 10.0)


ARRAYS = {"cube": RASTER.cube, "PM": np.eye(3), "crs": np.array("LOCAL_CS"), "nodata": np.array(-1)}
TARGETS = {
    "npy": _raster("a.npy"),
    "npz": _raster("a.npz"),
    "npz-deflated": _made("a.npz", lambda path: np.savez_compressed(path, **ARRAYS)),
    "npz-arrays": _made("a.npz", lambda path: np.savez(path, **ARRAYS), formats.read_arrays),
    "mat": _raster("a.mat"),
    "mat-deflated": _made("a.mat", lambda path: savemat(path, ARRAYS, do_compression=True)),
    "mat-arrays": _made("a.mat", lambda path: savemat(path, ARRAYS), formats.read_arrays),
    "mat7.3": _made("a.mat", _mat73),
    "mat7.3-arrays": _made("a.mat", _mat73, formats.read_arrays),
    "envi": _raster("a.hdr", "a.hdr"),
    "envi-data": _raster("a.img", "a.img"),
    "geotiff": _raster("a.tif"),
    "netcdf": _raster("a.nc"),
    "zarr": _raster("a.zarr", "a.zarr/cube/c/**/*"),
    "zarr-metadata": _raster("a.zarr", "a.zarr/cube/zarr.json"),
    "jpeg2000": _made("a.jp2", _jpeg2000),
    "vrt": _product(_virtual, "a.vrt", "a.vrt"),
    "sentinel2": _product(_zipped, "a.zip"),
    "sentinel2-metadata": _product(lambda folder: product_files.sentinel2(folder, 8, 8), "*.SAFE", "*/MTD*.xml"),
    "landsat": _product(lambda folder: product_files.landsat(folder / "scene"), "scene", "*/*_MTL.txt"),
    "enmap": _product(product_files.enmap, "*.TIF", "*.XML"),
    "prisma": _made("PRS_a.he5", product_files.prisma),
    "saved": _made("a.npz", _saved, _rendered),
    "response": Target(_tables, lambda folder: read_response(folder / "response.csv"), ("response.csv",)),
    "edges": Target(_tables, lambda folder: read_edges(folder / "edges.csv", "one"), ("edges.csv",)),
}


def damaged(content, rng):
    """`content` with one to four changes, inside its archive where it is one."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        ways = [_bytes]
        if content[:4] == b"PK\x03\x04":
            ways += [_member] * 3
        elif content[124:128] in (b"\x00\x01IM", b"\x01\x00MI"):
            ways += [_element] * 2
        elif content and content[:2000].isascii() and b"\0" not in content[:2000]:
            ways += [_line] * 3
        content = rng.choice(ways)(content, rng)
    return content


def _bytes(content, rng):
    if not content:
        return bytes(rng.choices(range(256), k=8))
    place, length = rng.randrange(len(content)), rng.choice((1, 2, 4, 8, 64))
    if rng.random() < 0.3:  # formats have most of their structure in front
        place = rng.randrange(min(len(content), 256))
    before, piece, after = content[:place], content[place : place + length], content[place + length :]
    form = rng.choice(("<H", ">H", "<I", ">I", "<Q", ">Q"))
    size = struct.calcsize(form)
    changed = {
        "flip": bytes([piece[0] ^ (1 << rng.randrange(8))]) + piece[1:],
        "noise": bytes(rng.choices(range(256), k=len(piece))),
        "number": struct.pack(form, rng.choice(NUMBERS) % (1 << 8 * size)) + content[place + size : place + length],
        "word": rng.choice(WORDS),
        "gone": b"",
        "twice": piece * 2,
    }[rng.choice(("flip", "flip", "noise", "number", "number", "word", "gone", "twice"))]
    return before if rng.random() < 0.05 else before + changed + after


def _line(content, rng):
    lines = content.split(b"\n")
    place = rng.randrange(len(lines))
    name, mark, _ = lines[place].partition(b"=" if b"=" in lines[place] else b",")
    lines[place : place + 1] = rng.choice(
        ([], [lines[place]] * 2, [name + mark + rng.choice(WORDS)], [rng.choice(lines)], [rng.choice(WORDS)])
    )
    return b"\n".join(lines)


def _member(content, rng):
    """An archive of which one member is damaged before its checksum is taken; of a saved result also its JSON."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {info.filename: (archive.read(info), info.compress_type) for info in archive.infolist()}
        if "about.npy" in members and rng.random() < 0.6:
            members = _with_other_facts(members, rng)
        else:
            chosen = rng.choice(list(members))
            members[chosen] = _bytes(members[chosen][0], rng), members[chosen][1]
    except Exception:  # damaged before
        return _bytes(content, rng)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, (data, kind) in members.items():
            archive.writestr(name, data, kind)
    return whole.getvalue()


def _with_other_facts(members, rng):
    """A saved result with one fact changed, or one array, and hashes that fit."""
    arrays = {name: np.load(io.BytesIO(data)) for name, (data, _) in members.items()}
    about = json.loads(arrays.pop("about.npy").tobytes())
    if rng.random() < 0.4:
        name = rng.choice(list(arrays))
        array = arrays[name]
        arrays[name] = rng.choice((array[:0], array[..., None], array[1:], array * np.nan, array.astype("i1"), array.T))
        stem, array = name.removesuffix(".npy"), np.ascontiguousarray(arrays[name])
        head = f"{array.dtype.str} {array.shape}".encode()
        about["sha256"][stem] = hashlib.sha256(head + array.tobytes()).hexdigest()
    else:
        place = about
        while True:
            key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if not (isinstance(place[key], dict | list) and place[key]) or rng.random() < 0.4:
                break
            place = place[key]
        place[key] = rng.choice(VALUES)
    arrays["about.npy"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    packed = {}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.save(stream, array)
        packed[name] = stream.getvalue(), zipfile.ZIP_STORED
    return packed


def _element(content, rng):
    """A MAT file with its elements inflated, one damaged, and deflated again."""
    elements, place = [], 128
    while place + 8 <= len(content):
        kind, length = struct.unpack_from("<II", content, place)
        elements.append((kind, content[place + 8 : place + 8 + length]))
        place += 8 + length
    if not elements:
        return _bytes(content, rng)
    chosen = rng.randrange(len(elements))
    kind, inside = elements[chosen]
    try:
        inside = zlib.compress(_bytes(zlib.decompress(inside), rng)) if kind == 15 else _bytes(inside, rng)
    except zlib.error:
        inside = _bytes(inside, rng)
    elements[chosen] = kind, inside
    return content[:128] + b"".join(struct.pack("<II", kind, len(data)) + data for kind, data in elements)


def answer(read, folder, seconds=SECONDS, patience=PATIENCE, memory=MEMORY):
    """How `read(folder)` ends in a process of its own: "read", "refused", or a sentence on what is wrong."""
    said, speak = os.pipe()
    child = os.fork()
    if child == 0:
        _child(read, folder, speak, seconds, memory)
    os.close(speak)
    try:
        ready, _, _ = select.select([said], [], [], patience)
        if not ready:
            os.kill(child, signal.SIGKILL)
            return f"no answer in {patience:g} s"
        words = b"".join(iter(lambda: os.read(said, 1 << 16), b"")).decode("utf-8", "replace")
    finally:
        os.close(said)
        _, status = os.waitpid(child, 0)
    return words if status == 0 and words else f"the process ended with status {status}"


def _child(read, folder, speak, seconds, memory):
    """Read, say how it went, and leave without any of the parent's endings."""
    faulthandler.disable()
    with open("/proc/self/statm") as figures:
        used = int(figures.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    printed = os.memfd_create("printed")
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    try:
        read(folder)
        words = "read"
    except (ValueError, OSError, MemoryError) as error:
        words = _judged(str(error), folder)
    except BaseException as error:
        words = f"{type(error).__name__}: {error}"
    if os.fstat(printed).st_size:
        os.lseek(printed, 0, os.SEEK_SET)
        words = f"printed {os.read(printed, 300)!r}"
    os.write(speak, words.encode("utf-8", "replace")[:4000])
    os._exit(0)


def _judged(sentence, folder):
    if str(folder) not in sentence:
        return f"a refusal that does not name the file: {sentence}"
    if len(sentence.splitlines()) > 1 or len(sentence) > 1000:
        return f"a refusal of several lines, or of a long one: {sentence}"
    return "refused"


def keep(folder, form, words):
    """The damaged files in a folder of their own under `finds/`, with a word on what they did."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:10]
    place = FINDS / f"{form}-{digest}"
    shutil.copytree(folder, place, dirs_exist_ok=True)
    (place / "WHAT").write_text(words.replace(str(folder), "")[:100] + "\n", encoding="utf-8")
    return place


def trials(form, seed, whole):
    """Endless: (folder, how it was answered) of one damaged copy of the files in `whole` after the other."""
    rng, target = random.Random(f"{form} {seed}"), TARGETS[form]
    with tempfile.TemporaryDirectory() as root:
        while True:
            folder = Path(root) / "trial"
            shutil.copytree(whole, folder)
            files = {file for pattern in target.damage or ("*",) for file in folder.glob(pattern)}
            for file in sorted(file for file in files if file.is_file()):
                file.write_bytes(damaged(file.read_bytes(), rng))
            yield folder, answer(target.read, folder)
            shutil.rmtree(folder)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, in all")
    parser.add_argument("--trials", type=int, default=10**9, help="how many of each format, at most")
    parser.add_argument("--format", action="append", choices=TARGETS, help="only this one; may be given several times")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    end, counts, found = time.monotonic() + given.seconds, Counter(), set()
    with tempfile.TemporaryDirectory() as root:
        running = {}
        for form in given.format or TARGETS:
            whole = Path(root) / form
            whole.mkdir()
            TARGETS[form].make(whole)
            running[form] = trials(form, given.seed, whole)
        for _ in range(given.trials):
            for form, stream in running.items():
                folder, words = next(stream)
                good = words in ("read", "refused")
                counts[form, words if good else "FOUND"] += 1
                kind = (form, words.replace(str(folder), "")[:60])
                if not good and kind not in found:
                    found.add(kind)
                    print(f"{keep(folder, form, words)}: {words}", flush=True)
            if time.monotonic() > end:
                break
        for stream in running.values():
            stream.close()
    for form in running:
        print(f"{form:15}", *(f"{counts[form, how]:7} {how}" for how in ("read", "refused", "FOUND")))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
