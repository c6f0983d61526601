"""How long a run will still take, as told from its last iterations."""

from __future__ import annotations

import pytest

from muster.experiment.schema import StopSection
from muster.training.progress import Progress
from muster.training.stopping import TimeLeft


def test_iterations_that_only_fill_a_buffer_tell_nothing_of_those_that_learn() -> None:
    left = TimeLeft(StopSection(steps=10_000))
    for k in range(1, 11):
        left.add(Progress(steps=100 * k, seconds=0.01 * k), has_learned=False)
    assert left.seconds() is None
    for k in range(1, 6):
        left.add(Progress(steps=1000 + 100 * k, seconds=0.1 + k), has_learned=True)
    assert left.seconds() == pytest.approx(85, rel=0.01), "8,500 steps at 100 a second"


def test_there_is_no_time_left_to_tell_without_a_countable_stop() -> None:
    left = TimeLeft(StopSection.model_validate({"return": 10.0}))
    for k in range(1, 20):
        left.add(Progress(steps=100 * k, seconds=k), has_learned=True)
    assert left.seconds() is None
