"""HDF5 files looked at before they are read: nothing in them may lead to another file."""

from .extras import needed
from .inspection import reading

# More objects than any product has; a file with so many is made to be slow.
_MOST_OBJECTS = 100_000


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
    """Refuse a dataset that is kept in other files, or whose chunks HDF5 would read beyond."""
    if dataset.is_virtual or dataset.external:
        raise ValueError(f"{name} is kept in another file")
    if dataset.chunks is not None and len(dataset.chunks) != len(dataset.shape):
        raise ValueError(f"{name} of shape {dataset.shape} in chunks of {dataset.chunks}")
