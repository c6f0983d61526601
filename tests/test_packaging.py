"""The ranges of versions that a user may install."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
BROKEN = {"tensorboard": ("2.20.0", "its command imports pkg_resources, which newer setuptools do not have")}


@pytest.mark.parametrize("name", BROKEN)
def test_versions_that_are_known_not_to_work_are_not_admitted(name: str) -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    requirements = {found.name: found for found in map(Requirement, project["dependencies"])}
    version, why = BROKEN[name]
    assert version not in requirements[name].specifier, why
