"""What is built holds what it should."""

import os
import re
import shutil
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
    for name in ("fastccpd", "kernels"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def package_files():
    """Every file of both folders, by its place in the package."""
    found = {path: path.relative_to(ROOT).as_posix() for path in ROOT.glob("fastccpd/**/*")}
    found |= {path: f"fastccpd/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("kernels/**/*")}
    return {name for path, name in found.items() if path.is_file() and "__pycache__" not in path.parts}


def test_the_wheel_holds_every_file_of_both_folders_and_nothing_else(built):
    assert {"fastccpd/py.typed", "fastccpd/kernels/fastccpd.h", "fastccpd/dashboard/page.css"} <= package_files()
    with zipfile.ZipFile(built[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        assert names == package_files()
        assert sum(info.file_size for info in wheel.infolist()) < 2_200_000
    assert built[0].stat().st_size < 900_000


def test_twine_finds_nothing_wrong_with_what_would_be_uploaded(built):
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_the_long_description_is_the_readme_with_links_that_work_elsewhere(built):
    with zipfile.ZipFile(built[0]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        described = wheel.read(name).decode("utf-8").partition("\n\n")[2]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert described.splitlines()[0] == "# fastccpd"
    targets, there = (re.findall(r"\]\(([^)]+)\)", text) for text in (described, readme))
    assert len(targets) == len(there) > 20
    for target, path in zip(targets, there, strict=True):
        assert target.startswith("https://github.com/fastccpd/fastccpd/")
        assert target.endswith(f"/main/{path}")
    assert "(https://github.com/fastccpd/fastccpd/raw/main/docs/result.png)" in described


def test_the_sdist_holds_both_folders(built):
    with tarfile.open(built[1]) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    package = {"kernels/mttkrp.py", "fastccpd/api.py", "fastccpd/py.typed", "setup.py"}
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


IMPORTING = """
import sys, time
from pathlib import Path

known, began = set(sys.modules), time.process_time()
import fastccpd

ours, new = time.process_time() - began, set(sys.modules) - known
began = time.process_time()
import numba

outside = sorted(name for name in new if name.partition(".")[0] not in {*sys.stdlib_module_names, "fastccpd"})
print(outside, sorted(name for name in new if name.startswith("fastccpd")), ours / (time.process_time() - began))
"""


def test_importing_the_package_loads_nothing_else_and_takes_a_fraction_of_numba():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", IMPORTING]
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=120)
    outside, own, fraction = re.fullmatch(r"(\[.*?\]) (\[.*?\]) (\S+)\n", done.stdout).groups()
    assert (outside, own) == ("[]", "['fastccpd']")
    assert float(fraction) < 0.1


def test_fusing_loads_nothing_beside_what_is_always_needed():
    # Numba itself looks for packages of others, such as coverage: they are not ours to count.
    script = (
        "import sys, numba, numpy, scipy.linalg, scipy.sparse, scipy.ndimage; known = set(sys.modules);"
        "import fastccpd; fastccpd.fuse, fastccpd.kernels.mttkrp_all;"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - known} - set(sys.stdlib_module_names))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=120)
    found = {root for root in done.stdout.split() if not root.startswith("_")}
    assert found <= {"fastccpd", "numba", "numpy", "scipy", "llvmlite", "cython_runtime"}
    assert "fastccpd" in found
