"""Compiled kernels on disk: Numba's cache, with its traps mended.

- It is stamped with one source file only, so a change in a helper would keep stale machine code: the directory is named
  after the hash of every kernel source and of the Numba version.
- A truncated file makes the next process fail: whatever cannot be read is compiled anew.
- Processes that start together on an empty cache would compile the same kernels each: whoever comes first holds a lock
  on a file while it compiles, and the others wait for its result.

``FASTCCPD_KERNEL_CACHE=0`` turns the cache off; ``NUMBA_CACHE_DIR`` moves it.
"""

import hashlib
import os
import tempfile
import time
from pathlib import Path

import numba
from numba.core.caching import FunctionCache, NullCache

try:
    import fcntl
except ImportError:  # Windows: every process compiles for itself
    fcntl = None

# The longest that a process waits for another's compilation, and how often it looks, in seconds.
_PATIENCE, _GLANCE = 120.0, 0.05

_preparations = {}


def before_first_use(dtype, function):
    """Have `function` called before the first kernel that uses tiles is compiled or loaded for `dtype`."""
    _preparations[dtype] = function


def _prepare_tiles(sig):
    """See to it, before code is loaded or compiled, that the tiles it calls are there.

    Numba asks its cache whenever it meets a new signature, and holds its compiler lock meanwhile.
    """
    kinds = {kind.dtype for kind in getattr(sig, "args", sig) if hasattr(kind, "dtype")}
    for dtype in kinds & _preparations.keys():
        _preparations.pop(dtype)()


class _NoCache(NullCache):
    uses_tiles = False

    def load_overload(self, sig, target_context):
        if self.uses_tiles:
            _prepare_tiles(sig)


class _ForgivingCache(FunctionCache):
    """A cache that compiles anew whatever it cannot read or write, one process at a time.

    Numba asks for a routine, compiles what is not there, and saves it: the lock is held from the one to the other.
    """

    uses_tiles = False

    def __init__(self, function):
        super().__init__(function)
        self._turn = _Turn(CACHE_DIRECTORY / f"{function.__module__}.{function.__qualname__}.lock")

    def load_overload(self, sig, target_context):
        if self.uses_tiles:
            _prepare_tiles(sig)
        found = self._read(sig, target_context)
        if found is None and self._turn.take():
            # Another process may have saved it meanwhile.
            found = self._read(sig, target_context)
            if found is not None:
                self._turn.give()
        return found

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except Exception:  # a full disk, or what cannot be pickled: the routine runs without being kept
            self._discard()
        finally:
            self._turn.give()

    def _read(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a torn pickle raises nearly anything
            self._discard()
            return None

    def _discard(self):
        try:
            self.flush()
        except OSError:
            self.disable()


class _Turn:
    """A lock between processes, on a file; whoever cannot have it in time goes on without."""

    def __init__(self, path):
        self._path, self._file = path, None

    def take(self):
        """Whether the lock is ours, maybe after a while."""
        if fcntl is None or self._file is not None:
            return self._file is not None
        try:
            file = self._path.open("a")
        except OSError:
            return False
        given_up = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < given_up:
                    time.sleep(_GLANCE)
                    continue
            except OSError:  # a file system without locks
                pass
            else:
                self._file = file
                return True
            file.close()
            return False

    def give(self):
        """Let the next one in."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()
            self._file = None


def use_cache(compiled, function, uses_tiles):
    """Give what Numba compiles of `function` a place in the cache, if there is one."""
    compiled._cache = _NoCache() if CACHE_DIRECTORY is None else _cache_of(function)
    compiled._cache.uses_tiles = uses_tiles


def _cache_of(function):
    users_choice = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(CACHE_DIRECTORY)
    try:
        return _ForgivingCache(function)
    finally:
        numba.config.CACHE_DIR = users_choice


def _source_key():
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:20]


def _cache_directory():
    """A private, writable directory for this very version of the kernels, or None."""
    # Bounds-checked code must neither be taken from the cache nor left in it.
    if os.environ.get("FASTCCPD_KERNEL_CACHE") == "0" or numba.config.BOUNDSCHECK or numba.config.DISABLE_JIT:
        return None
    if numba.config.CACHE_DIR:
        bases = [Path(numba.config.CACHE_DIR)]
    else:
        home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "fastccpd"
        user = os.getuid() if hasattr(os, "getuid") else "user"
        bases = [home, Path(tempfile.gettempdir()) / f"fastccpd-{user}"]
    for base in bases:
        path = base / f"kernels-{_source_key()}"
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=path).close()
        except OSError:
            continue
        # Cache files are pickles: never load one that another user may have written.
        if not hasattr(os, "getuid") or path.stat().st_uid == os.getuid():
            return path
    return None


CACHE_DIRECTORY = _cache_directory()
