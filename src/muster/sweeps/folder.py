"""Every path of a sweep, and how its trials are told to end."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from muster.errors import InputError
from muster.experiment.schema import Experiment
from muster.files.regular import read_bytes
from muster.runs.files import explained, write_json
from muster.runs.finding import claim_folder, newest_name
from muster.runs.folder import RunFolder, default_name, runs_dir
from muster.runs.groups import SWEEP_FILE, SWEEP_RECORD
from muster.training.interruption import Interruption


@dataclass(frozen=True)
class SweepFolder:
    """The folder that holds a sweep: each trial is a run in it, and its name is that of the run's folder."""

    path: Path

    @property
    def experiment(self) -> Path:
        """What was given of the experiment, with its `[sweep]`; not `experiment.toml`: a sweep is not a run."""
        return self.path / SWEEP_FILE

    @property
    def record(self) -> Path:
        """All trials with their values and states."""
        return self.path / SWEEP_RECORD

    @property
    def table(self) -> Path:
        """All trials as a table."""
        return self.path / "trials.csv"

    @property
    def best(self) -> Path:
        """The best trial's experiment, ready to run."""
        return self.path / "best.toml"

    @property
    def lock(self) -> Path:
        """Held by the one process that leads the sweep."""
        return self.path / "lock"

    @property
    def scratch(self) -> Path:
        """Tune's own files, of no use afterwards."""
        return self.path / ".tune"

    def trial(self, name: str) -> RunFolder:
        """Return the run of a trial."""
        return RunFolder(self.path / name)

    def exists(self) -> bool:
        """Whether a sweep was started here."""
        return self.experiment.is_file() and self.record.is_file()

    def interrupt(self, interruption: Interruption) -> None:
        """Tell all trials to save and end."""
        with explained(self._interruption):
            write_json(self._interruption, asdict(interruption))

    def interruption(self) -> Interruption | None:
        """Return why the trials have to end, or None."""
        try:
            return Interruption(**json.loads(read_bytes(self._interruption)))
        except (OSError, ValueError, TypeError):
            return None

    def forget_interruption(self) -> None:
        """Let the trials begin."""
        self._interruption.unlink(missing_ok=True)

    @property
    def _interruption(self) -> Path:
        return self.path / "interruption.json"


def choose_folder(experiment: Experiment, given: str | Path | None, *, resume: bool) -> SweepFolder:
    """Return the folder of the sweep to make or to resume.

    Raises:
        InputError: if the name is taken, and not by a sweep that is to be resumed.
    """
    directory = runs_dir(given).resolve()
    if experiment.name is None:
        base = default_name(experiment.env.id, experiment.algorithm.name) + "-sweep"
        newest = newest_name(base, directory) if resume else None
        return SweepFolder(directory / newest if newest else claim_folder(base, directory))
    folder = SweepFolder(directory / experiment.name)
    if folder.exists() and not resume:
        raise InputError(
            f"{folder.path}: a sweep of that name exists\n"
            "    use --resume to continue it, or another --name to start a new one"
        )
    if not folder.exists() and folder.path.is_dir() and any(folder.path.glob("**/experiment.toml")):
        raise InputError(f"{folder.path}: holds runs already, but no sweep\n    take another --name")
    return folder
