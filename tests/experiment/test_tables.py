"""Nested tables and dotted keys, with keys that have a dot of their own."""

from __future__ import annotations

from pathlib import Path

import tomli_w

from muster.experiment import load_experiment
from muster.experiment.tables import value_at

FILE = """
[env]
id = "CartPole-v1"
config = { weights = { "zone.1" = 1.0, "zone.2" = 2.0 } }

[metrics]
a = "sum"
"a.b" = "mean"
"""


def test_what_was_given_keeps_keys_with_dots(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(FILE)
    loaded = load_experiment(path)
    copy = tmp_path / "copy.toml"
    copy.write_text(tomli_w.dumps(loaded.given()))
    assert load_experiment(copy).experiment == loaded.experiment


def test_a_value_is_found_below_keys_with_dots() -> None:
    table = {"zone": {"2": 2.0}, "zone.1": 1.0, "in.ner": {"most": 3.0}}
    assert [value_at(table, key) for key in ("zone.1", "zone.2", "in.ner.most", "zone.3")] == [1.0, 2.0, 3.0, None]
