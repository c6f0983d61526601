"""The stop rules."""

from __future__ import annotations

from typing import Any

import pytest

from muster.experiment.schema import StopSection
from muster.training.progress import Progress
from muster.training.stopping import fraction_done, nearest_stop, stop_reason, with_default_stop


def rules(**values: Any) -> StopSection:
    return StopSection.model_validate(values)


def progress(returns: list[float] | None = None) -> Progress:
    return Progress(iteration=5, steps=1000, seconds=60.0, returns=returns or [])


def test_whichever_comes_first() -> None:
    assert stop_reason(rules(steps=1001, iterations=6, time="61s"), progress()) is None
    assert stop_reason(rules(steps=1000, iterations=6), progress()) == "1,000 steps reached 1,000"
    assert stop_reason(rules(steps=1001, iterations=5), progress()) == "5 iterations done"
    assert stop_reason(rules(time="1m"), progress()) == "trained for 1m00s"


def test_a_return_counts_over_a_hundred_episodes() -> None:
    assert stop_reason(rules(**{"return": 9}), progress([10.0] * 99)) is None
    assert stop_reason(rules(**{"return": 9}), progress([10.0] * 100)) is not None
    assert stop_reason(rules(**{"return": -5}), progress([-5.5] * 100)) is None


def test_default_rules() -> None:
    assert with_default_stop(rules(), 475.0).return_ == 475
    assert with_default_stop(rules(), None).steps == 1_000_000
    assert with_default_stop(rules(steps=5), 475.0).return_ is None


def test_nearest_stop_and_plan() -> None:
    fraction, text = nearest_stop(rules(steps=2000, iterations=50), progress())
    assert (fraction, text) == (0.5, "1,000 of 2,000 steps")
    assert nearest_stop(rules(**{"return": 10}), progress([5.0] * 100))[0] == pytest.approx(0.5)
    assert nearest_stop(rules(**{"return": -10}), progress([-50.0] * 100))[0] == 0
    assert fraction_done(rules(steps=2000, iterations=6), progress()) == pytest.approx(5 / 6)
    assert fraction_done(rules(time="1h"), progress()) == 0
