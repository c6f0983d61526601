"""`[sweep]` in the file: what is accepted, and what is said of all that is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w

from muster.errors import ExperimentError
from muster.experiment import Override, load_experiment

FILE = """
[env]
id = "CartPole-v1"
[sweep]
{settings}
[sweep.parameters]
{parameters}
"""


def load(folder: Path, parameters: str, settings: str = "") -> dict[str, object]:
    path = folder / "exp.toml"
    path.write_text(FILE.format(parameters=parameters, settings=settings))
    section = load_experiment(path).experiment.sweep
    assert section is not None
    return {key: parameter.values for key, parameter in section.parameters.items()}


def test_keys_may_be_quoted_or_not(tmp_path: Path) -> None:
    quoted = load(
        tmp_path, '"algorithm.lr" = { loguniform = [1e-5, 1e-2] }\n"env.config.size" = { grid = [1, 2] }'
    )
    plain = load(tmp_path, "algorithm.lr = { loguniform = [1e-5, 1e-2] }\nenv.config.size = { grid = [1, 2] }")
    assert quoted == plain == {"algorithm.lr": [1e-5, 1e-2], "env.config.size": [1, 2]}


def test_a_parameter_can_be_given_as_a_flag(tmp_path: Path) -> None:
    override = Override("sweep.parameters.algorithm.lr", {"grid": [1e-3, 1e-4]}, "--set")
    section = load_experiment("CartPole-v1", [override]).experiment.sweep
    assert section is not None
    assert section.parameters["algorithm.lr"].grid == [1e-3, 1e-4]


WRONG = [
    ('"algorithm.lrr" = { grid = [1] }', "exp.toml:7: sweep.parameters.algorithm.lrr", "did you mean 'lr'?"),
    ('"modle.hidden" = { grid = [1] }', "an experiment has no key 'modle'", "did you mean 'model'?"),
    ('"algorithm.lr" = { loguniform = [0, 1] }', "expected a low end above 0, got 0", ""),
    ('"algorithm.lr" = { uniform = [2, 1] }', "expected [low, high] with low below high, got [2, 1]", ""),
    ('"algorithm.lr" = { unifrm = [2, 1] }', "expected one of { grid = [...] }", "did you mean 'uniform'?"),
    ('"algorithm.lr" = [1, 2]', "expected one of { grid = [...] }", ""),
    ('"algorithm.lr" = { grid = [] }', "at least 1 item", ""),
    ('"algorithm.lr" = { grid = [1e-3, "fast"] }', "'fast': input should be a valid number", ""),
    ('"algorithm.gamma" = { uniform = [0.9, 1.5] }', "1.5: input should be less than or equal to 1", ""),
    ('"algorithm.num_epochs" = { uniform = [1, 2.5] }', "2.5: input should be a valid integer", ""),
    ('"algorithm.name" = { choice = ["PPO", "QQQ"] }', "no algorithm 'QQQ'", ""),
    ('"name" = { grid = ["a", "b"] }', "sweep.parameters.name: cannot vary over trials", ""),
    ("", "sweep.parameters: nothing varies", "loguniform"),
]


@pytest.mark.parametrize(("parameters", "expected", "hint"), WRONG)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, parameters: str, expected: str, hint: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        load(tmp_path, parameters)
    assert expected in str(caught.value)
    assert hint in str(caught.value)
    assert len(caught.value.problems) == 1


CONFLICTS = [
    (
        "search = 'optuna'\nscheduler = 'pbt'",
        '"algorithm.lr" = { uniform = [0.1, 1] }',
        "'optuna' does not go with",
    ),
    ("search = 'optuna'", '"algorithm.lr" = { grid = [1] }', "use choice instead of grid"),
    ("trials = 4", '"algorithm.lr" = { grid = [1e-3, 1e-4] }', "each point would be tried so often"),
    ("scheduler = 'pbt'\nconcurrent = 2", '"algorithm.lr" = { grid = [1] }', "all trials take turns"),
    ("scheduler = 'pbt'", '"model.hidden" = { grid = [[1]] }', "changes values while a trial trains"),
]


@pytest.mark.parametrize(("settings", "parameters", "expected"), CONFLICTS)
def test_settings_that_exclude_each_other(tmp_path: Path, settings: str, parameters: str, expected: str) -> None:
    with pytest.raises(ExperimentError, match="1 problem") as caught:
        load(tmp_path, parameters, settings)
    assert expected in str(caught.value)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    parameters = (
        '"algorithm.lrr" = { grid = [1] }\n"algorithm.gamma" = { grid = [2, 3] }\nseed = { unifrm = [1, 2] }'
    )
    with pytest.raises(ExperimentError) as caught:
        load(tmp_path, parameters, "trials = -1\nscheduler = 'ashe'")
    places = [problem.place.partition(": ")[2] for problem in caught.value.problems]
    assert sorted(places) == [
        "sweep.parameters.algorithm.gamma",
        "sweep.parameters.algorithm.lrr",
        "sweep.parameters.seed",
        "sweep.scheduler",
        "sweep.trials",
    ]


def test_what_was_given_gives_the_same_experiment(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(FILE.format(parameters="algorithm.gamma = { grid = [0.9] }", settings="concurrent = 2"))
    override = Override("sweep.parameters.algorithm.lr", {"grid": [1e-3, 1e-4]}, "--set")
    loaded = load_experiment(path, [override, Override("env.config", {"gravity": 1}, "--set")])
    given = loaded.given()
    assert set(given) == {"env", "sweep"}
    copy = tmp_path / "copy.toml"
    copy.write_text(tomli_w.dumps(given))
    assert load_experiment(copy).experiment == loaded.experiment
