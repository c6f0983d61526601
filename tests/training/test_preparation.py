"""How many workers there are if the user does not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.engines.engine import Plan
from muster.experiment import load_experiment
from muster.experiment.loading import Override
from muster.runs.folder import RunFolder
from muster.training import preparation
from muster.training.listener import Silence
from muster.training.preparation import prepare


def plan_for(target: str, folder: Path, **changes: Any) -> Plan:
    overrides = [Override(f"resources.{key}", value, "a test") for key, value in changes.items()]
    return prepare(load_experiment(target, overrides), RunFolder(folder), Silence(), resumes=False).plan


@pytest.fixture(autouse=True)
def three_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "usable_cpus", lambda: 3)


def test_a_fast_simulator_is_stepped_in_this_process(tmp_path: Path) -> None:
    assert plan_for("tests.toys:Guess", tmp_path).num_workers == 0


def test_a_slow_simulator_gets_a_worker_for_each_cpu(tmp_path: Path) -> None:
    assert plan_for("tests.toys:Slow", tmp_path).num_workers == 3


def test_overlap_gets_workers_for_a_fast_simulator_too_and_leaves_a_cpu_to_the_learner(tmp_path: Path) -> None:
    assert plan_for("tests.toys:Guess", tmp_path, overlap=True).num_workers == 2
    assert plan_for("tests.toys:Slow", tmp_path, overlap=True).num_workers == 3


def test_there_are_no_more_groups_than_were_asked_for(tmp_path: Path) -> None:
    plan = plan_for("tests.toys:Slow", tmp_path, env_groups=2)
    assert plan.num_workers == 2
    assert plan.loaded.experiment.resources.env_groups == 2


def test_a_launch_leaves_one_cpu_to_the_learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_LAUNCH_CPUS", "8")
    assert plan_for("tests.toys:Guess", tmp_path).num_workers == 7


@pytest.mark.parametrize(("cpus", "workers"), [(1, 6), (2, 3), (4, 1), (9, 1)])
def test_a_simulator_that_uses_several_cpus_gets_fewer_workers(
    cpus: int, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "usable_cpus", lambda: 6)
    experiment = load_experiment("tests.toys:Slow", [Override("env.cpus", cpus, "a test")])
    plan = prepare(experiment, RunFolder(tmp_path), Silence(), resumes=False).plan
    assert plan.num_workers == workers
    assert plan.needs is not None and plan.needs.cpus == workers * cpus
