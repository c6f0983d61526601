"""What `muster check` finds in good and bad simulators."""

from __future__ import annotations

import pytest

from muster.simulators.building import Simulator
from muster.simulators.checking import check_simulator
from muster.simulators.verdict import Verdict
from tests import toys


def problems(name: str, **config: object) -> str:
    findings = check_simulator(Simulator(f"tests.toys:{name}", dict(config)))
    return " | ".join(finding.message for finding in findings if finding.verdict is Verdict.PROBLEM)


def warnings(name: str) -> dict[str, str]:
    findings = check_simulator(Simulator(f"tests.toys:{name}"))
    return {finding.subject: finding.message for finding in findings if finding.verdict is Verdict.WARNING}


def test_a_good_simulator_passes() -> None:
    findings = check_simulator(Simulator("CartPole-v1"))
    subjects = {finding.subject for finding in findings if finding.verdict is Verdict.OK}
    assert subjects == {"observations", "actions", "interface", "speed", "episodes", "repeats", "pickles"}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "the pump broke"),
        ("reward", "the reward can be nan"),
        ("outside", "outside"),
        ("reset", "no reset today"),
    ],
)
def test_failures_are_found(how: str, message: str) -> None:
    toys.Failing.built = 0
    assert message in problems("Failing", how=how)


def test_nan_spaces_and_constructors_are_found() -> None:
    assert "an observation can hold NaN" in problems("Drifting")
    assert "not supported" in problems("TextObservations")
    assert "licence server not reachable" in problems("BrokenConstructor")


def test_what_cannot_repeat_or_pickle_is_a_warning() -> None:
    assert "different episodes" in warnings("GlobalRandomness")["repeats"]
    assert "does not pickle" in warnings("Unpicklable")["pickles"]


def test_observations_of_parts_are_checked_like_any_others() -> None:
    findings = check_simulator(Simulator("tests.toys:Parts"))
    assert {"repeats", "pickles"} <= {finding.subject for finding in findings}
    assert not [finding for finding in findings if finding.verdict is Verdict.PROBLEM]
