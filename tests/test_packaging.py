"""What is built holds what it should."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and an sdist, built from a copy so that the checkout stays clean."""
    pytest.importorskip("build")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("fastccpd", "kernels", "pyproject.toml", "README.md", "LICENSE"):
        target, origin = source / name, ROOT / name
        if origin.is_dir():
            for file in (*origin.rglob("*.py"), *origin.rglob("py.typed")):
                (target / file.relative_to(origin)).parent.mkdir(parents=True, exist_ok=True)
                (target / file.relative_to(origin)).write_bytes(file.read_bytes())
        else:
            target.write_bytes(origin.read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def modules():
    package = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("fastccpd/**/*.py")}
    return package | {f"fastccpd/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("kernels/*.py")}


def test_the_wheel_holds_every_module_of_both_folders_the_mark_of_types_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        assert names == modules() | {"fastccpd/py.typed"}
        assert sum(info.file_size for info in wheel.infolist()) < 1_500_000


def test_the_sdist_holds_both_folders(built):
    with tarfile.open(built[1]) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    package = {"kernels/mttkrp.py", "fastccpd/api.py", "fastccpd/py.typed"}
    assert package | {"pyproject.toml", "README.md", "LICENSE"} <= names


def test_the_wheel_works_where_there_is_no_checkout(built, tmp_path):
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(tmp_path)
    script = (
        "import fastccpd, fastccpd.kernels, numpy as np;"
        f"assert fastccpd.kernels.__file__.startswith({str(tmp_path)!r}), fastccpd.kernels.__file__;"
        "assert fastccpd.kernels.gram(np.eye(3)).trace() == 3"
    )
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-P", "-c", script], check=True, cwd=tmp_path, env=environment, timeout=300)
