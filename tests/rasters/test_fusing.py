"""`fuse_files`: what `fastccpd fuse` does, from Python."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pair_files import SHAPE, pair, write_pair

from fastccpd import fuse, rasters
from fastccpd.cli import main
from fastccpd.imaging import degrade, landsat, preset, scenes
from fastccpd.model.verdict import Grade
from fastccpd.rasters import fuse_files

QUICK = {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 3}


class Listener:
    """Keeps what it is told."""

    def __init__(self):
        self.notes, self.warnings = [], []
        self.note, self.warn = self.notes.append, self.warnings.append


def test_it_writes_what_the_command_line_writes(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path, "tif", georeferenced=True)
    here, there = tmp_path / "python.tif", tmp_path / "command.tif"
    fuse_files(Path(hsi), msi, here, srf="landsat", rng=3, **QUICK)
    options = ["--srf", "landsat", "--seed", "3", "--method", "nn-ccpd-nls", "--rank", "3", "--max-iter", "3"]
    assert main(["fuse", hsi, msi, "-o", str(there), *options]) == 4
    assert here.read_bytes() == there.read_bytes()


def test_it_returns_everything_that_there_is_to_report(tmp_path):
    hsi, msi, _ = write_pair(tmp_path)
    out = tmp_path / "f.npz"
    fused = fuse_files(hsi, msi, out, srf="landsat", **QUICK)
    _, h, m = pair()
    expected = fuse(h.cube, m.cube, preset("stereo", SHAPE), **QUICK)
    np.testing.assert_array_equal(fused.result.sri, expected.sri)
    np.testing.assert_array_equal(fused.raster.cube, rasters.read(out).cube)
    np.testing.assert_array_equal(fused.raster.wavelengths, h.wavelengths)
    np.testing.assert_array_equal(fused.degradation.PM.toarray(), landsat(SHAPE[2]).toarray())
    assert fused.pair.grids.ratio == 4
    assert fused.blur.settings == {"psf": "stereo", "assumed": True}
    assert fused.written == {"output": str(out)}
    assert set(fused.residuals) == {"hsi", "msi"}
    assert not fused.interrupted
    assert not fused.marked.any()
    assert any(note.startswith("the blur is taken to be the stereo convention") for note in fused.notes)


def test_without_an_output_nothing_is_written(tmp_path):
    hsi, msi, _ = write_pair(tmp_path)
    fused = fuse_files(hsi, msi, srf="landsat", **QUICK)
    assert fused.written == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hsi.npz", "msi.npz"]


def test_operators_at_hand_are_taken_as_they_are(tmp_path):
    hsi, msi, _ = write_pair(tmp_path)
    operators = preset("stereo", SHAPE)
    given = fuse_files(hsi, msi, psf=(operators.P1, operators.P2), srf=operators.PM, **QUICK)
    named = fuse_files(hsi, msi, psf="stereo", srf="landsat", **QUICK)
    np.testing.assert_array_equal(given.result.sri, named.result.sri)
    with pytest.raises(TypeError, match="psf: got int; a name, a file or the two matrices P1, P2 are needed"):
        fuse_files(hsi, msi, psf=3, srf="landsat", **QUICK)
    with pytest.raises(ValueError, match=r"--srf: the matrix holds shape \(6, 35\); a column for each"):
        fuse_files(hsi, msi, srf=np.ones((6, 35)), **QUICK)
    with pytest.raises(ValueError, match="--srf: is given beside --bands"):
        fuse_files(hsi, msi, srf="landsat", bands="1-6", **QUICK)


def test_a_callback_ends_it_with_what_there_is(tmp_path):
    hsi, msi, _ = write_pair(tmp_path)
    fused = fuse_files(hsi, msi, tmp_path / "f.npz", srf="landsat", callback=lambda state: state.n_iter >= 1, **QUICK)
    assert fused.interrupted
    assert (tmp_path / "f.npz").exists()


def test_a_listener_hears_notes_and_warnings_as_they_come(tmp_path):
    _, hsi, msi = pair(georeferenced=True, right=4.0)
    for name, image in (("h", hsi), ("m", replace(msi, nodata=-9.0))):
        rasters.write(tmp_path / f"{name}.npz", image)
    listener = Listener()
    files = tmp_path / "h.npz", tmp_path / "m.npz"
    fused = fuse_files(*files, srf="landsat", grid="msi", psf="gaussian,phase=1.5", messages=listener, **QUICK)
    assert listener.notes == list(fused.notes)
    assert listener.warnings == list(fused.warnings)
    assert len(fused.warnings) == 1
    with pytest.warns(UserWarning, match="MSI pixels"):
        fuse_files(*files, srf="landsat", grid="msi", psf="gaussian,phase=1.5", **QUICK)


@pytest.mark.parametrize(
    ("changed", "kind", "sentence"),
    [
        ({"method": "stero"}, ValueError, "method: got 'stero'; did you mean 'stereo'"),
        ({"dtype": "int16"}, ValueError, "dtype: got 'int16'; 'float32' or 'float64' is needed"),
        ({"speed": 3}, TypeError, "speed: 'nn-ccpd-nls' cannot use this option"),
        ({"output": "f.png"}, ValueError, "f.png: got the suffix '.png'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(changed, kind, sentence, tmp_path):
    with pytest.raises(kind, match=sentence):
        fuse_files(tmp_path / "no.npz", tmp_path / "none.npz", **QUICK | changed)


def test_an_existing_output_is_refused_unless_it_may_be_overwritten(tmp_path):
    hsi, msi, _ = write_pair(tmp_path)
    out = tmp_path / "f.npz"
    out.write_text("mine")
    with pytest.raises(FileExistsError, match="exists already"):
        fuse_files(hsi, msi, out, srf="landsat", **QUICK)
    assert out.read_text() == "mine"
    fuse_files(hsi, msi, out, srf="landsat", overwrite=True, **QUICK)
    assert rasters.read(out).shape == SHAPE


def test_an_input_is_never_overwritten(tmp_path):
    hsi, msi, _ = write_pair(tmp_path)
    before = Path(hsi).read_bytes()
    with pytest.raises(ValueError, match="is one of the inputs, which are never overwritten"):
        fuse_files(hsi, msi, hsi, srf="landsat", overwrite=True, **QUICK)
    assert Path(hsi).read_bytes() == before


def test_what_was_filled_in_is_no_witness_of_the_verdict(tmp_path):
    scene = scenes.synthetic((96, 80, 36)).cube
    images = degrade(scene, preset("stereo", scene.shape))
    images[1][30:66, 24:60] = np.nan
    paths = [str(tmp_path / f"{name}.npz") for name in ("hsi", "msi")]
    for path, cube in zip(paths, images, strict=True):
        rasters.write(path, rasters.Raster(cube))
    fused = fuse_files(*paths, psf="stereo", srf="landsat", align=False, fill_nodata=True, method="gsa")
    assert fused.result.verdict.grade is Grade.AGREE
