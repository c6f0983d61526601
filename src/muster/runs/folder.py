"""Every path of a run, and how runs are found and made."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from muster.environment_variables import RUNS_DIR_VARIABLE
from muster.files.carried import is_carried
from muster.files.regular import is_folder, is_there

DEFAULT_RUNS_DIR = "runs"
LONGEST_STEM = 80
SHORTEST_WORD = 4
"""A module's first word that is shorter, such as `my`, says nothing of its simulator."""
CODE = "code"
"""In a submitted run's folder: the copy of the project's files."""
ELSEWHERE = "elsewhere.json"
"""In a run's folder here: on which hosts the run itself is."""
_RECORDS = frozenset(
    ("experiment.toml", "sources.json", "versions.json", "status.json", "metrics.csv", "events.jsonl", "lock")
)
"""Files of which any two make a folder a run."""
_CHECKPOINT = re.compile(r"[0-9]{8,18}")


@dataclass(frozen=True)
class RunFolder:
    """The folder that holds all that came of one run."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name, of whatever path: `.` too."""
        return self.path.name if self.path.name not in ("", "..") else self.path.resolve().name

    @property
    def experiment(self) -> Path:
        """The resolved experiment, runnable as it is."""
        return self.path / "experiment.toml"

    @property
    def sources(self) -> Path:
        """Where each value of the experiment came from."""
        return self.path / "sources.json"

    @property
    def versions(self) -> Path:
        """What the run was made with."""
        return self.path / "versions.json"

    @property
    def status(self) -> Path:
        """The run's state, rewritten all the time."""
        return self.path / "status.json"

    @property
    def metrics(self) -> Path:
        """One row an iteration."""
        return self.path / "metrics.csv"

    @property
    def evaluations(self) -> Path:
        """One line an evaluation."""
        return self.path / "evaluations.jsonl"

    @property
    def events(self) -> Path:
        """What happened, with times."""
        return self.path / "events.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the one process that writes here."""
        return self.path / "lock"

    @property
    def tensorboard(self) -> Path:
        """Event files for TensorBoard."""
        return self.path / "tensorboard"

    @property
    def failures(self) -> Path:
        """One file for each failure of the simulator."""
        return self.path / "failures"

    @property
    def evaluated(self) -> Path:
        """The policy that is being evaluated in a process apart."""
        return self.path / ".evaluated"

    @property
    def journals(self) -> Path:
        """What the simulators are asked in this process, while it lives."""
        return self.path / "journals"

    @property
    def simulators(self) -> Path:
        """Folders of the simulators that want one."""
        return self.path / "simulators"

    @property
    def checkpoints(self) -> Path:
        """The saved states, by iteration, and the links `latest` and `best`."""
        return self.path / "checkpoints"

    def exists(self) -> bool:
        """Whether a run was started here: it has two of a run's files, or a checkpoint, whatever else is damaged.

        An experiment file alone does not make a run.
        """
        try:
            # One look at the folder instead of one at each file: that is slow where the folder is on a network.
            with os.scandir(self.path) as entries:
                found = sum(entry.name in _RECORDS for entry in entries)
        except (OSError, ValueError):
            found = sum(is_there(self.path / name) for name in _RECORDS)
        return found > 1 or bool(saved_checkpoints(self.checkpoints))


def runs_dir(given: str | Path | None = None) -> Path:
    """Return the folder of all runs: as given, else from the environment, else `runs`."""
    return Path(given or os.environ.get(RUNS_DIR_VARIABLE) or DEFAULT_RUNS_DIR)


def saved_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, the oldest first, whole or not; none if it cannot be read."""
    try:
        paths = list(folder.iterdir()) if is_folder(folder) else []
    except OSError:
        return []
    return sorted(path for path in paths if _CHECKPOINT.fullmatch(path.name))


def default_name(env_id: str, algorithm: str) -> str:
    """Make a run's name of simulator and algorithm."""
    stem = _stem(env_id)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{stem[-LONGEST_STEM:]}-{algorithm}").strip("-.").lower()


def _stem(env_id: str) -> str:
    """Return the simulator's own name, after its module's where that says something else."""
    source, _, attribute = env_id.rpartition(":")
    name = attribute.rpartition("/")[2]
    if is_carried(env_id):
        return name
    module = source.rpartition("/")[2].removesuffix(".py").rpartition(".")[2]
    first_word = re.split(r"[_-]", module)[0].lower()
    plain_name = _plain(name)
    is_said = _plain(module) in plain_name or (len(first_word) >= SHORTEST_WORD and first_word in plain_name)
    return name if is_said else f"{module}-{name}"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
