"""Where a run is made or resumed, and which weights it starts from."""

from __future__ import annotations

import os
from pathlib import Path

from muster.errors import InputError
from muster.experiment import Experiment
from muster.files.ownership import OWN_FOLDER
from muster.runs.checkpoints import Checkpoints
from muster.runs.finding import claim_folder, find_checkpoint, newest_name, require_own_run, unwritable
from muster.runs.folder import RunFolder, default_name, runs_dir
from muster.runs.groups import find_group
from muster.training.call import TrainOptions
from muster.training.listener import Listener


def choose_folder(experiment: Experiment, options: TrainOptions) -> RunFolder:
    """Return the folder of the run to make or to resume; one that has no name given is made at once.

    Raises:
        InputError: if a run of the given name exists and is not to be resumed, or it is the name of several.
    """
    directory = runs_dir(options.runs_dir)
    if experiment.name is not None:
        folder = RunFolder(directory / experiment.name)
        if folder.exists() and not options.resume:
            raise InputError(
                f"{folder.path}: a run of that name exists\n"
                "    use --resume to continue it, or another --name to start a new one"
            )
        if (group := find_group(folder.path.absolute(), directory)) is not None:
            kind = "a sweep" if group.kind == "sweep" else "the runs of several seeds"
            raise InputError(f"{folder.path}: holds {kind}\n    give the run another --name")
        return folder
    base = default_name(experiment.env.id, experiment.algorithm.name)
    name = newest_name(base, directory) if options.resume else None
    return RunFolder(directory / name if name else claim_folder(base, directory))


def find_weights(options: TrainOptions, listener: Listener) -> Path | None:
    """Return the checkpoint that a new run takes its weights from, if it is to take any."""
    if options.weights_from is None:
        return None
    directory = runs_dir(options.runs_dir)
    folder, checkpoint = find_checkpoint(options.weights_from, "best", directory, listener.noticed)
    require_own_run(folder, [checkpoint], f"--from {options.weights_from}", trust=options.trust)
    return checkpoint


def make_folder(folder: RunFolder) -> None:
    """Make the run's folder, for its owner alone, and look that it can be written to."""
    try:
        folder.path.mkdir(OWN_FOLDER, parents=True, exist_ok=True)
        if not os.access(folder.path, os.W_OK):
            raise PermissionError(None, "no permission", str(folder.path))
    except (OSError, ValueError) as error:
        raise unwritable(folder.path, error) from None


def require_unused(folder: RunFolder) -> None:
    """Refuse to begin a run where another one has saved, or has begun since we looked."""
    if folder.exists() or Checkpoints(folder.checkpoints).latest() is not None:
        raise InputError(
            f"{folder.path}: holds another run already\n"
            "    use --resume to continue it, or another --name to start a new one"
        )
