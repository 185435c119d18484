"""A scene in tiles is the scene: for any tile size, method, number of workers, source."""

from pathlib import Path

import numpy as np
import pytest
from tiled_scenes import small_pair

import fastccpd
from fastccpd import methods
from fastccpd.imaging import metrics, preset
from fastccpd.tiles import choose_plan, fuse_tiles, run
from fastccpd.tiles.crews import crew_of
from fastccpd.tiles.memory import of_first_pass

# What keeps the slow ones of the registry brief; that they run at all is what is asked.
BRIEF = {
    "b-scott": {"blocks": (1, 1), "rank": (4, 4, 3)},
    "cbtd-apg": {"rank": 2, "max_iter": 2},
    "cnmf": {"rank": 4, "max_iter": 2},
    "hysure": {"rank": 3, "max_iter": 3},
    "ltmr": {"rank": 4, "max_iter": 2, "clusters": 3},
    "nctcp": {"rank": 6, "max_iter": 1},
    "nn-btd-mu": {"rank": 2, "max_iter": 2},
    "nnstf": {"max_iter": 1, "clusters": 3},
    "nssr": {"rank": 6, "max_iter": 1},
    "scott": {"rank": (4, 4, 3)},
    "stereo": {"rank": 4, "max_iter": 2},
}


@pytest.mark.parametrize("method", methods.names())
def test_every_method_of_the_registry_runs_in_tiles(method):
    truth, hsi, msi, degradation = small_pair((64, 48, 36))
    known = methods.get(method).option_names()
    brief = {name: value for name, value in {"max_iter": 3, "rank": 4}.items() if name in known}
    if method not in ("auto", "tv-maps"):
        brief = BRIEF.get(method, brief)
    else:
        brief = {}
    with fuse_tiles(hsi, msi, degradation, tile=32, method=method, workers=0, **brief) as fused:
        assert len(fused.plan) == 4
        assert (fused.shared is not None) == methods.get(method).shares
        image = fused.sri
    assert image.shape == truth.shape
    assert image.dtype == np.float32
    assert np.isfinite(image).all()
    # An image of the scene, and not of something else: rough as some are after two iterations.
    assert np.corrcoef(image.ravel(), truth.ravel())[0, 1] > 0.5


def seams_of(plan):
    """The pixels within 8 of a seam."""
    seams = np.zeros(plan.shape, bool)
    for span in plan.rows[1:]:
        seams[span.core[0] - 8 : span.core[0] + 8] = True
    for span in plan.cols[1:]:
        seams[:, span.core[0] - 8 : span.core[0] + 8] = True
    return seams


def seam_ratio(image, whole, truth, seams):
    """Error at seams over that elsewhere, each over the untiled one there: some places of a scene are harder."""
    tiled, untiled = (np.square(found - truth).mean(axis=2) for found in (image, whole))
    return np.sqrt(tiled[seams].mean() / untiled[seams].mean() / (tiled[~seams].mean() / untiled[~seams].mean()))


@pytest.mark.parametrize("kind", ["stereo", "reflect"])
def test_the_result_does_not_depend_on_the_tile_size(kind):
    truth, hsi, msi, degradation = small_pair((160, 128, 36), kind)
    whole = fastccpd.fuse(hsi, msi, degradation, method="tv-maps")
    untiled = metrics.rsnr(whole.sri, truth)
    for tile in (96, 64, 48):
        with fuse_tiles(hsi, msi, degradation, tile=tile, method="tv-maps", workers=0) as fused:
            image, seams = fused.sri, seams_of(fused.plan)
        assert abs(metrics.rsnr(image, truth) - untiled) < 0.05, tile
        assert seam_ratio(image, whole.sri, truth, seams) < 1.02, tile


LOCAL = [
    ("nn-ccpd-nls", {"rank": 6}),
    ("scott", {}),
    ("gsa", {}),
    ("ltmr", {"rank": 4, "eta": 1e-2, "mu": 0.05, "clusters": 40, "max_iter": 5}),
    ("nnstf", {"max_iter": 1}),
]


@pytest.mark.parametrize(("method", "options"), LOCAL)
def test_local_models_are_no_worse_in_tiles(method, options):
    truth, hsi, msi, degradation = small_pair((144, 128, 36), "reflect")
    whole = fastccpd.fuse(hsi, msi, degradation, method=method, **options).sri
    with fuse_tiles(hsi, msi, degradation, tile=72, method=method, workers=0, **options) as fused:
        image, seams = fused.sri, seams_of(fused.plan)
    assert metrics.rsnr(image, truth) > metrics.rsnr(whole, truth) - 0.05
    assert seam_ratio(image, whole, truth, seams) < 1.02


def test_small_tiles_of_patches_that_are_alike_have_windows_that_hold_enough_of_them():
    """In windows of 112 pixels, not 160, 0.08 dB were lost, and the error at seams was 1.03 times that elsewhere."""
    truth, hsi, msi, degradation = small_pair((192, 192, 36), "reflect")
    whole = fastccpd.fuse(hsi, msi, degradation, method="nnstf", max_iter=2).sri
    with fuse_tiles(hsi, msi, degradation, tile=64, method="nnstf", workers=0, max_iter=2) as fused:
        image, seams = fused.sri, seams_of(fused.plan)
        assert fused.plan.rows[1].runs == ((16, 176),)
    assert metrics.rsnr(image, truth) > metrics.rsnr(whole, truth) - 0.05
    assert seam_ratio(image, whole, truth, seams) < 1.02


@pytest.mark.parametrize("method", ["fuse-sylvester", "hysure"])
def test_methods_of_periodic_scenes_lose_nothing_in_tiles(method):
    truth, hsi, msi, degradation = small_pair((96, 80, 36))
    options = {"rank": 5} if method == "fuse-sylvester" else {"rank": 5, "max_iter": 20}
    whole = fastccpd.fuse(hsi, msi, degradation, method=method, **options).sri
    with fuse_tiles(hsi, msi, degradation, tile=48, method=method, workers=0, **options) as fused:
        image = fused.sri
    assert metrics.rsnr(image, truth) > metrics.rsnr(whole, truth) - 0.05


def test_bytes_do_not_depend_on_workers_or_on_what_holds_the_images(tmp_path):
    _, hsi, msi, degradation = small_pair()
    how = {"tile": 32, "method": "auto"}
    with fuse_tiles(hsi, msi, degradation, workers=0, **how) as fused:
        expected, shared = fused.sri, fused.shared
    np.save(tmp_path / "hsi.npy", hsi)
    mapped = np.load(tmp_path / "hsi.npy", mmap_mode="r")
    seen = []
    with fuse_tiles(mapped, msi, degradation, workers=2, progress=seen.append, **how) as fused:
        assert fused.sri.tobytes() == expected.tobytes()
        assert fused.shared.weight == shared.weight
        block = fused.render(slice(20, 50), slice(10, 75))
        assert block.tobytes() == expected[20:50, 10:75].tobytes()
        assert fused.converged
    assert [entry.stage for entry in seen[:3]] == ["verdict", "statistics", "samples"]
    assert [entry.done for entry in seen[3:]] == list(range(len(fused.plan) + 1))
    assert seen[-1].total == len(fused.plan)
    assert seen[-1].megapixels_per_second > 0.0
    assert seen[-1].seconds_left == 0.0


def test_the_scene_is_written_in_whole_chunks(tmp_path):
    zarr = pytest.importorskip("zarr")
    _, hsi, msi, degradation = small_pair((64, 48, 36))
    written = []

    class Chunks:
        chunks = (16, 20, 36)

        def write(self, rows, cols, block):
            written.append((rows, cols))
            out[rows, cols] = block

    out = zarr.create_array(tmp_path / "out.zarr", shape=(64, 48, 36), chunks=Chunks.chunks, dtype="f4")
    with fuse_tiles(hsi, msi, degradation, tile=32, method="gsa", workers=0) as fused:
        fused.write(Chunks())
        np.testing.assert_array_equal(out[:], fused.sri)
    for rows, cols in written:
        assert rows.start % 16 == 0
        assert cols.start % 20 == 0
        assert rows.stop % 16 == 0 or rows.stop == 64
        assert cols.stop % 20 == 0 or cols.stop == 48


def test_pixels_without_data_have_no_part_and_tiles_without_any_are_empty():
    truth, hsi, msi, degradation = small_pair()
    wedge = np.add.outer(np.arange(96), np.arange(80)) > 24
    wedge[40:, 30:] = False
    coarse = wedge[::4, ::4] & wedge[3::4, 3::4]
    spoilt = [np.where(mask[:, :, None], image, np.nan) for mask, image in ((coarse, hsi), (wedge, msi))]
    given = {"hsi_valid": coarse, "msi_valid": wedge}
    whole = fastccpd.fuse(*spoilt, degradation, method="tv-maps", **given)
    with fuse_tiles(*spoilt, degradation, tile=24, method="tv-maps", workers=0, **given) as fused:
        image = fused.sri
        assert None in fused.statuses.values()
    inside = wedge & np.roll(wedge, 8, axis=0) & np.roll(wedge, -8, axis=0) & np.roll(wedge, 8, axis=1)
    assert np.isfinite(image[wedge]).all()
    assert np.isnan(image[-4:, -4:]).all()
    errors = [np.square(found[inside] - truth[inside]).mean() for found in (image, whole.sri)]
    assert errors[0] < 1.05 * errors[1]


def test_uncertainty_is_blended_like_the_image():
    _, hsi, msi, degradation = small_pair()
    whole = fastccpd.fuse(hsi, msi, degradation, method="tv-maps")
    with fuse_tiles(hsi, msi, degradation, tile=48, method="tv-maps", workers=0, uncertainty=True) as fused:
        found = fused.uncertainty()[:, :, 0]
        out = np.zeros((96, 80, 1), np.float32)
        fused.write(out, uncertainty=True)
    np.testing.assert_array_equal(out[:, :, 0], found)
    assert 0.7 < np.sqrt(np.mean(found**2)) / np.sqrt(np.mean(whole.uncertainty**2)) < 1.4
    with pytest.raises(ValueError, match="uncertainty: 'gsa' tells none"):
        fuse_tiles(hsi, msi, degradation, method="gsa", uncertainty=True)


def test_tiles_are_smaller_only_where_memory_forces_it():
    large = preset("stereo", (2048, 2048, 200))
    method, how = methods.make("tv-maps", {}), {"dtype": np.float32}
    plan, workers = choose_plan(large, method, **how, workers=8, memory=64e9)
    assert (plan.tile, workers) == (512, 8)
    plan, workers = choose_plan(large, method, **how, workers=8, memory=2.8e9)
    assert (plan.tile, workers) == (512, 2)
    plan, workers = choose_plan(large, method, **how, workers=8, memory=1.2e9)
    assert plan.tile < 512
    with pytest.raises(MemoryError, match="memory: got 0.56 GB, but the smallest tiles need .* GB; more memory"):
        choose_plan(preset("stereo", (256, 256, 4000)), method, **how, memory=5.6e8)
    with pytest.raises(MemoryError, match="memory: got 0.10 GB, but two processes alone take 0.55 GB"):
        choose_plan(large, method, **how, memory=1e8)
    with pytest.raises(MemoryError, match="but tiles of 2048 need"):
        choose_plan(large, method, **how, tile=2048, memory=4e9)


def test_there_are_no_more_processes_than_fit_the_memory(monkeypatch):
    large = preset("stereo", (2048, 2048, 200))
    found = [of_first_pass(large, 8, memory) for memory in (64e9, 2e9, 7e8, 6e8)]
    assert found == [(512, 8), (512, 3), (384, 1), (256, 1)]
    assert of_first_pass(large, 8, 2e9, 384) == (384, 4)
    with pytest.raises(MemoryError, match="but this run was begun with blocks of 512, which need 0.76 GB; more"):
        of_first_pass(large, 8, 7e8, 512)
    _, hsi, msi, degradation = small_pair((64, 48, 36))
    sizes = []

    def crew_here(workers, client=None, soon=0):
        sizes.append(workers)
        return crew_of(0)

    monkeypatch.setattr(run, "crew_of", crew_here)
    for first, fitting, expected in ((1, 3, [1, 3]), (3, 1, [3, 1]), (3, 3, [3]), (2, 9, [2, 4]), (8, 9, [8])):
        monkeypatch.setattr(run, "of_first_pass", lambda *_, first=first: (512, first))
        monkeypatch.setattr(
            run, "choose_plan", lambda *a, n=fitting, **k: (choose_plan(*a, **k)[0], min(n, k["workers"], 4))
        )
        with fuse_tiles(hsi, msi, degradation, tile=32, method="gsa", workers=8) as fused:
            assert len(fused.plan) == 4
        assert sizes == expected
        sizes.clear()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "nn-ccpd-nls", "init": 3}, "init: a start of a whole scene cannot be cut into tiles"),
        ({"rng": -1}, "rng"),
        ({"memory": -1.0}, "memory"),
        ({"workers": 1.5}, "workers"),
        ({"method": "no-such"}, "method: got 'no-such'"),
        ({"tile": 3}, "tile: got 3"),
        ({"dtype": "int32"}, "dtype: got 'int32'"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(change, message, tmp_path):
    _, hsi, msi, degradation = small_pair()
    with pytest.raises((ValueError, TypeError), match=message):
        fuse_tiles(hsi, msi, degradation, folder=tmp_path / "state", **({"workers": 0} | change))
    assert not (tmp_path / "state").exists()


def test_images_that_do_not_belong_together_are_refused_before_anything_is_made(tmp_path):
    _, hsi, msi, degradation = small_pair()
    with pytest.raises(ValueError, match="msi: 95 rows, but P1 maps from 96"):
        fuse_tiles(hsi, msi[:-1], degradation, folder=tmp_path / "state")
    assert not Path(tmp_path / "state").exists()
