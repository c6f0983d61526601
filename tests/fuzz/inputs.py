"""Random experiment files and command lines, most of them wrong in some way."""

from __future__ import annotations

import random
from pathlib import Path

import tomli_w

from muster.experiment.schema import ALGORITHMS, Experiment, section_model

IDS = ("CartPole-v1", "Acrobot-v1", "CartPol-v1", "nosuch:Thing", "nosuch.py:Thing", "a:b:c", "/", "..", "")
WORDS = (
    "",
    " ",
    "auto",
    "best",
    "latest",
    "²",
    "é",
    "\0",
    "\u202e",
    "\udcff",
    "..",
    "a/b",
    "-",
    "--",
    "-v1",
    "x" * 300,
)
NUMBERS = (0, 1, -1, 2, 64, 10**6, 10**9, 2**31, 2**63, 10**30, 0.5, -0.0, 1e-320, 1e308)
SPECIAL: tuple[object, ...] = (
    float("inf"),
    float("-inf"),
    float("nan"),
    True,
    False,
    [],
    {},
    [[]],
    [1, "a", None],
    {"a": {"b": 1}},
)
FLAGS = {
    "train": "--algorithm --engine --workers --gpus --seed --seeds --name --from --stop-steps --stop-iterations "
    "--stop-time --stop-return --set --json --quiet --verbose --resume --trust --runs-dir",
    "sweep": "--trials --concurrent --name --resume --set --json --runs-dir",
    "check": "--set --json",
    "init": "-o --algorithm",
    "runs": "--runs-dir --json",
    "show": "--runs-dir --json",
    "evaluate": "--episodes --last --checkpoint --stochastic --seed --runs-dir --json",
    "play": "--episodes --video --checkpoint --seed --replay --runs-dir --json",
    "export": "--format -o --checkpoint --runs-dir --json",
    "scale": "--workers --nodes --seconds -o --set --json",
    "schema": "--markdown",
    "launch": "--cpus --gpus --nodes --timeout --port-range --head-address --cluster",
    "doctor": "--timeout --interface --port-range",
}


def value(rng: random.Random) -> object:
    """Return any value that a TOML file may hold, and some that it may not."""
    pool = rng.choice((WORDS, NUMBERS, SPECIAL, IDS, (str(rng.choice(NUMBERS)), f"{rng.randrange(99)}m")))
    return rng.choice(pool)


def table(rng: random.Random) -> dict[str, object]:
    """Return an experiment of which a few keys are wrong."""
    experiment: dict[str, object] = {"env": {"id": rng.choice(IDS[:2])}}
    for _ in range(rng.randrange(5)):
        name = rng.choice([*Experiment.model_fields, "algorthm", "clusters"])
        model = section_model(name, rng.choice(list(ALGORITHMS)))
        if model is None or rng.random() < 0.15:
            experiment[name] = value(rng)
        else:
            keys = [field.alias or key for key, field in model.model_fields.items()]
            section = experiment.get(name)
            changed = {rng.choice([*keys, "naem"]): value(rng) for _ in range(rng.randrange(1, 4))}
            experiment[name] = {**section, **changed} if isinstance(section, dict) else changed
    return experiment


def content(rng: random.Random) -> bytes:
    """Return the bytes of an experiment file, often damaged."""
    try:
        text = tomli_w.dumps(table(rng)).encode("utf-8", "surrogateescape")
    except (TypeError, ValueError):
        text = b"[env]\nid = 'CartPole-v1'\n"
    harm = rng.randrange(8)
    if harm == 0:
        return text[: rng.randrange(len(text) + 1)]
    if harm == 1:
        return rng.randbytes(rng.randrange(200))
    if harm == 2:
        place = rng.randrange(len(text) + 1)
        return text[:place] + rng.randbytes(rng.randrange(1, 4)) + text[place:]
    if harm == 3:
        return text.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-8-sig", "utf-32")))
    return text


def command_line(rng: random.Random, folder: Path) -> list[str]:
    """Return a command with a random file, id or run, and random flags."""
    file = folder / "exp.toml"
    file.write_bytes(content(rng))
    command = rng.choice([*FLAGS, "train", "train", "train", "", "trian"])
    target = rng.choice(
        [str(file), str(file), rng.choice(IDS), rng.choice(WORDS), "run", "/dev/zero", str(folder)]
    )
    arguments = [target] if command not in ("runs", "schema") or rng.random() < 0.1 else []
    known = FLAGS.get(command, "--json").split()
    for _ in range(rng.randrange(4)):
        arguments.append(rng.choice([*known, "--nosuch"]))
        if rng.random() < 0.8:
            arguments.append(_argument(rng))
    return [part.replace("\0", "") for part in (command, *arguments)]


def _argument(rng: random.Random) -> str:
    if rng.random() < 0.4:
        section = rng.choice([*Experiment.model_fields, "", "a.b"])
        return f"{section}{rng.choice(('', '.name', '.id', '.x', '.lr'))}={value(rng)}"
    return str(value(rng))
