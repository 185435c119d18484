"""The files of a Zarr array's chunks, looked at before they are unpacked: none may be more than it declares."""

import itertools
import math

import numpy as np

from .unpacking import HARMLESS, PACKERS, check_unpacked, is_harmless

# More chunks than any image should be in: each is a file, or a part of one.
_MOST_CHUNKS = 1 << 20

# Numbers as the filters may leave them, in bytes at most.
_WIDEST = 8

_NO_CHUNK = 2**64 - 1  # where the index of a shard has none


class Chunks:
    """The chunks of an array.

    Parameters
    ----------
    folder : Path
        The array's own.
    metadata : zarr's metadata of an array
        Its codecs are known ones.

    Raises
    ------
    ValueError
        For chunks that are too many, larger than the array, or packed more than once.
    """

    def __init__(self, folder, metadata):
        told = metadata.to_dict()
        grid = told.get("chunk_grid") or {}
        self._folder, self._key, self._shape = folder, metadata.encode_chunk_key, tuple(told["shape"])
        # Those of one number, such as a coordinate system, are (), and no less there for that.
        self._stored = tuple(told["chunks"] if "chunks" in told else grid["configuration"]["chunk_shape"])
        codecs = [*(told.get("codecs") or ()), *(told.get("filters") or ()), told.get("compressor")]
        codecs = [codec for codec in codecs if codec is not None]
        shards = [codec["configuration"] for codec in codecs if name_of(codec) == "sharding_indexed"]
        self._inner = tuple(shards[0]["chunk_shape"]) if shards else self._stored
        inner = [codec for shard in shards for codec in shard["codecs"]]
        packers = [name for name in map(name_of, (*codecs, *inner)) if name in PACKERS]
        if len(packers) > 1 or len(shards) > 1 or any(name_of(codec) == "sharding_indexed" for codec in inner):
            raise ValueError("its chunks are packed more than once")
        self._packer = packers[0] if packers else ""
        self._index = _index(shards[0]) if shards and self._packer in map(name_of, inner) else None
        self._check_sizes()

    def _check_sizes(self):
        if min((*self._stored, *self._inner), default=1) < 1:
            raise ValueError(f"chunks of {self._inner}")
        count = math.prod(-(-size // chunk) for size, chunk in zip(self._shape, self._inner, strict=True))
        if count > _MOST_CHUNKS:
            raise ValueError(f"{count} chunks, where at most {_MOST_CHUNKS} are read")
        if math.prod(self._stored) * _WIDEST > max(HARMLESS, 2 * math.prod(self._shape) * _WIDEST):
            raise ValueError(f"chunks of {self._stored}, larger than the array of {self._shape}")

    def check(self, part):
        """Refuse a part some chunk of which is more than a chunk.

        Parameters
        ----------
        part : tuple of slices
        """
        axes = []
        for axis, size, chunk in zip(part, self._shape, self._stored, strict=True):
            start, stop, _ = axis.indices(size)
            axes.append(range(start // chunk, -(-stop // chunk)))
        declared = math.prod(self._stored) * _WIDEST
        for place in itertools.product(*axes):
            file = self._folder / self._key(place)
            size = file.stat().st_size if file.is_file() else 0
            if size > declared + max(HARMLESS >> 10, declared // 8):
                raise ValueError(f"{file.name} has {size} bytes, where a chunk has {declared}")
            if self._index is not None and size:
                self._check_shard(file.read_bytes(), *self._index, file.name)
            elif self._packer and size and not is_harmless(size, self._packer, declared):
                check_unpacked(file.read_bytes(), self._packer, declared, file.name)

    def _check_shard(self, content, after, location, name):
        """The chunks within a chunk, whose places and lengths are in front of them or behind."""
        declared = math.prod(self._inner) * _WIDEST
        count = math.prod(self._stored) // math.prod(self._inner)
        start = 0 if location == "start" else len(content) - 16 * count - after
        if start < 0 or start + 16 * count > len(content):
            raise ValueError(f"{name} is shorter than its index")
        for offset, size in np.frombuffer(content, "<u8", 2 * count, start).reshape(-1, 2).tolist():
            if offset != _NO_CHUNK:
                check_unpacked(content[offset : offset + size], self._packer, declared, name)


def _index(shard):
    """The bytes after the index of a shard, and where the index is."""
    names = [name_of(codec) for codec in shard.get("index_codecs") or ()]
    about = [codec.get("configuration") or {} for codec in shard.get("index_codecs") or ()]
    if names not in (["bytes"], ["bytes", "crc32c"]) or about[0].get("endian", "little") != "little":
        raise ValueError(f"the index of its shards is packed by {', '.join(names)[:40]}; bytes and crc32c are read")
    return 4 * (len(names) - 1), shard.get("index_location", "end")


def name_of(codec):
    """What a codec is called, in version 2 or 3 of the format."""
    return str(codec.get("name", codec.get("id", ""))).removeprefix("numcodecs.").lower()
