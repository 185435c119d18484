"""The files that a stranger looks for: they parse, agree with each other, and speak of what is there."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PAGES = ["CONTRIBUTING.md", "SECURITY.md", "docs/release.md"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def parsed(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_workflow_runs_the_ci_script_and_nothing_else(path):
    workflow = parsed(path)
    # YAML 1.1 reads the key "on" as True.
    assert {"pull_request", "push"} <= set(workflow[True])
    assert [step["run"] for step in steps(workflow) if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci" / "run").is_file()
    assert os.access(ROOT / ".ci" / "run", os.X_OK) or os.name == "nt"


def test_the_workflow_names_every_platform_and_python():
    matrix = parsed(".github/workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    names = " ".join(machine["name"] for machine in matrix["machine"])
    for word in ("Linux", "macOS", "Windows", "x86", "ARM"):
        assert word in names
    assert all({"name", "runner"} == set(machine) for machine in matrix["machine"])
    assert matrix["python"] == PYTHONS


def test_classifiers_and_the_least_python_are_those_of_the_workflow():
    project = PROJECT["project"]
    prefix = "Programming Language :: Python :: 3."
    named = [name.removeprefix(prefix) for name in project["classifiers"] if name.startswith(prefix)]
    assert [f"3.{minor}" for minor in named] == PYTHONS
    assert project["requires-python"] == f">={PYTHONS[0]}"
    assert PROJECT["tool"]["pyright"]["pythonVersion"] == PYTHONS[0]
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + PYTHONS[0].replace(".", "")


def test_the_citation_is_that_of_this_version_and_of_the_paper_in_the_readme():
    citation, project = parsed("CITATION.cff"), PROJECT["project"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert citation["repository-code"] == project["urls"]["Homepage"]
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    (paper,) = citation["references"]
    assert paper["title"] in readme
    authors = [author["family-names"] for author in paper["authors"]]
    assert f"{', '.join(authors[:-1])} and {authors[-1]}" in readme


def test_the_changelog_has_a_part_for_what_comes_and_one_for_this_version():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    heads = [line for line in lines if line.startswith("## ")]
    assert heads[0] == "## Unreleased"
    assert heads[1].startswith(f"## {PROJECT['project']['version']} (")


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_to_files_that_are_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]
    assert targets or page == "docs/release.md"
    missing = [target for target in targets if not ((ROOT / page).parent / target.split("#")[0]).exists()]
    assert missing == []


def test_contributing_knows_every_room_of_the_package():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = [path for path in (ROOT / "fastccpd").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    named = [path for path in rooms if not path.name.startswith("__")]
    assert [path.name for path in named if f"(fastccpd/{path.name})" not in text] == []


def test_hooks_before_a_commit_come_from_wheels_alone():
    config = parsed(".pre-commit-config.yaml")
    assert {repository["repo"] for repository in config["repos"]} == {"local"}
    hooks = {hook["id"]: hook for repository in config["repos"] for hook in repository["hooks"]}
    assert {"ruff-check", "ruff-format", "end-of-file-fixer"} <= set(hooks)
    assert all(hook["language"] == "python" and hook["additional_dependencies"] for hook in hooks.values())


def test_the_oldest_versions_that_are_tested_are_the_least_that_are_allowed():
    command = [sys.executable, str(ROOT / ".ci" / "oldest")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if sys.version_info[:2] != (3, 11):
        assert done.returncode == 1
        assert "Python 3.11" in done.stderr
        return
    pinned = dict(line.split("==") for line in done.stdout.splitlines())
    assert {"numpy", "scipy", "numba", "rasterio", "matplotlib"} <= set(pinned)
    for name in ("numpy", "scipy", "numba"):
        assert f"{name}>={pinned[name]}" in PROJECT["project"]["dependencies"]


@pytest.mark.parametrize(("ci", "verdict"), [("true", "1 failed"), ("", "1 skipped")])
def test_a_browser_that_is_not_there_is_a_failure_where_ci_is_true(ci, verdict):
    test = f"{ROOT / 'tests/report/test_report.py'}::test_a_page_with_an_error_and_an_outside_picture_is_noticed"
    environment = {**os.environ, "CI": ci, "PATH": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert verdict in done.stdout, done.stdout + done.stderr
