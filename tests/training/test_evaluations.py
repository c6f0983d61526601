"""Evaluation by default: cheap, at the end, on the same episodes; and what it decides."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from muster.training.listener import Silence
from tests.commands import last_json, muster
from tests.training.test_training import small

AUTO: dict[str, Any] = {"evaluation__every": "auto"}


def lines(run: Path) -> list[dict[str, Any]]:
    file = run / "evaluations.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_evaluation_takes_about_a_twentieth_of_the_steps_and_comes_last(tmp_path: Path) -> None:
    small("tests.toys:Guess", tmp_path, stop__iterations=90, **AUTO)
    found = lines(tmp_path / "run")
    steps = [line["steps"] for line in found]
    assert steps[-1] == 7200, "what the run ends with is evaluated"
    assert all(later - earlier >= 2000 for earlier, later in pairwise(steps[:-1]))
    spent = sum(line["episodes"] * line["length_mean"] for line in found[:-1])
    assert 0 < spent <= 0.05 * 7200


def test_a_run_too_short_for_its_episodes_is_not_evaluated(tmp_path: Path) -> None:
    small("tests.toys:Guess", tmp_path, **AUTO)
    assert not lines(tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints" / "best").exists()


def test_a_single_simulator_is_not_joined_by_another(tmp_path: Path) -> None:
    one: dict[str, Any] = {"resources__env_groups": 1, "resources__envs_per_group": 1}
    small("tests.toys:Guess", tmp_path, stop__iterations=20, **one, **AUTO)
    assert not lines(tmp_path / "run")
    assert (tmp_path / "run" / "checkpoints" / "best").exists(), "by training return"


def test_when_to_evaluate_does_not_depend_on_workers_or_a_resume(tmp_path: Path, ray_with_four_cpus: None) -> None:
    settings = {**AUTO, "evaluation__episodes": 4, "algorithm__lr_schedule": "constant"}
    small("tests.toys:Guess", tmp_path, name="one", stop__iterations=45, **settings)
    small("tests.toys:Guess", tmp_path, name="two", stop__iterations=45, resources__workers=2, **settings)
    small("tests.toys:Guess", tmp_path, name="parts", stop__steps=10**9, stop__iterations=21, **settings)
    small("tests.toys:Guess", tmp_path, name="parts", resume=True, stop__iterations=45, **settings)
    one, two, parts = (lines(tmp_path / name) for name in ("one", "two", "parts"))
    assert one == two and len(one) >= 3
    assert [line for line in parts if line["iteration"] != 21][-1] == one[-1]


def test_what_an_evaluation_came_to_is_heard(tmp_path: Path) -> None:
    heard = []

    class Listener(Silence):
        def evaluated(self, iteration: int, result: Any) -> None:
            heard.append((iteration, result.return_mean))

    small("tests.toys:Guess", tmp_path, stop__iterations=20, listener=Listener(), **AUTO)
    assert [line["return_mean"] for line in lines(tmp_path / "run")] == [mean for _, mean in heard]
    assert heard[-1][0] == 20


@pytest.mark.parametrize("baseline", ["random", "tests.measured:constant_price", "tests.measured:Alternating"])
def test_a_policy_is_compared_with_a_rule_in_the_same_episodes(baseline: str, tmp_path: Path) -> None:
    flags = ["--stop-iterations", "1", "--name", "run", "--quiet"]
    assert muster("train", "tests.measured:Metered", *flags, cwd=tmp_path).returncode == 0
    compared = ["evaluate", "run", "--episodes", "5", "--baseline", baseline]
    result = last_json(muster(*compared, "--json", cwd=tmp_path))
    assert result["baseline"]["rule"] == baseline and result["baseline"]["episodes"] == 5
    if baseline == "tests.measured:constant_price":
        assert result["baseline"]["return_mean"] == 10.0
    text = muster(*compared, cwd=tmp_path).stdout
    assert text.splitlines()[1].split() == ["policy", baseline]
    assert f"the policy is better than {baseline} in {result['baseline']['wins']} of 5 episodes" in text


def test_a_policy_is_compared_with_several_rules(tmp_path: Path) -> None:
    flags = ["--stop-iterations", "1", "--name", "run", "--quiet"]
    assert muster("train", "tests.measured:Metered", *flags, cwd=tmp_path).returncode == 0
    rules = ["random", "tests.measured:constant_price"]
    compared = ["evaluate", "run", "--episodes", "12", *(f"--baseline={rule}" for rule in rules)]
    result = last_json(muster(*compared, "--json", cwd=tmp_path))
    assert [one["rule"] for one in result["baselines"]] == rules
    for one in result["baselines"]:
        assert one["difference_mean"] == pytest.approx(result["return_mean"] - one["return_mean"])
        assert 0 <= one["wins"] + one["ties"] <= 12
    text = muster(*compared, cwd=tmp_path).stdout
    assert all(f"the policy is better than {rule} in" in text for rule in rules)
    assert "95 % interval" in text


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        ("rule", "expected random, module:function"),
        ("tests.measured:no_rule", "no class or function 'no_rule'"),
        ("tests.measured:Constant", "its objects cannot be called"),
        ("tests.measured:broken_rule", "KeyError: 'no such valve'"),
        ("tests.measured:one_too_many", "the baseline returned 3, expected an action of Discrete(3)"),
    ],
)
def test_a_rule_that_cannot_act_is_refused(baseline: str, words: str, tmp_path: Path) -> None:
    flags = ["--stop-iterations", "1", "--name", "run", "--quiet"]
    assert muster("train", "tests.measured:Metered", *flags, cwd=tmp_path).returncode == 0
    done = muster("evaluate", "run", "--baseline", baseline, cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr
    assert "apart.py" not in done.stderr
