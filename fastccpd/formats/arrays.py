"""Arrays of numbers by name, out of npy, npz and MAT files: for operators, known scenes, and whoever needs no cube.

The same readers as those of cubes: what a file declares is looked at first, and only numbers are ever loaded.
"""

import numpy as np

from ..model.files import one_line
from .inspection import as_path, check_memory
from .mat import mat_variables
from .numpy_files import npy_variables, npz_variables

_READERS = {
    ".npy": ("an npy file", npy_variables),
    ".npz": ("an npz (zip) file", npz_variables),
    ".mat": ("a MAT file", lambda path: mat_variables(path, any_class=True)),
}

#: The suffixes of files that hold named arrays.
ARRAY_SUFFIXES = tuple(_READERS)


def arrays_in(path):
    """What a file of arrays holds, without the data.

    Parameters
    ----------
    path : path
        An npy, npz or MAT file, by its suffix.

    Returns
    -------
    dict of str to Variable
        Each has `shape` and `dtype`, which is the file's own word for what numpy has no dtype for. The one array of an
        npy file has the name "".

    Raises
    ------
    ValueError, OSError, ModuleNotFoundError
        One sentence that names the path, for a file that is not what it should be.
    """
    return _reader(as_path(path))[1](as_path(path))


def read_arrays(path, wanted=None, *, limit=None):
    """Read arrays of real numbers by name.

    Parameters
    ----------
    path : path
        As of `arrays_in`.
    wanted : sequence of str, optional
        The names; None: all arrays of real numbers or bools, and nothing else that the file holds.
    limit : int, optional
        The most bytes that they may take together. None: the memory that is available.

    Returns
    -------
    dict of str to array
        In native byte order, axes as the file declares them (of MAT files: as MATLAB counts them).

    Raises
    ------
    ValueError, OSError, MemoryError, ModuleNotFoundError
        One sentence that names the path, also for a name that is not there or that holds no real numbers.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from fastccpd import formats
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.savez(f"{folder.name}/blur.npz", P1=np.eye(2), P2=np.eye(3), made_by=np.array("hand"))
    >>> list(formats.read_arrays(f"{folder.name}/blur.npz"))
    ['P1', 'P2']
    >>> formats.read_arrays(f"{folder.name}/blur.npz", ["P1"])["P1"].shape
    (2, 2)
    >>> folder.cleanup()
    """
    path = as_path(path)
    kind, reader = _reader(path)
    variables = reader(path)
    if wanted is None:
        wanted = [name for name, variable in variables.items() if variable.is_real]
    for name in wanted:
        if name not in variables:
            raise ValueError(f"{path}: holds {one_line(', '.join(variables)) or 'nothing'}; {name} is needed")
        if not variables[name].is_real:
            raise ValueError(f"{path}: cannot be read as {kind} of numbers ({name} is {variables[name].content})")
    check_memory(path, [variables[name] for name in wanted], limit)
    found = {name: np.asarray(variables[name].load()) for name in wanted}
    return {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in found.items()}


def _reader(path):
    found = _READERS.get(path.suffix.lower())
    if found is None:
        raise ValueError(f"{path}: got the suffix {path.suffix!r}; .npy, .npz or .mat is needed")
    return found
