"""A fact stands in one table: what is added there is everywhere."""

import csv
import inspect
import json

import numpy as np
import pytest
from fastccpd.kernels import jit

import fastccpd
from fastccpd import Degradation, experiments, fuse, methods, report
from fastccpd.cli import demonstration, main
from fastccpd.experiments import measuring
from fastccpd.imaging import degrade, gaussian, metrics, preset, scenes, score
from fastccpd.imaging.columns import Metric
from fastccpd.model.problem import Problem
from fastccpd.rasters import operators
from fastccpd.testing import small_case, small_instance


def mean_absolute_error(pair):
    blocks = [np.abs(x - y).sum() for _, x, y in pair.rows()]
    return float(sum(blocks) / pair.reference.size), ""


@pytest.fixture
def mae(monkeypatch):
    """A metric more, as another package would add it."""
    entry = Metric("mae", "MAE", None, -1, function=mean_absolute_error)
    monkeypatch.setitem(metrics.METRICS, "mae", entry)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    reference = rng.random((16, 20, 5)) + 0.5
    return reference + 0.1 * rng.standard_normal(reference.shape), reference


@pytest.mark.usefixtures("mae")
class TestANewMetricIsOneEntry:
    def test_it_is_scored(self, images):
        estimate, reference = images
        expected = pytest.approx(np.abs(estimate - reference).mean())
        assert score(estimate, reference, 4)["mae"] == expected
        assert metrics.usual(estimate, reference, 4)["mae"] == expected

    def test_the_command_line_prints_it(self, images, tmp_path, capsys):
        files = [tmp_path / "estimate.npy", tmp_path / "reference.npy"]
        for file, image in zip(files, images):
            np.save(file, image)
        arguments = ["score", *map(str, files), "--ratio", "4"]
        assert main(arguments) == 0
        heads, values = capsys.readouterr().out.splitlines()
        column = heads.index("MAE")
        assert values[column - 4 : column + 3].split()[-1] == f"{np.abs(images[0] - images[1]).mean():#.4g}"
        assert main([*arguments, "--json"]) == 0
        assert "mae" in json.loads(capsys.readouterr().out)["scores"]["estimate"]
        assert main(["score", "--help"]) == 0
        assert "MAE" in capsys.readouterr().out

    def test_a_report_has_its_column(self, tmp_path):
        scene = scenes.synthetic((16, 20, 12)).cube
        degradation = preset("stereo", scene.shape, PM=np.kron(np.eye(3), np.full((1, 4), 0.25)))
        hsi, msi = degrade(scene, degradation)
        result = fuse(hsi, msi, degradation, method="fuse-sylvester", rank=3)
        page = report.fusion(tmp_path / "report.html", result, hsi, msi, truth=scene, quantity="reflectance")
        text = page.read_text(encoding="utf-8")
        (head,) = (part for part in text.split("<th")[1:] if ">MAE" in part)
        assert "↓" in head
        assert "(reflectance)" in head

    def test_experiments_have_it_in_rows_medians_and_files(self, tmp_path):
        task = measuring.Task("synthetic", 20.0, 0, "scott", "scott", {"rank": 3})
        row = measuring.measure(task)
        assert row["metrics"]["mae"] > 0.0
        assert row["lee"]["mae"] > 0.0
        assert experiments.medians([row], "snr")[20.0, "scott", False]["mae"] == row["metrics"]["mae"]
        experiments.write_csv(tmp_path / "rows.csv", [row])
        with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
            (line,) = csv.DictReader(file)
        assert float(line["mae"]) == row["metrics"]["mae"]
        assert float(line["lee_mae"]) == row["lee"]["mae"]


@pytest.mark.usefixtures("mae")
def test_rows_of_before_a_metric_was_added_are_still_read():
    row = {"system": "scott", "tuned": False, "snr": 5.0, "run": 0, "options": {"rank": 3}}
    row["metrics"] = {"rsnr": 20.0, "rmse": 0.1, "cc": 0.9, "sam": 3.0, "ergas": 2.0}
    found = experiments.medians([row], "snr")[5.0, "scott", False]
    assert found == row["metrics"] | {"mae": None, "runs": 1}


def test_every_metric_of_the_table_has_a_function_of_its_name():
    for name, metric in metrics.METRICS.items():
        assert metric.name == name
        assert callable(getattr(metrics, name))
        assert metric.direction in (-1, 1)
        assert metric.better


@pytest.mark.parametrize("name", methods.names())
class TestWhatAMethodNeeds:
    """Each need is said by the method's class, and is true."""

    def test_a_method_fuses_under_any_blur_or_says_that_it_needs_a_periodic_one(self, name):
        hsi, msi, degradation = small_case()
        mirrored = Degradation(*gaussian(msi.shape[:2], 4, boundary="reflect"), degradation.PM)
        method = small_instance(name)
        if method.needs_periodic_blur:
            with pytest.raises(ValueError, match="^degradation: .*periodic"):
                fuse(hsi, msi, mirrored, method=method)
        else:
            assert np.isfinite(fuse(hsi, msi, mirrored, method=method).sri).all()

    def test_the_assumed_boundary_is_one_that_the_method_takes(self, name):
        blur = operators.blur(None, (32, 48), 4, offset=(0.0, 0.0), method=name)
        assert (blur.settings["boundary"] == "periodic") == methods.get(name).needs_periodic_blur

    def test_kernels_run_where_the_class_says_so_and_nowhere_else(self, name, monkeypatch):
        launched = []
        launch = jit.Kernel.__call__

        def counted(kernel, *arguments, **settings):
            launched.append(kernel)
            return launch(kernel, *arguments, **settings)

        monkeypatch.setattr(jit.Kernel, "__call__", counted)
        method = small_instance(name)
        method.solve(Problem(*small_case(noise=0.1)), rng=np.random.default_rng(0))
        assert bool(launched) == method.uses_kernels


class TestTheDefaultMethod:
    def test_it_is_the_default_of_every_function(self):
        for function in (fastccpd.fuse, fastccpd.fuse_many, fastccpd.memory_needed):
            assert inspect.signature(function).parameters["method"].default == methods.DEFAULT
        assert methods.DEFAULT == demonstration.METHOD
        assert methods.DEFAULT in experiments.SYSTEMS

    def test_the_command_line_names_it(self, capsys):
        assert main(["fuse", "--help"]) == 0
        assert f"(default {methods.DEFAULT})" in " ".join(capsys.readouterr().out.split())
