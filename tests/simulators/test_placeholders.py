"""What tells the simulators of one run apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muster import train
from muster.simulators.placeholders import filled_in
from muster.training import TrainOptions
from tests.toys import Guess


class Placed(Guess):
    """Leaves its port in its folder."""

    def __init__(self, port: int, folder: str) -> None:
        super().__init__()
        (Path(folder) / "port").write_text(str(port))


def test_numbers_and_folders_are_filled_in(tmp_path: Path) -> None:
    config = {
        "port": "9000 + {index}",
        "number": "{index}",
        "deep": [{"name": "case-{index}", "work": "{folder}/out"}],
        "other": "{x}",
        "size": 4,
    }
    folder = tmp_path / "0003"
    assert filled_in(config, 3, folder) == {
        "port": 9003,
        "number": 3,
        "deep": [{"name": "case-3", "work": f"{folder}/out"}],
        "other": "{x}",
        "size": 4,
    }
    assert folder.is_dir()


def test_every_simulator_of_a_run_has_its_own(tmp_path: Path) -> None:
    overrides: dict[str, Any] = {
        "name": "run",
        "env.config": {"port": "9000 + {index}", "folder": "{folder}"},
        "resources.workers": 0,
        "resources.env_groups": 2,
        "resources.envs_per_group": 2,
        "evaluation.every": 1,
        "evaluation.episodes": 1,
        "stop.iterations": 1,
    }
    train(f"{__name__}:Placed", overrides=overrides, options=TrainOptions(runs_dir=tmp_path))
    ports = {path.parent.name: path.read_text() for path in (tmp_path / "run/simulators").glob("*/port")}
    assert ports == {f"{k:04d}": str(9000 + k) for k in range(5)}
