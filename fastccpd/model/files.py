"""Outputs come into being whole: written under a temporary name in the same folder, flushed, then renamed.

Whatever happens before the rename, an interruption too, leaves what was there before and nothing else. And outputs are
files of their own: `check_apart` refuses those that are inputs, or each other, under whatever name.
"""

import os
import secrets
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from . import types

# What a library says of a file may quote half of it.
_LONGEST_LINE = 300


def write_whole(path: types.Path, content: bytes | str, overwrite: bool = True) -> None:
    """Write a file, whole or not at all.

    Parameters
    ----------
    path : path
    content : bytes or str
        Text is written as UTF-8, its ends of lines as they are.
    overwrite : bool
        False refuses a path where something is.
    """
    check_free([path], overwrite)
    with replacing([path], overwrite) as [temporary]:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def check_free(
    files: Iterable[types.Path], overwrite: bool, replaceable: Callable[[Path], bool] = Path.is_file
) -> None:
    """Refuse outputs that cannot be made, that exist already, or that are nothing that may be replaced."""
    for file in files:
        real = _real_path(file)
        if not real.parent.is_dir():
            raise FileNotFoundError(f"{file}: cannot be written, for there is no folder {real.parent}")
        if os.path.lexists(file) and not overwrite:
            raise FileExistsError(f"{file}: exists already; it is overwritten only on request")
        if os.path.lexists(real) and not replaceable(real):
            kind = "a regular file" if replaceable is Path.is_file else "an output of this kind"
            raise OSError(f"{file}: exists and is not {kind}")
        if not os.access(real.parent, os.W_OK):
            raise PermissionError(f"{file}: cannot be written, for the folder {real.parent} is read-only")


def check_apart(outputs: Sequence[tuple[str, types.Path, Iterable[types.Path]]], inputs: Iterable[types.Path]) -> None:
    """Refuse outputs that are inputs, or that are one file; nothing that may be overwritten changes that.

    Two names are one file if they lead to the same place on the disk, by links too, or if they differ in upper and
    lower case only, for there are systems on which that is no difference. A folder that is replaced must hold no input.

    Parameters
    ----------
    outputs : sequence of (name, path, files)
        For the message the option or argument and what it was given; then every file that is written or removed.
    inputs : iterable of paths
        Every file that is read.
    """
    inputs = list(inputs)
    read = {identity for file in inputs for identity in _identities(file)}
    folders = {_number(folder) for folder in {parent for file in inputs for parent in _parents(file)}}
    written: dict[Any, str] = {}
    for name, path, files in outputs:
        files = list(files)
        identities = {identity for file in files for identity in _identities(file)}
        if identities & read:
            raise ValueError(f"{name}: {path} is one of the inputs, which are never overwritten")
        if any(Path(file).is_dir() and _number(file) in folders for file in files):
            raise ValueError(f"{name}: {path} holds one of the inputs, which are never overwritten")
        other = next((written[identity] for identity in identities if identity in written), None)
        if other is not None:
            what = "the output" if other == "-o" else f"the file of {other}"
            raise ValueError(f"{name}: {path} is {what} too; another file is needed")
        written |= dict.fromkeys(identities, name)


@contextmanager
def replacing(
    targets: Iterable[types.Path],
    overwrite: bool,
    stale: Iterable[Path] = (),
    replaceable: Callable[[Path], bool] = Path.is_file,
) -> Iterator[list[Path]]:
    """Temporary names with the suffixes of the targets; on success the files take their places, in this order.

    What is made under such a name may also be a folder, which takes the place of a folder.

    Parameters
    ----------
    targets : sequence of paths
    overwrite : bool
        False refuses a target that has come into being meanwhile, too.
    stale : sequence of Path
        Files that would describe the new ones wrongly: removed before the first target is replaced.
    replaceable : callable(Path) -> bool
        Whether what exists may be replaced, if anything may.
    """
    targets = [_real_path(target) for target in targets]
    temporaries = [target.with_name(f".fastccpd-{secrets.token_hex(8)}{target.suffix}") for target in targets]
    try:
        yield temporaries
        for temporary, target in zip(temporaries, targets, strict=True):
            finish(temporary, target)
        check_free(targets, overwrite, replaceable)
        for file in stale:
            file.unlink(missing_ok=True)
        for temporary, target in zip(temporaries, targets, strict=True):
            take_place(temporary, target)
    except (MemoryError, FileExistsError, ModuleNotFoundError):
        raise
    except ValueError as error:
        raise ValueError(f"{targets[0]}: cannot be written ({first_line(error)})") from error
    except Exception as error:  # disks fill up, and libraries say so in their own ways
        reason = getattr(error, "strerror", None) or first_line(error)
        raise OSError(f"{targets[0]}: cannot be written ({reason})") from error
    finally:
        for temporary in temporaries:
            _remove(temporary)


def lock(file: IO) -> bool:
    """Whether an open file is now this process's alone, until it is closed; True where the system has no such locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def first_line(error: BaseException) -> str:
    """The message of an exception on one line of moderate length, or its name where it has none."""
    return one_line(str(error).split("\n")[0]) or type(error).__name__


def one_line(value: object) -> str:
    """A value as text on one line of moderate length."""
    line = " ".join(str(value).split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"


def _identities(file):
    """What all names of one file have in common: its number on the disk, or its folder and its name but for case."""
    found: set[Any] = {_number(file)} - {None}
    for path in (Path(os.path.realpath(Path(file).parent), Path(file).name), _real_path(file)):
        folder = _number(path.parent) or str(path.parent).casefold()
        found.add((folder, unicodedata.normalize("NFC", path.name).casefold()))
    return found


def _parents(file):
    """The folders that a file lies in, and those of what it stands for."""
    return [*Path(os.path.abspath(file)).parents, *_real_path(file).parents]


def _number(file):
    """The number of what exists on its disk; None where nothing does, or where the system has no such numbers."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if status.st_ino else None


def _real_path(file):
    """The file that a link stands for: it is replaced, and the link stays."""
    return Path(os.path.realpath(file))


def take_place(temporary: Path, target: Path) -> None:
    """Rename; a folder cannot take the place of another in one step, so that one is set aside first."""
    if not (temporary.is_dir() and target.is_dir()):
        os.replace(temporary, target)
        return
    aside = temporary.with_name(temporary.name + ".old")
    os.replace(target, aside)
    try:
        os.replace(temporary, target)
    except OSError:
        os.replace(aside, target)
        raise
    _remove(aside)


def _remove(path):
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def finish(temporary: Path, target: Path) -> None:
    """Flush a file, or the files of a folder, to disk; a file with the permissions of the one it replaces."""
    if temporary.is_dir():
        for file in temporary.rglob("*"):
            if file.is_file():
                with open(file, "rb+") as stream:
                    os.fsync(stream.fileno())
        return
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o7777)
