"""Experiments as text: what is written reads back the same, and documents are in step."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from muster.experiment import load_experiment, parse_set
from muster.experiment.schema import ALGORITHMS, Experiment
from muster.experiment.writing import experiment_toml, json_schema, reference, starting_file

ROOT = Path(__file__).parents[2]


def test_a_resolved_file_reads_back_the_same(tmp_path: Path) -> None:
    settings = ["algorithm.name=TRPO", "env.config.gravity=3.5", "stop.return=12", "model.hidden=[8]"]
    experiment = load_experiment("CartPole-v1", [parse_set(setting) for setting in settings]).experiment
    path = tmp_path / "experiment.toml"
    path.write_text(experiment_toml(experiment))
    again = load_experiment(path).experiment
    assert again.model_copy(update={"env": experiment.env}) == experiment
    assert again.env.config == {"gravity": 3.5}


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_the_starting_file_is_valid_as_it_is_and_uncommented(algorithm: str) -> None:
    text = starting_file("Acrobot-v1", algorithm)
    assert Experiment.model_validate(tomllib.loads(text)).env.id == "Acrobot-v1"
    uncommented = "\n".join(line.removeprefix("# ") for line in text.splitlines()[3:])
    table = tomllib.loads(uncommented)
    experiment = Experiment.model_validate(table)
    assert experiment.algorithm.name == algorithm
    assert set(table) == set(Experiment.model_fields)


def test_the_schema_knows_every_section() -> None:
    properties = json.loads(json_schema())["properties"]
    assert set(properties) == set(Experiment.model_fields)


def test_the_reference_page_is_in_step() -> None:
    assert (ROOT / "docs" / "experiment.md").read_text() == reference(), "run: make docs"
