"""The ranges of versions that a user may install."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from muster.extras import how_to_install

ROOT = Path(__file__).parents[1]
PYPROJECT = ROOT / "pyproject.toml"
BROKEN = {"tensorboard": ("2.20.0", "its command imports pkg_resources, which newer setuptools do not have")}


@pytest.mark.parametrize("name", BROKEN)
def test_versions_that_are_known_not_to_work_are_not_admitted(name: str) -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    requirements = {found.name: found for found in map(Requirement, project["dependencies"])}
    version, why = BROKEN[name]
    assert version not in requirements[name].specifier, why


def test_one_place_says_how_an_extra_is_installed_and_nothing_names_a_package_that_is_not_published() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    for extra in extras:
        assert f"pip install '.[{extra}]'" in how_to_install(extra)
    assert "CPU build of torch" in how_to_install("rllib")
    assert "torch" not in how_to_install("video")
    source = {path.name for path in (ROOT / "src").rglob("*.py") if "pip install '." in path.read_text()}
    assert source == {"extras.py"}
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    files = [*pages, *(ROOT / "src").rglob("*.py")]
    assert [path for path in files if "pip install 'muster-rl" in path.read_text()] == []
