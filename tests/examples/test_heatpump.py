"""The house with a heat pump: physics, rules, and that an agent learns."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.commands import ROOT, last_json, muster

HEATPUMP = ROOT / "examples" / "heatpump"


@pytest.fixture(scope="module")
def heatpump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, trained for a moment."""
    folder = tmp_path_factory.mktemp("heatpump")
    for name in ("heatpump.py", "heatpump.toml"):
        shutil.copy(HEATPUMP / name, folder)
    done = muster("train", "heatpump.toml", "--stop-steps", "40k", "--workers", "0", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_house_learns_to_heat(heatpump: Path) -> None:
    arguments = ("evaluate", "heatpump", "--episodes", "5", "--baseline", "random", "--json")
    result = last_json(muster(*arguments, cwd=heatpump))
    assert result["return_mean"] > result["baseline"]["return_mean"] / 4
    assert set(result["metrics"]) == {"cost", "discomfort", "electricity"}


def test_the_rules_keep_the_house_warm_and_the_one_that_knows_prices_is_cheaper() -> None:
    house = runpy.run_path(str(HEATPUMP / "heatpump.py"))
    costs = {}
    for name in ("rule", "price_rule"):
        env = house["HeatPump"]()
        observation, _ = env.reset(seed=3)
        cost = discomfort = 0.0
        truncated = False
        while not truncated:
            observation, reward, terminated, truncated, info = env.step(house[name](observation))
            assert not terminated
            assert reward == -(info["cost"] + house["DISCOMFORT"] * info["discomfort"])
            cost, discomfort = cost + info["cost"], discomfort + info["discomfort"]
        costs[name] = cost
        assert discomfort / 168 < 0.1
    assert costs["price_rule"] < costs["rule"]


def test_heat_is_neither_made_nor_lost() -> None:
    """What the heat pump gives, less what the house loses, is what room and floor have gained."""
    house = runpy.run_path(str(HEATPUMP / "heatpump.py"))
    env = house["HeatPump"]()
    env.reset(seed=0)
    env.outdoor[:] = env.air
    env.floor = env.air
    env.step(0)
    assert np.isclose([env.air, env.floor], env.outdoor[0]).all()
    before = house["AIR"] * env.air + house["FLOOR"] * env.floor
    env.step(5)
    gained = house["AIR"] * env.air + house["FLOOR"] * env.floor - before
    assert 2.5 < gained < 2.5 * 10


def test_the_readme_says_what_the_example_has(heatpump: Path) -> None:
    readme = (HEATPUMP / "README.md").read_text()
    assert len(readme.splitlines()) <= 40
    status = json.loads((heatpump / "runs" / "heatpump" / "status.json").read_text())
    assert status["state"] == "finished"
    for name in ("rule", "price_rule"):
        assert f"heatpump.py:{name}" in readme
