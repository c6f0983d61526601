"""Recorded environments of schedulers, launchers and kinds of sites give the right allocation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.recordings import FOLDER, load, sources, summarise


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.toml")))
def test_the_allocation_of_a_recorded_environment(name: str, tmp_path: Path) -> None:
    recording = load(name, tmp_path)
    allocation = recording.read()
    expected_sources = recording.expected.pop("sources", {})
    assert summarise(allocation) == recording.expected
    assert sources(allocation).items() >= expected_sources.items()
    assert allocation.in_step == ("rank" in recording.expected)
    assert allocation.doubts == ()
