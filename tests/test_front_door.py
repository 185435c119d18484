"""What comes through the front door is fused or refused: one sentence, beginning with the argument, before any work."""

import re
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import fastccpd
from fastccpd import Degradation, Status
from fastccpd.methods import NNCCPDNLS, _ccpd_nls, _staged
from fastccpd.testing import small_case, small_instance

SRI = (8, 12, 6)
PEAK_BYTES = 10_000_000


def means(n, run=2):
    """(n / run, n): means of runs of neighbours."""
    return np.kron(np.eye(n // run), np.full((1, run), 1.0 / run))


P1, P2, PM = means(8), means(12), means(6)
SCENE = np.random.default_rng(3).random(SRI)
HSI = np.einsum("ai,ijk,bj->abk", P1, SCENE, P2)
MSI = SCENE @ PM.T
INIT = tuple(np.random.default_rng(4).random((n, 2)) for n in SRI)

# The paper's method has options that the default has not.
PAPERS = {"method": "nn-ccpd-nls"}


def fuse(**changed):
    """A small call that works, with some arguments changed; P1, P2 and PM are those of its degradation."""
    matrices = {name: changed.pop(name, good) for name, good in (("P1", P1), ("P2", P2), ("PM", PM))}
    arguments = {"hsi": HSI, "msi": MSI, "rank": 2, "max_iter": 3, **changed}
    if "degradation" not in changed:
        arguments["degradation"] = Degradation(**matrices)
    return fastccpd.fuse(**arguments)


def with_value(image, value, where=(1, 2, 1)):
    changed = image.copy()
    changed[where] = value
    return changed


class Frame:
    """What has an array inside, as data frames and labelled arrays do."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


NAN_BAND = with_value(MSI, np.nan, np.s_[:, :, 1])
ZERO_ROW = with_value(P1, 0.0, np.s_[1])
VALUE, TYPE, EITHER = (ValueError,), (TypeError,), (TypeError, ValueError)

# What is changed, the exceptions that are right, the argument that the message begins with, and what was got.
REFUSED = {
    "shapes": [
        ({"hsi": HSI[0]}, VALUE, "hsi", "(6, 6)"),
        ({"msi": MSI[:, :, 0]}, VALUE, "msi", "(8, 12)"),
        ({"hsi": HSI[None]}, VALUE, "hsi", "(1, 4, 6, 6)"),
        ({"msi": MSI[..., None]}, VALUE, "msi", "(8, 12, 3, 1)"),
        ({"hsi": 1.0}, VALUE, "hsi", "()"),
        ({"hsi": HSI[:0]}, VALUE, "hsi", "(0, 6, 6)"),
        ({"msi": MSI[:, :0]}, VALUE, "msi", "(8, 0, 3)"),
        ({"hsi": HSI[:, :, :0]}, VALUE, "hsi", "(4, 6, 0)"),
        ({"hsi": HSI[:3]}, VALUE, "hsi", "3 rows, but P1 maps to 4"),
        ({"hsi": HSI[:, :5]}, VALUE, "hsi", "5 columns, but P2 maps to 6"),
        ({"hsi": HSI[:, :, :5]}, VALUE, "hsi", "5 bands, but PM maps from 6"),
        ({"msi": np.concatenate([MSI, MSI])}, VALUE, "msi", "16 rows, but P1 maps from 8"),
        ({"msi": MSI[:7]}, VALUE, "msi", "7 rows, but P1 maps from 8"),
        ({"msi": MSI[:, :11]}, VALUE, "msi", "11 columns, but P2 maps from 12"),
        ({"msi": MSI[:, :, :2]}, VALUE, "msi", "2 bands, but PM maps to 3"),
        ({"msi": MSI.swapaxes(0, 1)}, VALUE, "msi", "12 rows"),
        ({"hsi": HSI.transpose(2, 0, 1)}, VALUE, "hsi", "6 rows"),
        ({"hsi": MSI, "msi": HSI}, VALUE, "hsi", "8 rows"),
        ({"PM": np.ones((7, 6))}, VALUE, "PM", "7 rows and 6 columns"),
    ],
    "dtypes": [
        ({"hsi": HSI.astype(object)}, TYPE, "hsi", "object"),
        ({"hsi": HSI.astype(str)}, TYPE, "hsi", "<U"),
        ({"msi": MSI.astype(bytes)}, TYPE, "msi", "|S"),
        ({"msi": MSI + 0j}, TYPE, "msi", "complex128"),
        ({"hsi": HSI > 0.5}, TYPE, "hsi", "bool"),
        ({"hsi": np.zeros(HSI.shape, "datetime64[s]")}, TYPE, "hsi", "datetime64"),
        ({"hsi": np.zeros(HSI.shape, "timedelta64[s]")}, TYPE, "hsi", "timedelta64"),
        ({"msi": np.zeros(MSI.shape, [("value", "f8")])}, TYPE, "msi", "value"),
        ({"hsi": np.ma.masked_less(HSI, 0.5)}, TYPE, "hsi", "masked"),
        ({"hsi": sparse.csr_array(HSI[0])}, TYPE, "hsi", "csr_array"),
        ({"hsi": Frame(HSI[0])}, VALUE, "hsi", "(6, 6)"),
        ({"hsi": None}, TYPE, "hsi", "NoneType"),
        ({"hsi": [[[1.0, 2.0], [3.0]]]}, TYPE, "hsi", "differ in length"),
        ({"hsi": {"cube": HSI}}, TYPE, "hsi", "object"),
    ],
    "values": [
        ({"hsi": with_value(HSI, np.nan)}, VALUE, "hsi", "1 in rows 0 to 3"),
        ({"msi": with_value(MSI, np.inf)}, VALUE, "msi", "NaN or infinite"),
        ({"hsi": with_value(HSI, -np.inf)}, VALUE, "hsi", "NaN or infinite"),
        ({"msi": NAN_BAND}, VALUE, "msi", f"{8 * 12} in rows"),
        ({"hsi": with_value(HSI, np.nan).astype(np.float32)}, VALUE, "hsi", "NaN or infinite"),
        ({"msi": with_value(MSI, np.inf).astype(np.float16)}, VALUE, "msi", "NaN or infinite"),
        ({"hsi": with_value(HSI, 1e151)}, VALUE, "hsi", "1e+150"),
        ({"msi": with_value(MSI, -1e300)}, VALUE, "msi", "1e+150"),
        (
            {"hsi": np.float32(1e38) * HSI.astype(np.float32), "msi": np.float32(1e38) * MSI.astype(np.float32)},
            VALUE,
            "hsi",
            "magnitudes up to",
        ),
    ],
    "degradation": [
        ({"P1": with_value(P1, np.nan, (1, 2))}, VALUE, "P1", "NaN or infinite"),
        ({"PM": sparse.csr_array(with_value(PM, np.inf, (1, 2)))}, VALUE, "PM", "NaN or infinite"),
        ({"P1": with_value(P1, 1e200, (1, 2))}, VALUE, "P1", "1e+200"),
        ({"P1": ZERO_ROW}, VALUE, "P1", "row 1 is all zeros"),
        ({"P2": P2.T}, VALUE, "P2", "12 rows and 6 columns"),
        ({"P1": P1[0]}, EITHER, "P1", "(8,)"),
        ({"P1": P1[None]}, EITHER, "P1", "(1, 4, 8)"),
        ({"P1": sparse.coo_array(P1[0])}, EITHER, "P1", "(8,)"),
        ({"P1": [[0.5, 0.5], [1.0]]}, EITHER, "P1", "differ in length"),
        ({"PM": PM[:0]}, VALUE, "PM", "(0, 6)"),
        ({"PM": PM * 1j}, TYPE, "PM", "c"),
        ({"P2": P2.astype(str)}, TYPE, "P2", "U"),
        ({"P2": P2.astype(object)}, TYPE, "P2", "object"),
        ({"P1": np.ma.masked_less(P1, 0.1)}, TYPE, "P1", "masked"),
        ({"P1": None}, TYPE, "P1", "NoneType"),
        ({"P1": "gaussian"}, TYPE, "P1", "str"),
        ({"degradation": (P1, P2, PM)}, TYPE, "degradation", "tuple"),
    ],
    "options": [
        ({"rank": 0}, VALUE, "rank", "0"),
        ({"rank": -1}, VALUE, "rank", "-1"),
        ({"rank": 2.5}, TYPE, "rank", "2.5"),
        ({"rank": True}, TYPE, "rank", "True"),
        ({"rank": "30"}, TYPE, "rank", "'30'"),
        ({"rank": np.array([3])}, TYPE, "rank", "array([3])"),
        ({"rnak": 3}, TYPE, "rnak", "did you mean 'rank'? it has show, rank, ridge, ftol, max_iter"),
        (
            PAPERS | {"rnak": 3},
            TYPE,
            "rnak",
            "did you mean 'rank'? it has nonnegative_modes, rank, compress, curvature",
        ),
        ({"show": 1}, VALUE, "show", "got 1"),
        ({"init": INIT}, TYPE, "init", "'auto' cannot use a given start"),
        ({"combine": "median"}, VALUE, "combine", "'median'"),
        ({"method": "nn-cpd-nls"}, VALUE, "method", "'nn-cpd-nls'; did you mean 'nn-ccpd-nls'? known are "),
        ({"method": None}, TYPE, "method", "None"),
        ({"method": NNCCPDNLS}, TYPE, "method", "NNCCPDNLS"),
        ({"method": NNCCPDNLS(), "rank": 3, "max_iter": None}, TYPE, "rank", "on the method object itself"),
        ({"max_iter": -1}, VALUE, "max_iter", "-1"),
        ({"max_iter": 2.5}, TYPE, "max_iter", "2.5"),
        ({"max_iter": True}, TYPE, "max_iter", "True"),
        (PAPERS | {"gtol": -1e-6}, VALUE, "gtol", "-1e-06"),
        ({"ftol": np.nan}, VALUE, "ftol", "nan"),
        (PAPERS | {"xtol": None}, TYPE, "xtol", "None"),
        (PAPERS | {"xtol": "1e-6"}, TYPE, "xtol", "'1e-6'"),
        ({"ridge": np.inf}, VALUE, "ridge", "inf"),
        ({"ridge": np.array([1.0, 2.0])}, TYPE, "ridge", "array([1., 2.])"),
        (PAPERS | {"radius0": 0.0}, VALUE, "radius0", "0.0"),
        (PAPERS | {"step": "newton"}, VALUE, "step", "'newton'"),
        (PAPERS | {"curvature": ["positive"]}, VALUE, "curvature", "['positive']"),
        (PAPERS | {"weights": 5.0}, TYPE, "weights", "5.0"),
        (PAPERS | {"weights": (1.0,)}, VALUE, "weights", "1"),
        (PAPERS | {"weights": (1.0, -1.0)}, VALUE, "weights", "-1.0"),
        (PAPERS | {"weights": (np.inf, 1.0)}, VALUE, "weights", "inf"),
        (PAPERS | {"weights": (0.0, 0.0)}, VALUE, "weights", "(0.0, 0.0)"),
        (PAPERS | {"nonnegative_modes": 3}, TYPE, "nonnegative_modes", "3"),
        (PAPERS | {"nonnegative_modes": ("rows", "depth")}, VALUE, "nonnegative_modes", "depth"),
        ({"rng": -1}, VALUE, "rng", "-1"),
        ({"rng": 1.5}, TYPE, "rng", "1.5"),
        ({"rng": None}, TYPE, "rng", "None"),
        ({"rng": "seed"}, TYPE, "rng", "'seed'"),
        ({"rng": True}, TYPE, "rng", "True"),
        ({"rng": np.random.RandomState(0)}, TYPE, "rng", "RandomState"),
        ({"starts": 0}, VALUE, "starts", "0"),
        ({"starts": 1.5}, TYPE, "starts", "1.5"),
        ({"starts": True}, TYPE, "starts", "True"),
        (PAPERS | {"starts": 2, "init": INIT}, VALUE, "starts", "2"),
        ({"threads": 0}, VALUE, "threads", "0"),
        ({"threads": 10**6}, VALUE, "threads", "1000000"),
        ({"threads": "all"}, TYPE, "threads", "'all'"),
        ({"time_limit": -1.0}, VALUE, "time_limit", "-1.0"),
        ({"time_limit": np.nan}, VALUE, "time_limit", "nan"),
        ({"time_limit": "1 s"}, TYPE, "time_limit", "'1 s'"),
        ({"callback": 3}, TYPE, "callback", "int"),
        (PAPERS | {"init": INIT, "rank": 3}, VALUE, "init", "(8, 2)"),
        (PAPERS | {"init": INIT[:2]}, VALUE, "init", "[(8, 2), (12, 2)]"),
        (PAPERS | {"init": tuple(f.T for f in INIT)}, VALUE, "init", "(2, 8)"),
        (PAPERS | {"init": (INIT[0] * np.nan, *INIT[1:])}, VALUE, "init", "A holds NaN"),
        (PAPERS | {"init": (*INIT[:2], -INIT[2])}, VALUE, "init", "C holds negative"),
        (PAPERS | {"init": (0 * INIT[0], *INIT[1:])}, VALUE, "init", "A is all zeros"),
        (PAPERS | {"init": tuple(f + 0j for f in INIT)}, TYPE, "init", "complex"),
        (PAPERS | {"init": "random"}, TYPE, "init", "str"),
        (PAPERS | {"init": 7}, TYPE, "init", "int"),
    ],
}

if np.dtype(np.longdouble).itemsize > 8:
    REFUSED["dtypes"].append(({"hsi": HSI.astype(np.longdouble)}, TYPE, "hsi", np.dtype(np.longdouble).name))


def refusals():
    for group, cases in REFUSED.items():
        for number, (changed, kinds, argument, got) in enumerate(cases):
            yield pytest.param(changed, kinds, argument, got, id=f"{group}-{number}-{argument}-{got}")


@pytest.mark.parametrize(("changed", "kinds", "argument", "got"), list(refusals()))
def test_fuse_refuses_in_a_sentence_before_any_work(changed, kinds, argument, got, monkeypatch):
    def work(*arguments, **options):
        pytest.fail("the work began before the input was refused")

    monkeypatch.setattr(_ccpd_nls, "minimize", work)
    monkeypatch.setattr(_staged, "noise_of", work)
    tracemalloc.start()
    try:
        with pytest.raises(kinds) as refusal:
            fuse(**changed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    message = str(refusal.value)
    assert re.match(rf"{argument}(\[\d\])?: ", message), message
    assert got in message
    assert "\n" not in message
    assert peak < PEAK_BYTES


@pytest.mark.parametrize("rank", [10**9, 10**30])
def test_a_rank_beyond_the_memory_is_refused_with_both_figures(rank):
    with pytest.raises(MemoryError, match=r"needs about \d+\.\d GB .* but \d+\.\d GB are available; .*rank"):
        fuse(rank=rank)


@pytest.mark.parametrize(
    ("shapes", "kind", "argument"),
    [
        ((5, (8, 12, 3)), TypeError, "hsi"),
        (((4, 6), (8, 12, 3)), ValueError, "hsi"),
        (((4, 6, 6), (8, 12, 3, 1)), ValueError, "msi"),
        (((4, -6, 6), (8, 12, 3)), ValueError, "hsi"),
    ],
)
def test_memory_needed_refuses_what_is_no_shape(shapes, kind, argument):
    with pytest.raises(kind, match=f"^{argument}: "):
        fastccpd.memory_needed(*shapes)


@pytest.mark.parametrize(
    ("cast", "dtype"),
    [
        (lambda image: image.astype(">f8"), np.float64),
        (lambda image: image.astype(">f4"), np.float32),
        (lambda image: image.astype(np.float16), np.float32),
        (lambda image: image.astype(np.float32), np.float32),
        (lambda image: np.round(100 * image).astype(np.uint8), np.float64),
        (lambda image: np.round(100 * image).astype(">i4"), np.float64),
        (lambda image: image.tolist(), np.float64),
        (lambda image: Frame(image), np.float64),
    ],
    ids=["> f8", "> f4", "float16", "float32", "uint8", "> i4", "nested lists", "an array inside"],
)
def test_a_documented_cast_gives_the_bytes_of_the_same_values_in_its_dtype(cast, dtype):
    images = {"hsi": cast(HSI), "msi": cast(MSI)}
    result = fuse(**images)
    plain = fuse(**{name: np.array(np.asarray(image), dtype=dtype) for name, image in images.items()})
    assert result.sri.dtype == dtype
    assert result.sri.tobytes() == plain.sri.tobytes()


def test_a_float32_and_a_float64_image_together_are_float64():
    assert fuse(hsi=HSI.astype(np.float32)).sri.dtype == np.float64


@pytest.mark.parametrize(
    "images",
    [
        {"hsi": HSI - 0.5, "msi": MSI - 0.5},
        {"hsi": -HSI, "msi": -MSI},
        {"hsi": with_value(HSI, 5e-324)},
        {"hsi": np.full(HSI.shape, np.iinfo(np.int64).max), "msi": np.full(MSI.shape, np.iinfo(np.uint64).max)},
        {"hsi": np.full(HSI.shape, np.iinfo(np.int64).min), "msi": np.full(MSI.shape, np.iinfo(np.int64).min)},
        {"hsi": HSI * 1e149, "msi": MSI * 1e149},
    ],
    ids=["some negative", "all negative", "one denormal", "integer max", "integer min", "near the limit"],
)
def test_unusual_values_are_fused(images):
    result = fuse(**images)
    assert np.isfinite(result.cost)
    assert np.isfinite(result.sri).all()
    assert result.sri.min() >= 0.0


@pytest.mark.parametrize("unit", [1e-100, 1e-140, 1e-170, 1e-300, 1e-310])
def test_a_faint_scene_is_fused_or_refused_but_never_replaced(unit):
    try:
        result, refusal = fuse(hsi=HSI * unit, msi=MSI * unit), None
    except ValueError as error:
        result, refusal = None, str(error)
    if result is None:
        # The squares of what is below 1e-150 are not numbers any more.
        assert unit < 1e-150
        assert re.match("(hsi|msi): ", refusal), refusal
    else:
        np.testing.assert_allclose(result.sri, fuse().sri * unit, rtol=5e-3)  # steps are in float32


@pytest.mark.parametrize("images", [{"hsi": 0 * HSI, "msi": 0 * MSI}, {"msi": 0 * MSI}, {"hsi": 0 * HSI}])
def test_dark_images_are_fused(images):
    result = fuse(**images)
    assert np.isfinite(result.cost)
    assert np.isfinite(result.sri).all()


@pytest.mark.parametrize("where", [(1, 2, 1), np.s_[:]], ids=["one pixel", "all"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["hsi", "msi"])
@pytest.mark.parametrize("method", ["nn-ccpd-auto", "nn-ccpd-nls"])
def test_without_the_scan_a_value_that_is_not_finite_ends_in_a_status(method, name, value, where):
    image = with_value({"hsi": HSI, "msi": MSI}[name], value, where)
    assert fuse(**{name: image}, method=method, check_finite=False).status is Status.NOT_FINITE


def test_a_start_whose_cost_overflows_ends_in_a_status():
    assert fuse(**PAPERS, init=tuple(1e120 * f for f in INIT)).status is Status.NOT_FINITE


def test_no_iterations_at_all_give_the_start_and_say_so():
    result = fuse(**PAPERS, init=INIT, max_iter=0)
    assert (result.status, result.n_iter, len(result.trace)) == (Status.MAX_ITERATIONS, 0, 1)
    np.testing.assert_allclose(result.sri, np.einsum("ir,jr,kr->ijk", *INIT), rtol=1e-10)


def test_zeros_in_a_start_are_lifted_off_zero():
    # In squared parameters a zero has no gradient to leave it by.
    init = tuple(with_value(f, 0.0, np.s_[::2]) for f in INIT)
    factors = fuse(**PAPERS, init=init, max_iter=50).factors
    assert all(np.any(factor[::2] > 0.1 * factor.max()) for factor in factors)


@pytest.mark.parametrize(
    "matrices",
    [
        {"PM": PM * (np.arange(6) % 2)},
        {"P1": np.eye(8)[::2]},
        {"P1": with_value(P1, P1[0], np.s_[1])},
        {"PM": with_value(PM, -0.05, (0, 4))},
        {"P1": np.eye(4).repeat(2, axis=1), "P2": sparse.coo_matrix(P2), "PM": PM > 0},
        {"P1": P1.astype(np.float32), "P2": P2.tolist(), "PM": np.asfortranarray(PM)},
    ],
    ids=["unseen bands", "no blur", "two equal rows", "a negative weight", "sparse and bool", "float32, list, F-order"],
)
def test_unusual_operators_are_used(matrices):
    # Unseen bands are what a Landsat-like sensor has, equal rows what two like sensors have, negative weights what a
    # measured response or a cubic kernel has: none of them makes the problem meaningless.
    dense = {name: np.asarray(getattr(P, "toarray", lambda P=P: P)(), dtype=np.float64) for name, P in matrices.items()}
    result = fuse(**matrices)
    assert np.isfinite(result.sri).all()
    assert result.sri.tobytes() == fuse(**dense).sri.tobytes()


def test_degradation_keeps_no_hand_on_the_callers_matrices():
    mine = sparse.csr_array(P1)
    mine.data[0] = 0.0
    before = mine.data.copy(), mine.indices.copy(), mine.indptr.copy()
    kept = Degradation(mine, P2, PM)
    for array, expected in zip((mine.data, mine.indices, mine.indptr), before, strict=True):
        np.testing.assert_array_equal(array, expected)
    mine.data[:] = 7.0
    assert kept.P1.max() == 0.5


class Tagged(np.ndarray):
    """A subclass that must not leak into the result."""


def every_other(image):
    padded = np.full([2 * n for n in image.shape], np.nan)
    padded[::2, ::2, ::2] = image
    return padded[::2, ::2, ::2]


def unaligned(image):
    buffer = bytearray(image.nbytes + 1)
    moved = np.frombuffer(buffer, offset=1, count=image.size).reshape(image.shape)
    moved[...] = image
    assert not moved.flags.aligned
    return moved


def read_only(image):
    frozen = image.copy()
    frozen.flags.writeable = False
    return frozen


def mapped(mode):
    def layout(image, folder):
        file = folder / f"{image.shape[2]}.npy"
        np.save(file, image)
        return np.load(file, mmap_mode=mode)

    return layout


LAYOUTS = {
    "F-order": lambda image, folder: np.asfortranarray(image),
    "negative strides": lambda image, folder: image[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
    "every other": lambda image, folder: every_other(image),
    "stride 0": lambda image, folder: np.broadcast_to(image[:, :1], image.shape),
    "bands first": lambda image, folder: image.transpose(2, 0, 1).copy().transpose(1, 2, 0),
    "read-only": lambda image, folder: read_only(image),
    "memmap r": mapped("r"),
    "memmap c": mapped("c"),
    "subclass": lambda image, folder: image.copy().view(Tagged),
    "int16": lambda image, folder: image.astype(np.int16),
    "uint16": lambda image, folder: image.astype(np.uint16),
    "unaligned": lambda image, folder: unaligned(image),
}


def counts():
    """(hsi, msi, degradation) in whole numbers, so that every dtype here holds the same values."""
    hsi, msi, degradation = small_case()
    return np.round(1000 * hsi), np.round(1000 * msi), degradation


def brief(name):
    method = small_instance(name)
    return {**method.options(), **({"max_iter": 3} if "max_iter" in method.option_names() else {})}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", fastccpd.methods.names())
def test_the_layout_of_the_images_does_not_show_in_a_single_byte(name, layout, tmp_path):
    *images, degradation = counts()
    arranged = [LAYOUTS[layout](image, tmp_path) for image in images]
    before = [image.tobytes() for image in arranged]
    plain = [np.array(image, dtype=np.float64, order="C", subok=False) for image in arranged]
    result = fastccpd.fuse(*arranged, degradation, method=name, **brief(name))
    expected = fastccpd.fuse(*plain, degradation, method=name, **brief(name))
    assert result.sri.tobytes() == expected.sri.tobytes()
    assert type(result.sri) is np.ndarray
    assert [image.tobytes() for image in arranged] == before


@pytest.mark.parametrize("name", [name for name in fastccpd.methods.names() if "rank" in brief(name)])
def test_a_rank_from_a_0d_array_is_that_rank(name):
    options = brief(name)
    rank = options["rank"] = 3 if options["rank"] in (None, "auto") else options["rank"]
    wrapped = np.array(rank) if isinstance(rank, int) else tuple(np.array(r) for r in rank)
    result = fastccpd.fuse(*counts(), method=name, **{**options, "rank": wrapped})
    expected = fastccpd.fuse(*counts(), method=name, **options)
    assert result.sri.tobytes() == expected.sri.tobytes()
    assert repr(result.options) == repr(expected.options)
