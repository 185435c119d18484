"""Properties that hold for whatever is drawn: rasters come back, damaged files are read or refused, `fuse` answers.

The draws are the same in every run (`derandomize`), and few; tests/fuzz goes on for as long as one likes.
"""

import re
import warnings

import numpy as np
import pytest
from fuzz import fuzz
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import fastccpd
from fastccpd import Degradation, Status, formats, fuse
from fastccpd.imaging import gaussian, response_from_groups
from fastccpd.testing.running import briefly

QUICKLY = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SUFFIXES = (".npy", ".npz", ".mat", ".hdr", ".tif")
DTYPES = st.sampled_from(["u1", "i2", "u2", "i4", "u4", "f4", "f8"])


@st.composite
def rasters(draw):
    """A small raster of any dtype and values, of which anything or nothing is known."""
    shape = draw(st.tuples(*[st.integers(1, 5)] * 3))
    cube = draw(arrays.arrays(draw(DTYPES), shape))
    positive = st.floats(1e-3, 1e6)
    per_band = st.none() | st.lists(positive, min_size=shape[2], max_size=shape[2])
    flags = st.none() | st.lists(st.booleans(), min_size=shape[2], max_size=shape[2]).map(np.array)
    size = st.floats(1e-3, 1e5)
    corner = st.floats(-1e7, 1e7)
    grid = st.builds(lambda a, c, e, f: formats.Georeference(None, (a, 0.0, c, 0.0, -e, f)), size, corner, size, corner)
    # Smaller wavelengths are taken for micrometres, which is said in the notes.
    wavelengths = per_band.map(lambda values: values and [value + 100.0 for value in values])
    known = {"wavelengths": wavelengths, "fwhm": per_band, "bad_bands": flags, "nodata": st.none() | st.integers(0, 99)}
    return formats.Raster(cube, **{name: draw(values) for name, values in known.items()}, georeference=draw(grid))


@pytest.mark.parametrize("suffix", SUFFIXES)
@QUICKLY
@given(raster=rasters())
def test_a_raster_comes_back(suffix, raster, tmp_path):
    path = tmp_path / f"drawn{suffix}"
    formats.write(path, raster, overwrite=True)
    found, lost = formats.read(path), formats.lost_by(path, raster)
    assert found.cube.tobytes() == raster.cube.tobytes()
    assert (found.shape, found.dtype) == (raster.shape, raster.dtype)
    for name in ("wavelengths", "fwhm", "bad_bands", "nodata"):
        if name not in lost and (name != "fwhm" or raster.wavelengths is not None):
            np.testing.assert_array_equal(getattr(found, name), getattr(raster, name), err_msg=name)
    if "georeference" not in lost:
        np.testing.assert_allclose(found.georeference.transform, raster.georeference.transform, rtol=1e-12)


def outcome(call, *arguments, **options):
    """What a call returns or raises."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        return error


def is_answer(found, path):
    """Whether a reader's outcome is something read, or an error of one line that names the file."""
    if not isinstance(found, Exception):
        return True
    one_line = f".*{re.escape(str(path))}.*"
    return isinstance(found, ValueError | OSError | MemoryError) and re.fullmatch(one_line, str(found))


@pytest.mark.parametrize("suffix", SUFFIXES)
@QUICKLY
@pytest.mark.filterwarnings("ignore:Exception ignored in. <_io.FileIO")
@given(seed=st.integers(0, 10**6), changes=st.integers(1, 3))
def test_a_damaged_file_is_read_or_refused_in_a_sentence(suffix, seed, changes, tmp_path):
    path = tmp_path / f"whole{suffix}"
    if not path.exists():
        formats.write(path, fuzz.RASTER)
    rng, damaged = fuzz.random.Random(seed), path.with_stem("damaged")
    if suffix == ".hdr":
        damaged.with_suffix(".img").write_bytes(path.with_suffix(".img").read_bytes())
    content = path.read_bytes()
    for _ in range(changes):
        content = fuzz.damaged(content, rng)
    damaged.write_bytes(content)
    for read in (formats.header, formats.read, *([formats.read_arrays] if suffix in formats.ARRAY_SUFFIXES else [])):
        found = outcome(read, damaged, **({} if read is formats.header else {"limit": 10**6}))
        assert is_answer(found, damaged.with_suffix("")), repr(found)


@pytest.mark.parametrize("suffix", SUFFIXES)
@QUICKLY
# The parser of ENVI headers leaves a file that it refuses to be closed by the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <_io.FileIO")
@given(content=st.binary(max_size=300), begin=st.booleans())
def test_bytes_of_any_kind_are_no_file_of_any_format(suffix, content, begin, tmp_path):
    whole = tmp_path / f"whole{suffix}"
    if not whole.exists():
        formats.write(whole, fuzz.RASTER)
    path = tmp_path / f"bytes{suffix}"
    path.with_suffix(".img").write_bytes(content or b"\0")
    path.write_bytes((whole.read_bytes()[:8] if begin else b"") + content)
    found = outcome(formats.read, path)
    assert isinstance(found, ValueError | OSError)
    assert is_answer(found, path.with_suffix(""))


@st.composite
def problems(draw):
    """Two tiny images of any values in any unit, with their operators."""
    coarse, ratios = (draw(st.tuples(st.integers(1, 4), st.integers(1, 4))) for _ in range(2))
    fine = tuple(n * ratio for n, ratio in zip(coarse, ratios))
    K = draw(st.integers(1, 8))
    bands = draw(st.integers(1, min(4, K)))
    dtype = draw(st.sampled_from(["f4", "f8"]))
    unit = 10.0 ** draw(st.integers(-20, 20))
    values = st.floats(0.0, 1.0, width=32) | st.just(0.0)
    hsi, msi = (
        (draw(arrays.arrays("f8", shape, elements=values, fill=st.just(0.5))) * unit).astype(dtype)
        for shape in ((*coarse, K), (*fine, bands))
    )
    P1, P2 = (gaussian((n, n), ratio)[0] for n, ratio in zip(fine, ratios))
    PM = response_from_groups(np.array_split(np.arange(K), bands), K)
    return hsi, msi, Degradation(P1, P2, PM)


@pytest.mark.parametrize("name", fastccpd.methods.names())
@settings(QUICKLY, max_examples=12)
@given(problem=problems(), rank=st.integers(1, 3))
def test_tiny_problems_are_fused_or_refused_by_an_argument_s_name(name, problem, rank):
    hsi, msi, degradation = problem
    before = hsi.tobytes(), msi.tobytes()
    method = fastccpd.methods.get(name)
    kind = type(getattr(method(), "rank", None))
    ranked = {int: {"rank": rank}, tuple: {"rank": (rank, rank, rank)}}.get(kind, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a method may say that it cut off singular directions
        result, again = (outcome(fuse, *problem, method=briefly(method(**ranked))) for _ in range(2))
    assert (hsi.tobytes(), msi.tobytes()) == before
    if isinstance(result, ValueError | TypeError):
        assert re.match(r"\w+(\[\w+\])?: \S", str(result)), result
        return
    assert not isinstance(result, Exception), repr(result)
    assert result.sri.shape == degradation.sri_shape
    assert result.sri.dtype == hsi.dtype
    assert result.status is not Status.NOT_FINITE
    assert np.isfinite(result.sri).all()
    assert result.sri.tobytes() == again.sri.tobytes()
