"""What is said of names under which no simulator can be found."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from muster.errors import ExperimentError
from muster.simulators.lookup import find_simulator


def test_a_file_named_as_a_loaded_module_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "queue.py"
    path.write_text("class Queue: ...\n")
    with pytest.raises(ExperimentError) as error:
        find_simulator(f"{path}:Queue")
    [problem] = error.value.problems
    assert problem.message == f"a module 'queue' is loaded already, from {queue.__file__}"
    assert problem.hint == "give the file another name"
