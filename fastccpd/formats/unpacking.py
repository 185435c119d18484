"""How much a chunk unpacks to, found before a library unpacks it: a few bytes may stand for gigabytes.

HDF5 and Zarr unpack a chunk whole, whatever size the file declares for it. What a stream can unpack to is bounded by
its length, by what it declares, or by unpacking it in pieces that are thrown away, whichever is cheapest.
"""

import bz2
import lzma
import zlib

# A chunk that cannot unpack to more than this, in bytes, is not looked at.
HARMLESS = 1 << 26

# Deflate, at most: 258 bytes for two bits.
_DEFLATE = 1032

# Checksums and headers that a chunk may have beside its numbers, in bytes.
_BESIDE = 1 << 10

_PIECE = 1 << 20
_BLOCK_OF_ZSTD = 1 << 17

#: Codecs that make chunks smaller; those of stdlib's streams are unpacked in pieces.
_STREAMS = {
    "zlib": lambda: zlib.decompressobj(zlib.MAX_WBITS),
    "gzip": lambda: zlib.decompressobj(zlib.MAX_WBITS | 32),
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}
PACKERS = frozenset((*_STREAMS, "zstd", "blosc", "lz4"))


def check_unpacked(content, codec, declared, name):
    """Refuse a packed chunk that unpacks to more than it declares.

    Parameters
    ----------
    content : bytes
        The chunk as it is stored.
    codec : str
        One of `PACKERS`.
    declared : int
        The bytes of its numbers.
    name : str
        Of the chunk, for the message.

    Raises
    ------
    ValueError
        One sentence.
    """
    if is_harmless(len(content), codec, declared):
        return
    most = declared + max(_BESIDE, declared // 64)
    if codec in _STREAMS:
        unpacked = _by_pieces(_STREAMS[codec](), content, most)
    elif codec == "zstd":
        most += _BLOCK_OF_ZSTD
        unpacked = _of_zstd(content, most)
    else:  # both begin with the size, and unpack to no more
        start = 4 if codec == "blosc" else 0
        unpacked = int.from_bytes(content[start : start + 4], "little")
    if unpacked > most:
        raise ValueError(f"{name} unpacks to more than the {declared} bytes that it declares")


def is_harmless(size, codec, declared):
    """Whether `size` packed bytes cannot unpack to much more than they declare, whatever they are.

    Parameters
    ----------
    size : int
    codec, declared
        As of `check_unpacked`.
    """
    return codec in ("zlib", "gzip") and size * _DEFLATE <= max(declared, HARMLESS)


def _by_pieces(stream, content, most):
    """The bytes that a stream unpacks to; a little more than `most` where it is more."""
    found = len(stream.decompress(content, _PIECE))
    while found <= most and not stream.eof:
        # zlib keeps what it has not unpacked yet; the others keep it inside.
        left = getattr(stream, "unconsumed_tail", b"")
        piece = stream.decompress(left, _PIECE)
        if not piece:
            break
        found += len(piece)
    return found


def _of_zstd(content, most):
    """A bound on the bytes that frames of Zstandard unpack to, by the headers of their blocks."""
    place, found = 0, 0
    while place + 5 <= len(content) and found <= most:
        magic = int.from_bytes(content[place : place + 4], "little")
        if magic >> 4 == 0x184D2A5:  # a frame to be skipped
            place += 8 + int.from_bytes(content[place + 4 : place + 8], "little")
            continue
        if magic != 0xFD2FB528:
            break
        flags = content[place + 4]
        single, checksum = flags >> 5 & 1, flags >> 2 & 1
        size = (single, 2, 4, 8)[flags >> 6]
        place += 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
        declared = int.from_bytes(content[place : place + size], "little") + (256 if size == 2 else 0)
        found += declared  # this is what the library allocates
        place, blocks = _blocks_of_zstd(content, place + size, most)
        found += 0 if size else blocks
        place += 4 * checksum
    return found


def _blocks_of_zstd(content, place, most):
    """Where the blocks of a frame end, and a bound on what they unpack to."""
    found, last = 0, False
    while not last and place + 3 <= len(content) and found <= most:
        word = int.from_bytes(content[place : place + 3], "little")
        last, kind, size = bool(word & 1), word >> 1 & 3, word >> 3
        found += _BLOCK_OF_ZSTD if kind == 2 else size
        place += 3 + (1 if kind == 1 else size)
    return place, found
