"""Experiments as text: the resolved file of a run, the commented file to start from, schema and reference."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from muster.errors import ExperimentError
from muster.experiment.problems import Lines, validation_problems
from muster.experiment.schema import (
    ALGORITHMS,
    BUILTIN_ALGORITHMS,
    Experiment,
    RLlibPPOSection,
    RLlibSection,
    section_model,
)
from muster.experiment.source import require_plain
from muster.experiment.sweep import SweepSection


def experiment_toml(experiment: Experiment) -> str:
    """Return the resolved experiment as a file that runs as it is."""
    return tomli_w.dumps(experiment.as_table())


def starting_file(
    env_id: str,
    algorithm: str = "PPO",
    *,
    chosen: Mapping[str, tuple[Any, str]] | None = None,
    own: Mapping[str, Any] | None = None,
    paths: Sequence[str] = (),
) -> str:
    """Return a commented experiment with every key, those that have a default commented out.

    `chosen` are values of defaults that depend on something, each with the reason; `own` further keys of the
    algorithm with their defaults; `paths` what `env.paths` must be for the simulator to be found.
    """
    chosen = chosen or {}
    minimal = {"env": {"id": env_id}, "algorithm": {"name": algorithm}}
    require_plain(minimal, "ID")
    try:
        experiment = Experiment.model_validate(minimal)
    except ValidationError as error:
        raise ExperimentError("ID", validation_problems(error, minimal, {}, Lines(Path(), ""))) from None
    table = {**experiment.as_table(), "sweep": SweepSection().model_dump(exclude={"parameters"})}
    lines = [
        "# An experiment of muster: which simulator, which algorithm, how long, on what.",
        "# Lines that start with `#` show defaults; `Here:` says why where one depends on something; `Example:`",
        "# marks what is no default, but shows what a value looks like. Train with: muster train THIS-FILE",
        "",
        *_entry("name", "my-run", Experiment.model_fields["name"].description, commented=True, mark=_EXAMPLE),
        *_entry("seed", table["seed"], Experiment.model_fields["seed"].description, commented=True),
    ]
    for section in Experiment.model_fields:
        if section == "metrics":
            lines += ["", f"[metrics]  # {Experiment.model_fields[section].description}"]
            lines += _entry("energy", "sum", 'of info["energy"].', commented=True, mark=_EXAMPLE)
        model = section_model(section, algorithm)
        if model is None:
            continue
        mark = "# " if section == "sweep" else ""
        lines += ["", f"{mark}[{section}]  # {(model.__doc__ or '').strip().splitlines()[0]}"]
        for name, field in model.model_fields.items():
            key = field.alias or name
            given = key in ("id", "name")
            value, mark = table[section].get(key), ""
            if (dotted := f"{section}.{key}") in chosen:
                value, reason = chosen[dotted]
                mark = f"Here: {reason}. "
            elif dotted == "env.paths" and paths:
                value, given = list(paths), True
            elif value is None:
                value, mark = _EXAMPLES.get(dotted), _EXAMPLE
            lines += _entry(key, value, field.description, commented=not given, mark=mark)
        if section == "algorithm":
            lines += _own_entries(own or {})
    return "\n".join(lines) + "\n"


def _own_entries(own: Mapping[str, Any]) -> list[str]:
    """Return the entries of an algorithm's further keys: those that TOML can hold, and the names of the others."""
    lines, others = [], []
    for key, value in own.items():
        plain = list(value) if isinstance(value, tuple) else value
        try:
            lines += _entry(key, plain, "RLlib's default.", commented=True)
        except (TypeError, ValueError):
            others.append(key)
    if others:
        lines.append(f"## RLlib's, too, without a default that can be written here: {', '.join(others)}")
    return lines


_EXAMPLE = "Example: "


_EXAMPLES: dict[str, Any] = {
    "env.max_episode_steps": 1000,
    "env.step_timeout": "10m",
    "env.vectorized": True,
    "env.cpus": 4,
    "env.schedule_method": "set_wind",
    "model.class": "my_model.py:MyModule",
    "algorithm.vf_clip_param": 10.0,
    "algorithm.target_kl": 0.02,
    "algorithm.log_std_init": -0.5,
    "algorithm.sde_sample_freq": 4,
    "stop.steps": "1_000_000",
    "stop.iterations": 500,
    "stop.time": "30m",
    "stop.return": 475.0,
    "sweep.parameters": {"algorithm.lr": {"loguniform": [1e-5, 1e-2]}},
    "sweep.trials": 10,
    "sweep.concurrent": 4,
}


def _entry(key: str, value: Any, description: str | None, *, commented: bool, mark: str = "") -> list[str]:
    return [f"{'# ' if commented else ''}{key} = {_inline(value)}  # {mark}{description}"]


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        entries = ", ".join(f'"{key}" = {_inline(inner)}' for key, inner in value.items())
        return f"{{ {entries} }}" if value else "{}"
    text = tomli_w.dumps({"value": value}).strip().partition("= ")[2]
    return " ".join(text.split()).replace("[ ", "[").replace(", ]", "]").replace(",]", "]")


def json_schema() -> str:
    """Return the JSON schema of the file, for editors."""
    return json.dumps(Experiment.model_json_schema(by_alias=True), indent=2) + "\n"


def reference() -> str:
    """Return the reference page of all keys, in Markdown."""
    lines = [
        "# The experiment file",
        "",
        "Every key can also be given on the command line: `--set section.key=value`.",
        'Counts read as `50000`, `"1_000_000"`, `"1e6"` or `"500k"`; durations as `"90s"`, `"30m"`, '
        '`"1h30m"` or `"02:00:00"`.',
        "",
        *_table("Top level", Experiment, skip_sections=True),
    ]
    for section in Experiment.model_fields:
        if section == "algorithm":
            for title, model in _algorithm_tables().items():
                lines += _table(f"`[algorithm]` with {title}", model)
        elif model_ := section_model(section):
            lines += _table(f"`[{section}]`", model_)
    return "\n".join(lines)


def _algorithm_tables() -> dict[str, type[Any]]:
    """Return the sections that `[algorithm]` may be, by what it says then."""
    *names, last = [f'`"{name}"`' for name, section in ALGORITHMS.items() if section is RLlibSection]
    of_rllib = f"{', '.join(names)} or {last}".replace("`", "`name = ", 1)
    return {
        **{f'`name = "{name}"`': ALGORITHMS[name] for name in BUILTIN_ALGORITHMS},
        '`name = "PPO"` and `engine = "rllib"`': RLlibPPOSection,
        of_rllib: RLlibSection,
    }


def _table(title: str, model: type[Any], *, skip_sections: bool = False) -> list[str]:
    rows = []
    for name, field in model.model_fields.items():
        if skip_sections and (section_model(name) or name == "algorithm"):
            continue
        default = field.get_default(call_default_factory=True)
        shown = "required" if field.is_required() else "none" if default is None else f"`{json.dumps(default)}`"
        rows.append(f"| `{field.alias or name}` | {shown} | {field.description} |")
    doc = (model.__doc__ or "").strip().splitlines()[0]
    return [f"## {title}", "", doc, "", "| key | default | meaning |", "|---|---|---|", *rows, ""]


def write_starting_file(path: Path, text: str) -> None:
    """Write a commented file; never over one that exists."""
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
