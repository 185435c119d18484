"""Results on disk: saved without rendering, loaded without running anything, damage noticed."""

import io
import json
import zipfile

import numpy as np
import pytest
from scenery import small_case

import fastccpd
from fastccpd import Status, fuse, load

METHODS = {
    "maps": {"rank": 30},
    "factors": {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 5},
    "image": {"method": "scott", "rank": (3, 3, 3)},
    "mixture": {"method": "hysure", "rank": 3, "max_iter": 5},
    "scaled image": {"method": "nctcp", "rank": 3, "max_iter": 1},
    "mean": {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 3, "starts": 2, "combine": "mean"},
}


@pytest.fixture(scope="module")
def case():
    return small_case(rank=3, noise=0.05)[1:]


@pytest.fixture(params=METHODS)
def result(request, case):
    return fuse(*case, **METHODS[request.param])


def test_what_is_loaded_is_what_was_saved(result, tmp_path):
    result.save(tmp_path / "result.npz")
    again = load(tmp_path / "result.npz")
    assert again.sri.tobytes() == result.sri.tobytes()
    for name in ("status", "cost", "n_iter", "method", "seed", "shown", "combined", "dtype", "start_costs", "shape"):
        assert getattr(again, name) == getattr(result, name), name
    assert json.dumps(again.options) == json.dumps(result.options)
    assert again.trace.cost == result.trace.cost
    assert repr(again) == repr(result)
    for name in ("P1", "P2", "PM"):
        one, other = getattr(again.degradation, name), getattr(result.degradation, name)
        assert (one != other).nnz == 0
    assert (again.uncertainty is None) == (result.uncertainty is None)
    if result.noise is not None:
        np.testing.assert_array_equal(again.noise[0], result.noise[0])


@pytest.mark.parametrize("method", ["maps", "factors", "mixture"])
def test_saving_renders_and_decomposes_nothing(case, method, tmp_path):
    result = fuse(*case, **METHODS[method])
    result.save(tmp_path / "result.npz")
    assert result.image is None
    assert (result.known_factors is None) == (method != "factors")
    with zipfile.ZipFile(tmp_path / "result.npz") as archive:
        assert "image.npy" not in archive.namelist()


def test_factors_of_loaded_maps_are_those_that_the_result_would_have_made(case, tmp_path):
    for rng in (5, np.random.default_rng(5)):
        result = fuse(*case, rng=rng, **METHODS["maps"])
        result.save(tmp_path / "result.npz", overwrite=True)
        again = load(tmp_path / "result.npz")
        assert again.known_factors is None
        for one, other in zip(again.factors, result.factors):
            assert one.tobytes() == other.tobytes()


def test_figures_of_the_stages_survive(case, tmp_path):
    result = fuse(*case, **METHODS["maps"])
    result.save(tmp_path / "result.npz")
    stages = load(tmp_path / "result.npz").stages
    fit, expected = stages["tv-maps"], result.stages["tv-maps"]
    assert (fit.weight, fit.risk, fit.dof, fit.number) == (
        expected.weight,
        expected.risk,
        expected.dof,
        expected.number,
    )
    assert fit.status is Status.COST_SETTLED
    assert stages["choice"].shown == "maps"


def test_an_existing_file_is_kept_unless_told_otherwise(case, tmp_path):
    result = fuse(*case, **METHODS["factors"])
    path = tmp_path / "result.npz"
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="result.npz: exists already"):
        result.save(path)
    assert path.read_bytes() == b"precious"
    result.save(path, overwrite=True)
    assert load(path).cost == result.cost
    assert [file.name for file in tmp_path.iterdir()] == ["result.npz"]


def rewritten(path, change):
    """The file with its arrays changed."""
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays)
    content = io.BytesIO()
    np.savez(content, **arrays)
    path.write_bytes(content.getvalue())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda arrays: arrays["factors_A"].__setitem__((0, 0), 9.0), "the array factors_A is not the one"),
        (lambda arrays: arrays.pop("factors_B"), "the array factors_B is not the one"),
        (lambda arrays: arrays.pop("about"), "is no saved result"),
        (lambda arrays: arrays.update(about=np.frombuffer(b"{}", np.uint8)), "is no saved result"),
        (lambda arrays: arrays.update(about=np.frombuffer(b'{"format": 99}', np.uint8)), "format 99; format 1"),
        (lambda arrays: arrays.update(P1_indices=arrays["P1_indices"] + 10**6), "the array P1_indices is not"),
    ],
)
def test_damage_is_noticed(case, tmp_path, change, sentence):
    path = tmp_path / "result.npz"
    fuse(*case, **METHODS["factors"]).save(path)
    rewritten(path, change)
    with pytest.raises(ValueError, match=rf"result.npz: .*{sentence}"):
        load(path)


def test_a_file_of_objects_is_never_unpickled(tmp_path):
    np.savez(tmp_path / "result.npz", about=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="result.npz"):
        load(tmp_path / "result.npz")


def test_masks_go_through_fuse_many(case):
    hsi, msi, degradation = case
    valid = np.ones(msi.shape[:2], bool)
    valid[3:6, 2:9] = False
    options = {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 5}
    pairs = [{"hsi": hsi, "msi": msi, "msi_valid": valid}, (hsi, msi)]
    masked, whole = fastccpd.fuse_many(pairs, degradation, workers=1, **options)
    assert masked.sri.tobytes() == fuse(*case, msi_valid=valid, **options).sri.tobytes()
    assert whole.sri.tobytes() == fuse(*case, **options).sri.tobytes()


def test_a_pair_with_unknown_or_missing_parts_is_refused(case):
    hsi, msi, degradation = case
    for pair in ({"hsi": hsi}, {"hsi": hsi, "msi": msi, "mask": 1}):
        with pytest.raises(TypeError, match=r"pairs\[0\]: got a dict of hsi"):
            list(fastccpd.fuse_many([pair], degradation, workers=1))
