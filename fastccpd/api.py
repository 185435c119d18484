"""The front door: `fuse`, `fuse_many`, `load`, and what a fusion will need."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count, islice
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import formats, methods
from .estimation import MapDecomposer, estimate_degradation
from .fusion import check_memory, checked_request, generator_of, generators_of_starts, method_of, run, with_verdict
from .model import saving
from .model.checks import as_choice, as_count, as_cube, working_dtype
from .model.degradation import Degradation
from .model.problem import Problem
from .model.result import FailedFusion, FusionResult
from .model.types import Callback, Path
from .solver.regularisers import Regulariser
from .workers import Crew, worker_count


def fuse(
    hsi: ArrayLike,
    msi: ArrayLike,
    degradation: Degradation | None = None,
    *,
    ratio: int | None = None,
    method: str | methods.Method = methods.DEFAULT,
    rank: int | str | tuple[int, ...] | None = None,
    starts: int = 1,
    combine: str = "best",
    init: Any = None,
    rng: int | np.random.Generator = 0,
    max_iter: int | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    callback: Callback | None = None,
    regularisers: Sequence[Regulariser] = (),
    hsi_valid: ArrayLike | None = None,
    msi_valid: ArrayLike | None = None,
    check_finite: bool = True,
    **options: Any,
) -> FusionResult:
    """Fuse a hyperspectral and a multispectral image of one scene into one that is sharp in both.

    Parameters
    ----------
    hsi : (I_H, J_H, K) array
        Many bands, coarse pixels. Any real dtype and layout; never modified.
    msi : (I, J, K_M) array
        Few bands, fine pixels.
    degradation : Degradation, optional
        How the two arise from the scene. None: blur, shift and response are estimated from the images
        (`fastccpd.estimation.estimate_degradation`); the result has them as `degradation` and, with their standard
        errors, as `stages["degradation"]`.
    ratio : int, optional
        MSI pixels per HSI pixel, in each direction, where the operators are estimated. None: by the sizes.
    method : str or Method
        One of `fastccpd.methods.names()`, or a method object with its options set.
    rank, max_iter : int, optional
        None is the method's own default.
    starts : int
        How many random starts to run, at most 1000.
    combine : "best" or "mean"
        Whether the image is that of the start with the lowest cost, or the mean of all; the factors are the former's.
    init : Factors or three matrices, optional
        A start of your own, in place of a random one.
    rng : int or numpy.random.Generator
        The same number gives the same bytes; by the default and the NLS methods on any number of threads. The first
        start draws what the method's own `solve` would draw from it, further ones what its children do. A Generator is
        not moved on, but the next call with it draws from the next child.
    time_limit : float, optional
        Seconds, over all starts.
    threads : int, optional
        Numba threads for this call; None leaves the setting as it is.
    callback : callable(state) -> bool, optional
        Called after every iteration; True stops the run.
    regularisers : sequence of fastccpd.solver.Regulariser
        Further terms of the cost, for data divided by the scene's own size; for the methods that can use them. Any
        object with `space`, `value`, `gradient`, `hessp` and `diagonal` will do.
    hsi_valid, msi_valid : bool array, optional
        True where there are data: (rows, columns), (bands,) or the image's whole shape. What stands elsewhere has no
        part in the result, which is complete all the same. For the methods that can leave data out.
    check_finite : bool
        False: NaN, infinities and magnitudes out of range are not refused, but end in `Status.NOT_FINITE`.
    **options
        The method's other options.

    Returns
    -------
    FusionResult
        `.sri` is the image, rendered when first asked for; `.render(rows, cols, bands)` a block of it.

    Examples
    --------
    >>> import numpy as np, fastccpd
    >>> halves = np.kron(np.eye(4), [[0.5, 0.5]])
    >>> bands = np.kron(np.eye(2), np.full((1, 3), 1 / 3))
    >>> degradation = fastccpd.Degradation(P1=halves, P2=halves, PM=bands)
    >>> scene = np.ones((8, 8, 6))
    >>> result = fastccpd.fuse(scene[::2, ::2], scene[:, :, ::3], degradation, rank=1)
    >>> bool(np.allclose(result.sri, scene, atol=1e-4))
    True
    """
    request = checked_request(
        method,
        rank=rank,
        max_iter=max_iter,
        starts=starts,
        init=init,
        time_limit=time_limit,
        combine=combine,
        regularisers=regularisers,
        **options,
    )
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: got {type(callback).__name__}; a callable is needed")
    generator, seed = generator_of(rng)
    with _threads(threads):
        estimated = None
        if degradation is None:
            estimated = _estimated(hsi, msi, ratio, request.method, hsi_valid, msi_valid)
            degradation = estimated.degradation
        elif ratio is not None:
            raise ValueError("ratio: is given beside degradation, which says it already; leave one of them out")
        problem = Problem(hsi, msi, degradation, check_finite, hsi_valid, msi_valid)
        return run(request, problem, generators_of_starts(generator, request.starts), seed, callback, estimated)


def _estimated(hsi, msi, ratio, method, hsi_valid, msi_valid):
    """The operators that the images show, periodic for the methods that need it."""
    cubes = [as_cube(image, name) for image, name in ((hsi, "hsi"), (msi, "msi"))]
    (rows, columns, _), fine = (cube.shape for cube in cubes)
    if ratio is None:
        ratio = max(fine[0] // rows, 1)
        if (fine[0], fine[1]) != (ratio * rows, ratio * columns):
            raise ValueError(
                f"msi: its {fine[0]} rows and {fine[1]} columns are not one whole number of times the HSI's {rows} and "
                f"{columns}; give images of the same ground, or degradation"
            )
    check_memory(method, cubes[0].shape, fine, working_dtype(*cubes), {})  # before anything is made of them
    boundary = "periodic" if method.needs_periodic_blur else None
    return estimate_degradation(hsi, msi, ratio, boundary=boundary, hsi_valid=hsi_valid, msi_valid=msi_valid)


def fuse_many(
    pairs: Iterable[Any],
    degradation: Degradation | None = None,
    *,
    workers: int | None = None,
    progress: Callable[[int, int | None], Any] | None = None,
    on_error: str = "raise",
    method: str | methods.Method = methods.DEFAULT,
    rng: int | np.random.Generator = 0,
    check_finite: bool = True,
    **options: Any,
) -> Iterator[FusionResult | FailedFusion]:
    """Fuse many pairs of images, one on each core: more a minute than one after the other on all cores.

    Parameters
    ----------
    pairs : iterable of (hsi, msi), (hsi, msi, degradation) or dict
        A dict has "hsi" and "msi", and may have "degradation", "hsi_valid" and "msi_valid". The iterable may be
        endless: a few pairs are taken ahead of the results, no more.
    degradation : Degradation, optional
        Of the pairs that bring none along.
    workers : int, optional
        Processes, of one thread each; None: one for each core. They are started by the first result that is asked for,
        and ended with the last one, by an error, or when the iterator is closed. A callback cannot cross into them.
    progress : callable(done, total), optional
        Called after each result; `total` is None if `pairs` has no length.
    on_error : "raise" or "keep"
        Whether a pair that cannot be fused ends the batch, or has a `FailedFusion` in its place, with the error.
    method, rng, check_finite, **options
        As of `fuse` (rank, starts, combine, init, max_iter, time_limit, regularisers and the method's own), the same
        for every pair; `time_limit` is for one. Regularisers are pickled, so their class must be one that another
        process can import.

    Yields
    ------
    FusionResult or FailedFusion
        In the order of the pairs; byte for byte what `fuse` gives, for methods whose `same_bytes_on_any_threads` is
        True (the default and the NLS methods). Others use BLAS, whose last bits depend on its number of threads.

    Examples
    --------
    >>> import numpy as np, fastccpd
    >>> from fastccpd.imaging import preset
    >>> degradation = preset("stereo", (16, 16, 12), PM=np.kron(np.eye(2), np.full((1, 6), 1 / 6)))
    >>> pairs = [(np.full((4, 4, 12), level), np.full((16, 16, 2), level)) for level in (1.0, 2.0, 3.0)]
    >>> [round(float(result.sri.mean())) for result in fastccpd.fuse_many(pairs, degradation, rank=1)]
    [1, 2, 3]
    """
    for name in {"hsi_valid", "msi_valid"} & options.keys():
        raise TypeError(f"{name}: a mask belongs to one pair; give the pair as a dict with hsi, msi and {name}")
    for name in {"callback", "threads"} & options.keys():
        raise TypeError(f"{name}: fuse_many runs in processes of one thread, which take none; use fuse")
    request = checked_request(method, **options)
    generator_of(rng)
    keep = as_choice(on_error, "on_error", ("raise", "keep")) == "keep"
    total = len(pairs) if hasattr(pairs, "__len__") else None

    def task_of(pair):
        generator, seed = generator_of(rng)
        generators = generators_of_starts(generator, request.starts)
        return request, _problem_of(pair, degradation, check_finite), generators, seed

    return _in_order(iter(pairs), task_of, worker_count(workers), keep, progress, total)


def _in_order(pairs, task_of, workers, keep, progress, total):
    """The results; for each worker one pair waits beside the one that is being worked on."""
    waiting = deque()
    with Crew(f"{__name__}:_answer", workers) as crew:
        for done in count():
            waiting.extend(_begun(crew, task_of, pair) for pair in islice(pairs, 2 * workers - len(waiting)))
            if not waiting:
                return
            try:
                with _named(f"pairs[{done}]"):
                    result = waiting.popleft().result()
            except Exception as error:
                if not keep:
                    raise
                result = FailedFusion(error)
            if progress is not None:
                progress(done + 1, total)
            yield result


def _begun(crew, task_of, pair):
    """A future of the result; a pair that is refused fails in its turn, after the results before it."""
    try:
        return crew.submit(task_of(pair))
    except Exception as error:
        refused = Future()
        refused.set_exception(error)
        return refused


def _answer(task):
    """What a worker of `fuse_many` does."""
    return run(*task)


def _problem_of(pair, degradation, check_finite):
    """The problem that one of `pairs` stands for."""
    names = ("hsi", "msi", "degradation", "hsi_valid", "msi_valid")
    if isinstance(pair, Mapping):
        if not {"hsi", "msi"} <= set(pair) <= set(names):
            got = ", ".join(map(str, pair)) or "nothing"
            raise TypeError(f"got a dict of {got}; hsi and msi are needed, and {', '.join(names[2:])} may be there")
        given = dict(pair)
    elif isinstance(pair, tuple | list) and len(pair) in (2, 3):
        given = dict(zip(names, pair))
    else:
        got = f"{len(pair)} things" if isinstance(pair, tuple | list) else type(pair).__name__
        raise TypeError(f"got {got}; (hsi, msi) or (hsi, msi, degradation) is needed")
    return Problem(**({"degradation": degradation, "check_finite": check_finite} | given))


@contextmanager
def _named(name):
    """Put the name of a pair before the sentence of an error."""
    try:
        yield
    except (ValueError, TypeError, MemoryError, ChildProcessError) as error:
        named = type(error)(f"{name}: {error}")
        named.__notes__ = getattr(error, "__notes__", [])
        raise named from None


def load(path: Path) -> FusionResult:
    """A result that `FusionResult.save` wrote.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    FusionResult
        As it was saved, but for `stages`, of which the figures are left and not the arrays. Factors that were not made
        yet are made when they are asked for, the same ones.

    Raises
    ------
    ValueError
        For a file that is no saved result, or a damaged one: every array is compared with its hash.

    Examples
    --------
    >>> import numpy as np, fastccpd, tempfile
    >>> halves = np.kron(np.eye(4), [[0.5, 0.5]])
    >>> degradation = fastccpd.Degradation(halves, halves, np.full((1, 6), 1 / 6))
    >>> scene = np.ones((8, 8, 6))
    >>> result = fastccpd.fuse(scene[::2, ::2], scene[:, :, :1], degradation, rank=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(f"{folder}/result.npz")
    ...     again = fastccpd.load(f"{folder}/result.npz")
    >>> bool((again.sri == result.sri).all())
    True
    """
    result, decomposer = saving.result_of(formats.read_arrays(path), path)
    if decomposer is not None:
        try:
            result.decomposer = MapDecomposer(result.maps, result.degradation, **decomposer)
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"{path}: is a damaged saved result (decomposer: {error})") from error
    return result


def memory_needed(
    hsi: Any,
    msi: Any,
    *,
    method: str | methods.Method = methods.DEFAULT,
    rank: int | str | tuple[int, ...] | None = None,
    dtype: DTypeLike | None = None,
    **options: Any,
) -> int:
    """Bytes that `fuse` will allocate at most beside its input images and the rendered result.

    Parameters
    ----------
    hsi, msi : array or shape
        Arrays, or just their shapes (with `dtype`, default float64), of images in C order and of that dtype: others are
        copied, which counts where the array itself is given.
    method, rank, **options
        As of `fuse`.
    dtype : float32 or float64, optional
        Precision of the work. None: float32 if both images are float32 or float16, else float64.

    Returns
    -------
    int

    Examples
    --------
    >>> import fastccpd
    >>> fastccpd.memory_needed((256, 256, 200), (1024, 1024, 8), method="nn-ccpd-nls", rank=64) < 80e6
    True
    """
    shapes = [_shape(image, name) for image, name in ((hsi, "hsi"), (msi, "msi"))]
    if dtype is None:
        given = [image.dtype for image in (hsi, msi) if hasattr(image, "dtype")]
        dtype = np.float32 if given and all(d in (np.float16, np.float32) for d in given) else np.float64
    dtype = np.dtype(dtype)
    copied = (image.size for image in (hsi, msi) if hasattr(image, "dtype") and not _is_ready(image, dtype))
    needed = with_verdict(method_of(method, options, rank=rank).memory_needed(*shapes, dtype), *shapes)
    return needed + sum(copied) * dtype.itemsize


def _is_ready(image, dtype):
    """Whether an image can be worked on as it is, without a copy."""
    return isinstance(image, np.ndarray) and image.dtype == dtype and image.flags.c_contiguous


def _shape(image, name):
    """The shape of an image, or the shape that stands for one."""
    shape = getattr(image, "shape", image)
    if not isinstance(shape, tuple | list):
        raise TypeError(f"{name}: got {shape!r}; an array or a shape (rows, columns, bands) is needed")
    if len(shape) != 3:
        raise ValueError(f"{name}: got {shape!r}; an array or a shape (rows, columns, bands) is needed")
    return tuple(as_count(n, name) for n in shape)


@contextmanager
def _threads(threads):
    """Set Numba's thread count for this call, and put it back."""
    before = numba.get_num_threads()
    if threads is not None:
        numba.set_num_threads(as_count(threads, "threads", most=numba.config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        numba.set_num_threads(before)
