"""Going on with a run: what was saved holds, and only what cannot change the learning may differ."""

from __future__ import annotations

import json
from typing import Any

from muster.engines.builtin.planning import RAISED_FOR_WORKERS
from muster.errors import ExperimentError, Problem
from muster.experiment import LoadedExperiment, load_experiment
from muster.runs.folder import RunFolder

CHANGEABLE = (
    "stop.",
    "evaluation.",
    "checkpoint.",
    "resources.workers",
    "resources.overlap",
    "resources.gpus",
    "resources.learner_threads",
    "env.max_failures",
    "env.paths",
)


def merge_with_saved(folder: RunFolder, given: LoadedExperiment) -> LoadedExperiment:
    """Return the saved experiment with the changes that were asked for.

    Raises:
        ExperimentError: naming each change that would make it another run.
    """
    saved = load_experiment(folder.experiment)
    sources = _read_sources(folder)
    merged = LoadedExperiment(saved.experiment, sources, given.places, given.subject)
    table, saved_table = given.experiment.as_table(), saved.experiment.as_table()
    asked = [key for key, source in given.sources.items() if source != "default"]
    problems = []
    for key in asked:
        value, before = _get(table, key), _get(saved_table, key)
        if key == "name" or value == before or sources.get(key) == RAISED_FOR_WORKERS:
            continue
        if key.startswith(CHANGEABLE):
            merged = merged.replace(key, value, given.sources[key])
        else:
            problems.append(
                Problem(
                    f"{key} ({given.sources[key]})",
                    f"is {value!r}, but the run to resume has {before!r}",
                    "leave it out, or start a new run with --from",
                )
            )
    if problems:
        raise ExperimentError(f"--resume {folder.name}", problems)
    return merged


def _read_sources(folder: RunFolder) -> dict[str, str]:
    try:
        return dict(json.loads(folder.sources.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _get(table: dict[str, Any], key: str) -> Any:
    value: Any = table
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
