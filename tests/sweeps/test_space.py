"""The values of trials: whole where the key is, in bounds, the same for the same seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from muster.experiment import Experiment
from muster.sweeps.proposals import OptunaProposer
from muster.sweeps.record import Trial
from muster.sweeps.space import Space


def space(**parameters: Any) -> Space:
    named = {key.replace("__", "."): parameter for key, parameter in parameters.items()}
    table = {"env": {"id": "CartPole-v1"}, "sweep": {"parameters": named}}
    return Space.of(Experiment.model_validate(table))


def drawn(parameter: dict[str, Any], key: str) -> list[Any]:
    found = space(**{key: parameter})
    rng = np.random.default_rng(0)
    return [found.draw(key.replace("__", "."), rng) for _ in range(2000)]


@pytest.mark.parametrize(
    ("key", "parameter", "kind"),
    [
        ("algorithm__num_epochs", {"uniform": [2, 5]}, int),
        ("algorithm__minibatch_size", {"loguniform": [1, 5]}, int),
        ("resources__workers", {"uniform": [0, 3]}, int),
        ("stop__steps", {"loguniform": [1000.0, 2000.0]}, int),
        ("env__config__size", {"uniform": [1, 4]}, int),
        ("env__config__size", {"uniform": [1.0, 4]}, float),
        ("algorithm__lr", {"uniform": [1, 2]}, float),
        ("algorithm__lr", {"loguniform": [1e-5, 1e-2]}, float),
    ],
)
def test_drawn_values_have_the_type_of_their_key_and_stay_in_bounds(
    key: str, parameter: dict[str, Any], kind: type
) -> None:
    values = drawn(parameter, key)
    low, high = next(iter(parameter.values()))
    assert {type(value) for value in values} == {kind}
    assert low <= min(values) < max(values) <= high
    if kind is int and high < 10:
        assert set(values) == set(range(int(low), int(high) + 1)), "both ends are in it"


def test_loguniform_gives_each_power_of_ten_the_same_share() -> None:
    powers = [math.floor(math.log10(value)) for value in drawn({"loguniform": [1e-5, 1e-2]}, "algorithm__lr")]
    assert all(600 < powers.count(power) < 733 for power in (-5, -4, -3))


def test_every_point_of_the_grids_comes_with_every_draw() -> None:
    swept = space(
        algorithm__lr={"grid": [1e-3, 1e-4]}, seed={"grid": [1, 2]}, algorithm__gamma={"uniform": [0.9, 1.0]}
    )
    trials = list(swept.random_values(3, seed=0))
    assert len(trials) == 12
    assert {(trial["algorithm.lr"], trial["seed"]) for trial in trials[:4]} == {
        (lr, seed) for lr in (1e-3, 1e-4) for seed in (1, 2)
    }
    assert trials == list(swept.random_values(3, seed=0)) != list(swept.random_values(3, seed=1))
    assert trials == list(swept.random_values(5, seed=0))[:12], "more draws begin with the same ones"


def test_what_is_multiplied_stays_in_bounds() -> None:
    swept = space(algorithm__gamma={"uniform": [0.9, 0.99]}, algorithm__num_epochs={"uniform": [2, 5]})
    assert swept.clip("algorithm.gamma", 0.95 * 1.2) == 0.99
    assert swept.clip("algorithm.num_epochs", 2 * 0.8) == 2
    assert swept.clip("algorithm.num_epochs", 3 * 1.2) == 4


def test_optuna_learns_from_what_it_is_told_and_from_earlier_trials() -> None:
    parameters: dict[str, Any] = {
        "algorithm__lr": {"loguniform": [1e-5, 1e-1]},
        "model__hidden": {"choice": [[32], [64, 64]]},
    }
    proposer = OptunaProposer(space(**parameters), 60, "max", seed=0)
    for number in range(20):
        lr = 10 ** (-5 + 0.2 * number)
        values: dict[str, Any] = {"algorithm.lr": lr, "model.hidden": [32]}
        proposer.tell(Trial(f"trial-{number + 1:03d}", values, "finished", metric=-abs(math.log10(lr) + 2)))
    proposed = []
    for number in range(20, 60):
        values = proposer.propose(number) or {}
        assert values["model.hidden"] in ([32], [64, 64])
        distance = abs(math.log10(values["algorithm.lr"]) + 2)
        proposed.append(distance)
        proposer.tell(Trial(f"trial-{number + 1:03d}", values, "finished", metric=-distance))
    assert proposer.propose(60) is None
    assert float(np.median(proposed[20:])) < 0.5, "random draws would be about 1 away"
