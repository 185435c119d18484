"""A folder is a floor: imports point down only."""

import ast
import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
# From the ground up; rooms of one floor may use each other only where BESIDE says so.
FLOORS = [
    ["kernels"],
    ["blas", "machine"],
    ["threads"],
    ["model"],
    ["formats"],
    ["solver"],
    ["imaging"],
    ["estimation"],
    ["workers"],
    ["methods"],
    ["fusion"],
    ["api"],
    ["tiles"],
    ["rows"],
    ["adapters", "rasters", "testing"],
    ["xarray"],
    ["plots", "report", "experiments", "dashboard", "cli"],
]
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
BESIDE = {
    ("report", "plots"),
    ("experiments", "plots"),
    ("cli", "plots"),
    ("cli", "report"),
    ("cli", "experiments"),
    ("cli", "dashboard"),
    ("dashboard", "experiments"),
    ("dashboard", "report"),
}


def floor_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if parts[0] == "kernels" else parts[1]


def imported_floors(path):
    """The floors that a module imports, by its relative imports and by name."""
    inside = path.relative_to(ROOT).parts
    package = ("fastccpd", *inside[:-1]) if inside[0] == "kernels" else inside[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            target = (*base, *(node.module.split(".") if node.module else ()))
            if target[:1] == ("fastccpd",):
                yield from [target[1]] if len(target) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (n.name.split(".")[1] for n in node.names if n.name.startswith("fastccpd."))


def relative_imports(path):
    """The modules that a module imports relative to itself."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level}


def test_imports_point_down_only():
    files = [*ROOT.glob("kernels/*.py"), *ROOT.glob("fastccpd/**/*.py")]
    files = [path for path in files if path.name not in ("__main__.py",) and path != ROOT / "fastccpd/__init__.py"]
    assert len(files) > 20
    for path in files:
        own = floor_of(path)
        for room in imported_floors(path):
            allowed = room == own or LEVEL[room] < LEVEL[own] or (own, room) in BESIDE
            assert allowed, f"{path.relative_to(ROOT)} imports {room}, which does not lie below it"


def test_what_is_private_stays_in_its_room():
    for path in [*ROOT.glob("kernels/*.py"), *ROOT.glob("fastccpd/**/*.py")]:
        own = floor_of(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                private = [name for name in names if name.startswith("_") and not name.startswith("__")]
                # One dot is this folder, and each further one the folder above.
                inside = len(path.relative_to(ROOT).parts) - (own != "kernels")
                assert not private or 0 < node.level < inside, f"{path.relative_to(ROOT)} imports {private}"


def test_the_solver_knows_no_tensors():
    """Of the kernels it uses those of vectors alone, which know no tensors either."""
    for name in ("trust_region.py", "dogleg.py", "pcg.py", "walk.py"):
        modules = relative_imports(ROOT / "fastccpd/solver" / name)
        assert {module for module in modules if module.startswith("kernels")} == {"kernels.vectors"}
    assert relative_imports(ROOT / "kernels/vectors.py") == {"jit", "lanes", "sharing", "team", "views"}


def test_kernels_need_numpy_and_numba_only():
    for path in ROOT.glob("kernels/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [n.name for n in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not any(n.startswith(("scipy", "fastccpd")) for n in names), path


def test_nothing_but_the_kernels_of_the_checkout_s_root_is_part_of_the_package():
    for name in ("tests", "asv_bench", "fastccpd", "docs", "setup"):
        assert importlib.util.find_spec(f"fastccpd.{name}") is None, name
    assert importlib.util.find_spec("fastccpd.kernels") is not None
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} == {"fastccpd", "kernels"}
