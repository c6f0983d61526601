"""From file, id and overrides to an experiment, or to all that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.errors import ExperimentError, InputError
from muster.experiment import Override, load_experiment, parse_set
from muster.experiment.schema import PPOSection, TRPOSection

FILE = """
seed = 3

[env]
id = "CartPole-v1"

[algorithm]
name = "trpo"
target_kl = 0.02

[stop]
steps = "1e5"
time = "1h"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "exp.toml"
    path.write_text(FILE)
    return path


def test_an_id_is_an_experiment_with_defaults() -> None:
    loaded = load_experiment("CartPole-v1")
    assert loaded.experiment.env.id == "CartPole-v1"
    assert isinstance(loaded.experiment.algorithm, PPOSection)
    assert loaded.sources["env.id"] == "argument"
    assert loaded.sources["algorithm.lr"] == "default"


def test_a_file_and_overrides_with_their_sources(file: Path) -> None:
    loaded = load_experiment(file, [Override("resources.workers", 2, "--workers"), parse_set("algorithm.lr=1e-2")])
    experiment = loaded.experiment
    assert isinstance(experiment.algorithm, TRPOSection)
    assert (experiment.seed, experiment.algorithm.target_kl, experiment.algorithm.lr) == (3, 0.02, 0.01)
    assert (experiment.stop.steps, experiment.stop.time, experiment.resources.workers) == (100_000, 3600, 2)
    assert loaded.sources["seed"] == f"file {file}"
    assert loaded.sources["resources.workers"] == "--workers"
    assert loaded.sources["algorithm.lr"] == "--set algorithm.lr"
    assert loaded.sources["model.hidden"] == "default"


def test_set_reads_values_as_toml_or_text() -> None:
    assert parse_set("model.hidden=[32, 32]").value == [32, 32]
    assert parse_set("env.id=CartPole-v1").value == "CartPole-v1"
    with pytest.raises(InputError, match="expected KEY=VALUE"):
        parse_set("algorithm.lr")


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        """[env]
id = "CartPol-v1"
max_episode_step = 5

[algorithm]
name = "PPOO"
lr = -1

[resurces]
workers = 2

[stop]
time = "soon"

[model]
activation = "sigmoid"
"""
    )
    with pytest.raises(ExperimentError) as caught:
        load_experiment(path)
    text = str(caught.value)
    for expected in (
        "7 problems",
        "bad.toml:2: env.id: no simulator 'CartPol-v1' is registered with Gymnasium",
        "did you mean CartPole-v1 or",
        "bad.toml:3: env.max_episode_step: [env] has no key 'max_episode_step'",
        "did you mean 'max_episode_steps'?",
        "bad.toml:6: algorithm.name: no algorithm 'PPOO'; expected one of PPO, TRPO",
        "bad.toml:7: algorithm.lr: -1: input should be greater than 0",
        "bad.toml:9: resurces: an experiment has no key 'resurces'",
        "did you mean 'resources'?",
        "bad.toml:13: stop.time: 'soon': expected a duration",
        "bad.toml:16: model.activation: 'sigmoid': input should be 'tanh' or 'relu'",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (Override("resources.workers", "many", "--workers"), "--workers (resources.workers): 'many'"),
        (Override("algorithm.name", "A3C", "--algorithm"), "--algorithm (algorithm.name): no algorithm 'A3C'"),
        (Override("algorithm.clip_parm", 1, "--set algorithm.clip_parm"), "did you mean 'clip_param'"),
        (Override("resources.workers", -1, "--workers"), "-1: input should be greater than or equal to 0"),
    ],
)
def test_a_bad_flag_is_named(override: Override, message: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        load_experiment("CartPole-v1", [override])
    assert message in str(caught.value)


def test_a_key_of_the_other_algorithm_is_refused(file: Path) -> None:
    with pytest.raises(ExperimentError, match=r"\[algorithm\] has no key 'clip_param'"):
        load_experiment(file, [Override("algorithm.clip_param", 0.2, "--set")])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_experiment(tmp_path / "missing.toml")
    (tmp_path / "broken.toml").write_text("[env\n")
    with pytest.raises(InputError, match=r"not valid TOML: .*line 1"):
        load_experiment(tmp_path / "broken.toml")
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(ExperimentError, match="env: is required"):
        load_experiment(tmp_path / "empty.toml")


def test_a_simulator_beside_the_file_is_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "own_env.py").write_text("")
    path = tmp_path / "exp.toml"
    path.write_text('[env]\nid = "own_env.py:Own"\n')
    env = load_experiment(path).experiment.env
    assert env.id == f"{tmp_path / 'own_env.py'}:Own"
    assert str(tmp_path) in env.paths


def test_a_file_that_is_not_there_names_the_one_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("heat.toml", "other.toml"):
        Path(name).write_text('env.id = "CartPole-v1"')
    for target in ("heat.tml", "heat", "haet.toml"):
        expected = rf"^{re.escape(target)}: no such file\n    did you mean heat\.toml\?$"
        with pytest.raises(InputError, match=expected):
            load_experiment(target)
    with pytest.raises(InputError, match=r"exp.tml: no such file\n    there is: heat.toml, other.toml$"):
        load_experiment("exp.tml")
    Path("heat.txt").write_text("")
    with pytest.raises(InputError, match=r"heat.txt: the name of an experiment file ends with .toml"):
        load_experiment("heat.txt")
    assert load_experiment("nosuch").experiment.env.id == "nosuch"  # whether there is one is looked up later


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("lr=1e-3", "did you mean algorithm.lr?"), ("algorithm.hidden=[8]", "did you mean model.hidden?")],
)
def test_a_key_without_its_section_is_found(setting: str, expected: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        load_experiment("CartPole-v1", [parse_set(setting)])
    assert expected in str(caught.value)
