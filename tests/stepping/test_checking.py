"""What `muster check` finds in good and bad simulators."""

from __future__ import annotations

import re

import pytest

from muster.simulators.simulator import Simulator
from muster.simulators.verdict import Verdict
from muster.stepping.checking import Planned, check_simulator
from muster.stepping.findings import Finding
from muster.stepping.rules import Rules
from tests import toys


def problems(name: str, **config: object) -> str:
    findings = check_simulator(Simulator(f"tests.toys:{name}", dict(config)), Rules())
    return " | ".join(finding.message for finding in findings if finding.verdict is Verdict.PROBLEM)


def warnings(name: str) -> dict[str, str]:
    findings = check_simulator(Simulator(f"tests.toys:{name}"), Rules())
    return {finding.subject: finding.message for finding in findings if finding.verdict is Verdict.WARNING}


def test_a_good_simulator_passes() -> None:
    findings = check_simulator(Simulator("CartPole-v1"), Rules())
    subjects = {finding.subject for finding in findings if finding.verdict is Verdict.OK}
    assert subjects == {
        "observations",
        "actions",
        "interface",
        "speed",
        "episodes",
        "repeats",
        "pickles",
        "build",
        "rewards",
    }


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "the pump broke"),
        ("reward", "reward is nan"),
        ("outside", "outside"),
        ("reset", "no reset today"),
    ],
)
def test_failures_are_found(how: str, message: str) -> None:
    toys.Failing.built = 0
    assert message in problems("Failing", how=how)


def test_nan_spaces_and_constructors_are_found() -> None:
    assert "observation is not finite" in problems("Drifting")
    assert "not supported" in problems("TextObservations")
    assert "licence server not reachable" in problems("BrokenConstructor")


def test_what_cannot_repeat_or_pickle_is_a_warning() -> None:
    assert "different episodes" in warnings("GlobalRandomness")["repeats"]
    assert "does not pickle" in warnings("Unpicklable")["pickles"]


def test_observations_of_parts_are_checked_like_any_others() -> None:
    findings = check_simulator(Simulator("tests.toys:Parts"), Rules())
    assert {"repeats", "pickles"} <= {finding.subject for finding in findings}
    assert not [finding for finding in findings if finding.verdict is Verdict.PROBLEM]


def finding(subject: str, simulator: Simulator, planned: Planned | None = None, *images: int) -> Finding:
    found = check_simulator(simulator, Rules(image_dimensions=images), planned)
    [only] = [finding for finding in found if finding.subject == subject]
    return only


def test_what_building_takes_is_measured_and_multiplied() -> None:
    simulator = Simulator("tests.toys:Large", {"seconds": 0.2, "mebibytes": 30})
    cost = finding("build", simulator, Planned(4, 2, 1024**4))
    assert cost.verdict is Verdict.OK
    each, total = cost.message.splitlines()
    assert re.fullmatch(r"a simulator takes 0.\d s and 30 MiB; the first 0.\d s with imports", each)
    assert re.fullmatch(r"8 simulators: \d.\d s one after another, 24\d MiB", total)
    short = finding("build", simulator, Planned(4, 2, 100 * 1024**2))
    assert short.verdict is Verdict.WARNING and "this host has 100 MiB" in short.hint


@pytest.mark.parametrize(
    ("mode", "seeding"), [("Disabled", "each episode has its own seed"), ("SameStep", "first episodes have seeds")]
)
def test_a_batch_is_recognised(mode: str, seeding: str) -> None:
    simulator = Simulator("tests.batches:sync", {"of": "Large", "mode": mode, "mebibytes": 10})
    batch = finding("batch", simulator, Planned(3, 4))
    assert batch.message.startswith(f"4 simulators step as one (SyncVectorEnv); {seeding}")
    cost = finding("build", simulator, Planned(3, 4)).message
    assert cost.startswith("a batch of 4 takes") and "and 40 MiB" in cost
    assert "\n3 batches:" in cost


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((8, 9), "observation: 8 x 9 pixels"),
        ((8, 9, 3), "observation: 8 x 9 pixels; 3 channels, which come last"),
        ((4, 8, 9), "observation: 8 x 9 pixels; 4 channels or stacked frames, which come first"),
    ],
)
def test_images_are_recognised(shape: tuple[int, ...], text: str) -> None:
    simulator = Simulator("tests.toys:Canvas", {"shape": shape})
    assert finding("images", simulator, None, 2, 3).message == text


def test_what_random_actions_show_is_said() -> None:
    found = {
        (finding.subject, finding.message)
        for finding in check_simulator(Simulator("tests.measured:Constant"), Rules())
    }
    messages = "\n".join(message for _, message in found)
    assert "every one of 60 random steps had the reward 2" in messages
    assert "entries 0 (0.5), 2 (1) never changed in random episodes" in messages
    assert "float64, though the space says float32: trained on as float32" in messages
    assert "entry 2 is 1.00000095 to 1.00000095, its space says 0 to 1: training lets it pass" in messages
    assert "action_mask: 67 % of the choices allowed, on average" in messages
    assert ("info", "[metrics] can record: cost (3)") in found
    assert ("interface", "Gymnasium's checker finds nothing") in found
    assert any("3 random episodes of 20 steps, return 40" in message for _, message in found)


def test_rewards_that_differ_and_numbers_in_info_are_listed_with_their_range() -> None:
    found = {
        finding.subject: finding.message
        for finding in check_simulator(Simulator("tests.measured:Metered"), Rules())
    }
    assert found["rewards"] == "0 to 1 a step"
    assert found["info"].startswith(
        "[metrics] can record: cost (0 to 2), plant.price (1), steps (1 to 10), told (0)"
    )


@pytest.mark.parametrize("truncates", [False, True])
def test_a_time_limit_that_looks_like_an_end_is_pointed_out(truncates: bool) -> None:
    findings = check_simulator(Simulator("tests.toys:Guess", {"length": 30, "truncates": truncates}), Rules())
    [episodes] = [finding for finding in findings if finding.subject == "episodes"]
    assert ("if that is a time limit, return `truncated`" in episodes.message) is not truncates
