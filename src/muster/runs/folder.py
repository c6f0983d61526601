"""Every path of a run, and how runs are found and made."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from muster.errors import InputError

RUNS_DIR_VARIABLE = "MUSTER_RUNS_DIR"
DEFAULT_RUNS_DIR = "runs"


@dataclass(frozen=True)
class RunFolder:
    """The folder that holds all that came of one run."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

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
    def checkpoints(self) -> Path:
        """The saved states, by iteration, and the links `latest` and `best`."""
        return self.path / "checkpoints"

    def exists(self) -> bool:
        """Whether a run was started here."""
        return self.experiment.is_file()


def runs_dir(given: str | Path | None = None) -> Path:
    """Return the folder of all runs: as given, else from the environment, else `runs`."""
    return Path(given or os.environ.get(RUNS_DIR_VARIABLE) or DEFAULT_RUNS_DIR)


def find_run(run: str | Path, directory: Path) -> RunFolder:
    """Find a run by its name or its folder; also by a path inside its folder.

    Raises:
        InputError: naming the runs there are.
    """
    for path in (Path(run), directory / run):
        for folder in (path, *path.parents[:2]):
            if RunFolder(folder).exists():
                return RunFolder(folder)
    names = ", ".join(folder.name for folder in list_runs(directory)[:8]) or "none"
    raise InputError(f"no run {str(run)!r} in {directory}\n    runs there: {names}")


def list_runs(directory: Path) -> list[RunFolder]:
    """Return the runs of a folder, those of several seeds one by one, the newest first."""
    files = [*directory.glob("*/experiment.toml"), *directory.glob("*/*/experiment.toml")]
    found = [RunFolder(file.parent) for file in files]
    return sorted(found, key=lambda folder: folder.experiment.stat().st_mtime, reverse=True)


def default_name(env_id: str, algorithm: str) -> str:
    """Make a run's name of simulator and algorithm."""
    stem = re.sub(r"\.py:", "-", env_id.rsplit("/", 1)[-1])
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{stem}-{algorithm}").strip("-.").lower()


def numbered(directory: Path, base: str) -> list[Path]:
    """Return the folders named `base`, `base-2`, `base-3` ... that exist, in that order."""
    pattern = re.compile(rf"{re.escape(base)}(?:-(\d+))?")
    matches = ((pattern.fullmatch(path.name), path) for path in directory.glob(f"{base}*"))
    return [path for _, path in sorted((int(match[1] or 1), path) for match, path in matches if match)]
