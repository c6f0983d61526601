"""Numbers of `info` and a schedule of the configuration with RLlib, in this process and with env runners."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.runs.metrics import read_metrics
from tests.engines.rllib.runs import small


@pytest.mark.parametrize(("workers", "method"), [(0, None), pytest.param(1, "set_price", marks=pytest.mark.long)])
def test_own_metrics_and_a_schedule(
    workers: int, method: str | None, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    small(
        "tests.measured:Metered",
        tmp_path,
        name="run",
        metrics={"cost": "sum", "plant.price": "last", "steps": "last"},
        env__config={"price": 1.0},
        env__schedule={"price": [{"value": 3.0, "steps": 100}]},
        env__schedule_method=method,
        resources__workers=workers,
        stop__iterations=8,
    )
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert {float(row["metrics/steps"]) for row in rows if row["metrics/steps"]} == {10.0}
    assert rows[0]["schedule/price"] == "1.0" and rows[-1]["schedule/price"] == "3.0"
    assert float(rows[-1]["metrics/plant.price"]) > 1.5
