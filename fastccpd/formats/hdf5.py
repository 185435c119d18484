"""HDF5 files looked at before they are read: nothing may lead to other files, or unpack to more than it says."""

import math

from .extras import needed
from .inspection import reading
from .unpacking import HARMLESS, check_unpacked, is_harmless

# More objects than any product has; a file with so many is made to be slow.
_MOST_OBJECTS = 100_000

# Numbers of HDF5's filters: that which packs as zlib does; and those that change numbers but not how many there are.
_DEFLATE, _NO_PACKERS = 1, (2, 3, 5, 6)


def check_closed(path, kind):
    """Refuse an HDF5 file with links, storage or virtual data in other files.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        What it should be, for messages.
    """
    h5py = needed("h5py", f"{path}: {kind}")
    with reading(path, kind), h5py.File(path, "r") as file:
        waiting, seen, groups = [file], 0, set()
        while waiting:
            group = waiting.pop()
            place = h5py.h5o.get_info(group.id).addr
            if place in groups:
                raise ValueError(f"{group.name} is a group under two names")
            groups.add(place)
            for name in group:
                seen += 1
                if seen > _MOST_OBJECTS:
                    raise ValueError(f"more than {_MOST_OBJECTS} objects")
                link = group.get(name, getlink=True)
                if isinstance(link, h5py.ExternalLink):
                    raise ValueError(f"{name} leads to another file, which is not followed")
                if isinstance(link, h5py.SoftLink):
                    continue
                item = group[name]
                if isinstance(item, h5py.Group):
                    waiting.append(item)
                elif isinstance(item, h5py.Dataset):
                    check_dataset(item, name)


def check_dataset(dataset, name):
    """Refuse a dataset that is kept in other files, or in chunks of no use."""
    if dataset.is_virtual or dataset.external:
        raise ValueError(f"{name} is kept in another file")
    check_chunk_shape(dataset, name)


def check_chunk_shape(dataset, name):
    """Refuse chunks that HDF5 would read beyond, and those much larger than their dataset, which it unpacks whole."""
    if dataset.chunks is not None and len(dataset.chunks) != len(dataset.shape):
        raise ValueError(f"{name} of shape {dataset.shape} in chunks of {dataset.chunks}")
    if dataset.chunks is not None and dataset.size is not None:
        chunk = math.prod(dataset.chunks) * dataset.dtype.itemsize
        if chunk > max(HARMLESS, dataset.size * dataset.dtype.itemsize):
            raise ValueError(f"{name} of shape {dataset.shape} in chunks of {dataset.chunks}, larger than itself")


def read_part(dataset, part, name):
    """A part of a dataset, after a look at the chunks that it is in.

    Parameters
    ----------
    dataset : h5py.Dataset
    part : slice, or tuple of slices
    name : str
        For messages.

    Returns
    -------
    ndarray
    """
    check_chunks(dataset, part, name)
    return dataset[part]


def check_chunks(dataset, part, name):
    """Refuse a part of a dataset some chunk of which unpacks to more than a chunk is.

    Parameters
    ----------
    dataset, part, name
        As of `read_part`.
    """
    if dataset.chunks is None or not dataset.id.get_num_chunks():
        return
    filters = dataset.id.get_create_plist()
    kinds = [filters.get_filter(n)[0] for n in range(filters.get_nfilters())]
    if sum(kind not in _NO_PACKERS for kind in kinds) > 1:
        raise ValueError(f"{name} is packed more than once")
    declared = math.prod(dataset.chunks) * dataset.dtype.itemsize
    part = part if isinstance(part, tuple) else (part,)
    part += (slice(None),) * (len(dataset.shape) - len(part))
    part = tuple(slice(*axis.indices(size)) for axis, size in zip(part, dataset.shape, strict=True))
    for chunk in dataset.iter_chunks(part):
        corner = tuple(axis.start // size * size for axis, size in zip(chunk, dataset.chunks, strict=True))
        stored = dataset.id.get_chunk_info_by_coord(corner)
        if stored.byte_offset is None:
            continue
        if stored.size > declared + max(HARMLESS >> 10, declared // 8):
            raise ValueError(f"{name} has a chunk of {stored.size} bytes for {declared}")
        packed = _DEFLATE in kinds and not stored.filter_mask >> kinds.index(_DEFLATE) & 1
        if packed and not is_harmless(stored.size, "zlib", declared):
            check_unpacked(dataset.id.read_direct_chunk(corner)[1], "zlib", declared, f"a chunk of {name}")
