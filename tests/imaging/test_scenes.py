"""Synthetic scenes by their promises, real ones by what is known of them."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fastccpd.imaging import degrade, landsat, metrics, preset, read_response, response_from_edges, scenes
from fastccpd.imaging.scene_files import nonnegative_response


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("shape", "materials"), [((60, 90, 60), 5), ((75, 40, 100), 7), ((48, 64, 30), 2)])
def test_synthetic_scene_is_a_mixture_of_its_materials(shape, materials, seed):
    scene = scenes.synthetic(shape, materials, seed)
    assert scene.cube.shape == shape
    assert scene.cube.dtype == np.float64
    assert scene.cube.flags.c_contiguous
    assert scene.cube.min() > 0.0
    assert scene.cube.max() < 1.0
    singular = np.linalg.svd(scene.cube.reshape(-1, shape[2]), compute_uv=False)
    assert singular[materials] < 1e-13 * singular[0]
    # Every material is really there: the smallest direction carries more than rounding.
    assert singular[materials - 1] > 1e-4 * singular[0]
    assert set(np.unique(scene.labels)) <= set(range(1, materials + 1))


def test_synthetic_spectra_are_smooth_and_look_like_their_material():
    scene = scenes.synthetic((80, 120, 211), 5, 0)
    names = ["crop", "soil", "wood", "water", "grain"]
    assert scene.provenance["notes"] == "labels: " + ", ".join(f"{n + 1} {name}" for n, name in enumerate(names))
    spectra = {name: np.median(scene.cube[scene.labels == n + 1], axis=0) for n, name in enumerate(names)}

    def at(name, wavelength):
        return np.interp(wavelength, scene.wavelengths, spectra[name])

    for name in names:
        assert np.abs(np.diff(spectra[name])).max() < 0.12, "no jump between bands ten nm apart"
    for green in ("crop", "wood"):
        assert at(green, 850) > 4 * at(green, 670), "red edge"
        assert at(green, 552) > 1.2 * at(green, 670), "green peak"
        assert at(green, 1445) < 0.7 * at(green, 1650), "leaf water"
    assert at("soil", 1600) > at("soil", 850) > at("soil", 450)
    assert spectra["water"].max() < 0.2
    assert at("water", 1000) < 0.03
    assert at("grain", 670) > 2 * at("crop", 670), "ripe grain has lost its pigment"


def test_synthetic_scene_has_edges_and_smooth_parts():
    scene = scenes.synthetic((100, 140, 40), 5, 1)
    infrared = scene.cube[:, :, np.abs(scene.wavelengths - 850).argmin()]
    steps = np.abs(np.diff(infrared, axis=1))
    assert np.median(steps) < 0.02, "most neighbours are alike"
    assert np.quantile(steps, 0.995) > 0.1, "some are not"


def test_synthetic_scene_is_the_same_for_the_same_number():
    first, again = (scenes.synthetic((20, 31, 12), 4, 7) for _ in range(2))
    assert np.array_equal(first.cube, again.cube)
    assert np.array_equal(first.cube, scenes.synthetic((20, 31, 12), 4, np.random.default_rng(7)).cube)
    assert not np.array_equal(first.cube, scenes.synthetic((20, 31, 12), 4, 8).cube)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 3), (5, 1, 2), (3, 4, 1), (2, 300, 2)])
@pytest.mark.parametrize("materials", [1, 3, 12])
def test_synthetic_scene_can_be_of_any_size(shape, materials):
    scene = scenes.synthetic(shape, materials, 3)
    assert scene.cube.shape == shape
    assert np.isfinite(scene.cube).all()
    assert scene.cube.min() > 0.0


def test_synthetic_scene_is_degraded_and_scored():
    scene = scenes.synthetic((40, 60, 50), 5, 0)
    hsi, msi = degrade(scene.cube, preset("stereo", scene.cube.shape))
    assert hsi.shape == (10, 15, 50)
    assert msi.shape == (40, 60, 6)
    # A coarse image blown up is a poor estimate, but one of the right scene.
    blown_up = np.repeat(np.repeat(hsi, 4, axis=0), 4, axis=1)
    assert 5.0 < metrics.rsnr(blown_up, scene.cube) < 25.0


@pytest.mark.parametrize("shape", [(5_000_000, 5_000_000, 5), (10**8, 1, 10**8), (2**40, 2**40, 2**40)])
def test_synthetic_scene_beyond_memory_is_refused_at_once(shape):
    with pytest.raises(MemoryError, match="^shape: .* of 5 materials takes .* GB, but .* GB are available"):
        scenes.synthetic(shape)


def test_synthetic_scene_refuses_a_wrong_shape():
    with pytest.raises(ValueError, match=r"shape: got \(3, 4\); \(rows, columns, bands\)"):
        scenes.synthetic((3, 4))
    with pytest.raises(ValueError, match=r"shape\[1\]: got 0"):
        scenes.synthetic((3, 0, 4))
    with pytest.raises(ValueError, match="materials: got 0"):
        scenes.synthetic((3, 4, 5), 0)


def test_scene_is_described_in_one_line():
    assert repr(scenes.synthetic((3, 4, 5))) == "<Scene synthetic: 3×4×5, wavelengths and labels>"
    bare = scenes.Scene(np.ones((1, 2, 3)), None, None, {"name": "mine"})
    assert repr(bare) == "<Scene mine: 1×2×3, no wavelengths or labels>"


def test_unknown_scene_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"name: got 'salinas'; did you mean 'salinas-a'\? known are salinas-a, "):
        scenes.load("salinas")


def test_scene_that_is_nowhere_says_where_it_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.delenv(scenes.FOLDER_VARIABLE, raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"'samson': folder= or FASTCCPD_DATA names no folder; get it from github"
    ):
        scenes.load("samson")
    with pytest.raises(FileNotFoundError, match=r"samson/samson_1.mat is not in .*; get it from"):
        scenes.load("samson", folder=tmp_path)
    monkeypatch.setenv(scenes.FOLDER_VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match=r"FASTCCPD_DATA: .*gone is not a folder"):
        scenes.load("samson")


def test_indian_pines_without_folder_and_tensorly_names_both(monkeypatch):
    monkeypatch.delenv(scenes.FOLDER_VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "tensorly", None)
    with pytest.raises(FileNotFoundError, match="names no folder and tensorly, which carries it too, is not installed"):
        scenes.load("indian-pines")


def test_indian_pines_comes_from_tensorly_without_its_wavelengths(monkeypatch):
    monkeypatch.delenv(scenes.FOLDER_VARIABLE, raising=False)
    rng = np.random.default_rng(0)
    counts, labels = rng.integers(955, 9605, (145, 145, 200)), rng.integers(0, 17, (145, 145))
    bunch = SimpleNamespace(tensor=counts.astype(np.float64), ticks=[labels, np.arange(200.0)])
    datasets = SimpleNamespace(load_indian_pines=lambda: bunch)
    monkeypatch.setitem(sys.modules, "tensorly", SimpleNamespace(__version__="0.0", datasets=datasets))
    monkeypatch.setitem(sys.modules, "tensorly.datasets", datasets)
    scene = scenes.load("indian-pines", crop_to=4)
    assert scene.wavelengths is None
    assert scene.provenance["source"] == "tensorly 0.0"
    assert np.array_equal(scene.cube, counts[1:, 1:])
    assert np.array_equal(scene.labels, labels[1:, 1:])


def test_wavelengths_of_a_folder_go_with_the_cube_of_tensorly(monkeypatch, tmp_path):
    (tmp_path / "wavelengths").mkdir()
    rows = [f"{n + 1},{400 + 10 * n},10,1,{n}" for n in range(200)] + ["201,9999,10,0,"]
    header = "band_1based,center_nm,fwhm_nm,in_corrected_200,index_in_corrected_0based"
    table = tmp_path / "wavelengths" / "aviris_1992_indian_pines_220.csv"
    table.write_text("\n".join([header, *rows]), encoding="utf-8")
    cube, labels = np.ones((145, 145, 200)), np.zeros((145, 145))
    monkeypatch.setattr(scenes, "indian_pines_of_tensorly", lambda: (cube, labels, "tensorly"))
    scene = scenes.load("indian-pines", tmp_path)
    assert np.array_equal(scene.wavelengths, 400 + 10 * np.arange(200.0))


def test_file_of_another_shape_is_refused(tmp_path):
    (tmp_path / "indian_pines").mkdir()
    path = tmp_path / "indian_pines" / "indian_pines_corrected.npz"
    np.savez(path, cube=np.ones((2, 3, 4)))
    with pytest.raises(ValueError, match=r"cube has shape \(2, 3, 4\); shape \(145, 145, 200\) is needed"):
        scenes.load("indian-pines", tmp_path)
    np.savez(path, other=np.ones((2, 3, 4)))
    with pytest.raises(ValueError, match="cube is not there"):
        scenes.load("indian-pines", tmp_path)


def test_pair_of_another_name_is_refused():
    with pytest.raises(ValueError, match="name: got 'rome'; 'paris' or 'san-francisco' is needed"):
        scenes.load_pair("rome")


# The real scenes

SHAPES = {
    "salinas-a": (80, 84, 204),
    "indian-pines": (145, 145, 200),
    "samson": (95, 95, 156),
    "moffett": (50, 50, 189),
    "paris": (72, 72, 128),
    "san-diego": (100, 100, 189),
    "hydice-urban": (80, 100, 162),
    "abu-airport-4": (100, 100, 191),
    "abu-urban-1": (100, 100, 204),
}
SHAPES |= {"cave-toy": (256, 256, 31), "enmap-potsdam": (64, 128, 218), "san-francisco": (298, 136, 47)}
MSI_BANDS = {"samson": 4, "cave-toy": 3, "enmap-potsdam": 10}


@pytest.fixture
def folder():
    if not os.environ.get(scenes.FOLDER_VARIABLE):
        pytest.skip(f"{scenes.FOLDER_VARIABLE} is not set")
    return os.environ[scenes.FOLDER_VARIABLE]


@pytest.mark.scenes
@pytest.mark.parametrize("name", SHAPES)
def test_real_scenes_have_their_shape_and_fitting_parts(folder, name):
    scene = scenes.load(name, folder)
    assert scene.cube.shape == SHAPES[name]
    assert scene.cube.dtype == np.float64
    assert scene.cube.flags.c_contiguous
    assert np.isfinite(scene.cube).all()
    assert scene.labels is None or scene.labels.shape == scene.cube.shape[:2]
    assert scene.wavelengths is None or scene.wavelengths.shape == scene.cube.shape[2:]
    assert scene.provenance["name"] == name
    assert {"sensor", "source", "origin", "terms", "notes"} < set(scene.provenance)
    # Neighbouring pixels of a picture are alike; those of a wrongly folded one are not.
    band = scene.cube[:, :, scene.cube.shape[2] // 4]
    shuffled = np.random.default_rng(0).permutation(band.ravel()).reshape(band.shape)
    for axis in (0, 1):
        assert np.abs(np.diff(band, axis=axis)).mean() < 0.75 * np.abs(band - shuffled).mean()


@pytest.mark.scenes
@pytest.mark.parametrize("name", SHAPES)
def test_every_scene_brings_a_response_that_a_degradation_takes(folder, name):
    scene = scenes.load(name, folder)
    degradation = preset("stereo", scene.cube.shape, PM=scene.response)
    assert degradation.msi_shape == (*scene.cube.shape[:2], MSI_BANDS.get(name, 6))
    assert scene.response.min() >= 0.0
    if name != "san-francisco":
        np.testing.assert_allclose(scene.response.sum(axis=1), 1.0)
    if "Landsat-like" in scene.provenance["response"]:
        np.testing.assert_array_equal(scene.response.toarray(), landsat(scene.cube.shape[2]).toarray())


def test_a_synthetic_scene_brings_landsat_s_response_where_it_has_the_bands():
    assert scenes.synthetic((4, 5, 40)).response.shape == (6, 40)
    assert scenes.synthetic((4, 5, 7)).response is None


def test_every_name_is_tested():
    assert set(scenes.names()) == set(SHAPES)


@pytest.mark.scenes
def test_salinas_labels_fit_its_shifted_window(folder):
    scene = scenes.load("salinas-a", folder)
    assert set(np.unique(scene.labels)) == {0, 1, 10, 11, 12, 13, 14}
    assert not scene.labels[:2].any()
    assert not scene.labels[:, 82:].any()

    def within(labels):
        means = {label: scene.cube[labels == label].mean(axis=0) for label in np.unique(labels) if label}
        return np.mean([np.linalg.norm(scene.cube[labels == label] - mean) for label, mean in means.items()])

    # Moved by two pixels in any direction the labels cut through the fields.
    for shift in ((2, 0), (-2, 0), (0, 2), (0, -2)):
        assert within(scene.labels) < within(np.roll(scene.labels, shift, axis=(0, 1)))


@pytest.mark.scenes
def test_indian_pines_is_cropped_to_the_published_scene(folder):
    whole, cropped = scenes.load("indian-pines", folder), scenes.load("indian-pines", folder, crop_to=4)
    assert cropped.cube.shape == (144, 144, 200)
    assert np.array_equal(cropped.cube, whole.cube[1:, 1:])
    assert np.array_equal(cropped.labels, whole.labels[1:, 1:])
    assert (whole.cube.min(), whole.cube.max()) == (955, 9604)


@pytest.mark.scenes
def test_indian_pines_wavelengths_skip_the_removed_bands(folder):
    wavelengths = scenes.load("indian-pines", folder).wavelengths
    # 1-based bands 104-108, 150-163 and 220 of 220 are gone.
    assert wavelengths[102] < 1362.64
    assert wavelengths[103] > 1402.44
    assert wavelengths[-1] < 2498.96
    assert (np.diff(wavelengths) < 0).any()
    assert response_from_edges([(1550, 1770)], wavelengths).nnz > 15


@pytest.mark.scenes
def test_samson_labels_are_rock_tree_and_water(folder):
    scene = scenes.load("samson", folder)
    infrared, green = (scene.cube[:, :, np.abs(scene.wavelengths - w).argmin()] for w in (850, 550))
    ratio = {label: np.median(infrared[scene.labels == label] / green[scene.labels == label]) for label in (1, 2, 3)}
    assert ratio[2] > ratio[1] > 1.0 > ratio[3]


@pytest.mark.scenes
def test_paris_is_a_pair_whose_response_fits_when_normalised(folder):
    pair = scenes.load_pair("paris", folder)
    assert repr(pair) == "<Pair paris: reference 72×72×128 and MSI 72×72×9>"
    misfit = np.linalg.norm(pair.reference @ pair.response.T - pair.msi) / np.linalg.norm(pair.msi)
    assert misfit < 0.1
    raw = scenes.load_pair("paris", folder, normalise=False)
    assert np.linalg.norm(raw.reference @ raw.response.T - raw.msi) / np.linalg.norm(raw.msi) > 0.5
    assert np.array_equal(raw.reference, scenes.load("paris", folder).cube)
    np.testing.assert_allclose(np.quantile(pair.msi, 0.999, axis=(0, 1)), 1.0)
    assert pair.wavelengths[0] == pytest.approx(426.82)


@pytest.mark.scenes
def test_cave_toy_s_response_is_the_mean_of_three_groups(folder):
    scene = scenes.load("cave-toy", folder)
    _, msi = degrade(scene.cube, preset("stereo", scene.cube.shape, PM=scene.response))
    for band, group in enumerate((slice(0, 10), slice(10, 20), slice(20, 31))):
        np.testing.assert_allclose(msi[:, :, band], scene.cube[:, :, group].mean(axis=2))
    assert (scene.wavelengths[0], scene.wavelengths[-1]) == (400.0, 700.0)
    assert scene.cube.max() == 63432


@pytest.mark.scenes
def test_enmap_has_no_dead_band_and_sees_as_sentinel_2_does(folder):
    scene = scenes.load("enmap-potsdam", folder)
    assert (scene.cube > -32768).all()
    assert np.isfinite(scene.wavelengths).all()
    table = read_response(os.path.join(folder, "srf", "sentinel2a_msi.csv"))
    for row, name in zip(scene.response.toarray(), ("B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B11", "B12")):
        samples, response = table[name]
        centre = (samples * response).sum() / response.sum()
        assert row @ scene.wavelengths == pytest.approx(centre, abs=3.0), name


@pytest.mark.scenes
def test_enmap_without_the_response_functions_says_so(folder, tmp_path):
    os.symlink(os.path.join(os.path.abspath(folder), "enmap_potsdam"), tmp_path / "enmap_potsdam")
    with pytest.raises(FileNotFoundError, match="sentinel2a_msi.csv is not there; Sentinel-2A's response is needed"):
        scenes.load("enmap-potsdam", tmp_path)


@pytest.mark.scenes
@pytest.mark.parametrize("normalise", [True, False])
def test_san_francisco_is_a_pair_whose_response_is_fitted_to_it(folder, normalise):
    pair = scenes.load_pair("san-francisco", folder, normalise)
    assert repr(pair) == "<Pair san-francisco: reference 297×135×47 and MSI 297×135×6>"
    assert pair.wavelengths is None
    assert "estimated from the pair itself" in pair.provenance["response"]
    residual = pair.reference @ pair.response.T - pair.msi
    assert np.linalg.norm(residual) < 0.08 * np.linalg.norm(pair.msi)
    # The conditions of an optimum: the gradient vanishes where a weight is positive, and is not negative elsewhere.
    gradient = np.einsum("ijm,ijk->mk", residual, pair.reference)
    size = np.linalg.norm(pair.msi) * np.linalg.norm(pair.reference)
    assert np.abs(gradient[pair.response > 0]).max() < 1e-9 * size
    assert gradient.min() > -1e-9 * size
    if not normalise:
        whole = scenes.load("san-francisco", folder)
        np.testing.assert_array_equal(pair.reference, whole.cube[:297, :135])
        np.testing.assert_allclose(whole.response.toarray(), pair.response)


def test_a_nonnegative_response_is_found_again():
    rng = np.random.default_rng(0)
    response = np.maximum(rng.standard_normal((3, 9)), 0.0)
    scene = rng.random((8, 7, 9))
    np.testing.assert_allclose(nonnegative_response(scene, scene @ response.T).toarray(), response, atol=1e-12)


@pytest.mark.scenes
def test_pair_without_its_response_says_so(folder, tmp_path):
    (tmp_path / "paris_hsi_msi").mkdir()
    source = os.path.join(os.path.abspath(folder), "paris_hsi_msi", "paris_data_hs_ms.mat")
    os.symlink(source, tmp_path / "paris_hsi_msi" / "paris_data_hs_ms.mat")
    with pytest.raises(FileNotFoundError, match=r"R_HysureParis.mat is not in .*; get this response from"):
        scenes.load_pair("paris", tmp_path)


@pytest.mark.scenes
def test_real_tensorly_holds_the_same_indian_pines(folder, monkeypatch):
    pytest.importorskip("tensorly")
    from_folder = scenes.load("indian-pines", folder)
    monkeypatch.delenv(scenes.FOLDER_VARIABLE)
    from_tensorly = scenes.load("indian-pines")
    assert from_tensorly.wavelengths is None
    assert np.array_equal(from_tensorly.cube, from_folder.cube)
    assert np.array_equal(from_tensorly.labels, from_folder.labels)
