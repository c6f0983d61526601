"""What every kind of misbehaviour of a simulator leads to, wherever one is called."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = (
    "raise",
    "sys.exit",
    "KeyboardInterrupt",
    "BaseException",
    "GeneratorExit",
    "failing __str__",
    "megabytes",
    "surrogates",
    "reset",
    "close",
    "NaN",
    "infinite reward",
    "reward of a wrong type",
    "wrong shape",
    "outside",
    "three values",
    "None",
    "strange truth",
    "hang",
    "hang in build",
    "hang in reset",
    "hang in close",
    "hang in C",
    "hang deaf",
    "os._exit",
    "segfault",
    "kill",
    "os._exit with a forked child",
    "chdir",
    "signal handlers",
    "environment",
    "closed streams",
    "closed descriptors",
    "children",
    "threads",
    "socket time-out",
    "alarm",
    "numpy.seterr",
    "stdout",
)
WAYS = ("train, 0 workers", "train, 2 workers", "evaluate", "check", "replay", "RLlib, 1 worker")
LONGEST_SECONDS = 90
_OWN = re.compile(r'Traceback \(most recent call last\):\n(?: .*\n)*? *File "[^"]*/src/muster/')


@dataclass(frozen=True)
class Outcome:
    """What a command came to; `code` is None if it had to be ended."""

    code: int | None
    seconds: float
    text: str

    @property
    def verdict(self) -> str:
        """A cell of the table."""
        if self.code is None:
            return "**hang**"
        failures = len(set(re.findall(r"failures/(\d+)\.json", self.text)))
        parts = [f"code {self.code}"]
        if failures:
            parts.append(f"{failures} failure" + ("s" if failures > 1 else ""))
        if _OWN.search(self.text):
            parts.append("**muster's traceback**")
        return f"{', '.join(parts)}, {self.seconds:.0f} s"


def run(part: str = "") -> str:
    """Try every kind in every way; `part` names one kind."""
    lines = [
        "# Misbehaviour",
        "",
        "What `muster` does with a simulator that misbehaves: the exit code of the command, the failures that it "
        "put on record, its time. `env.step_timeout` is 1 s for those that hang. A failure in some episodes is "
        "dropped with its episode, so training ends with code 0. The process of a run without workers dies with a "
        "simulator that ends it; the next `--resume` says in which call.",
        "",
        f"| kind | {' | '.join(WAYS)} |",
        f"|---|{'---|' * len(WAYS)}",
    ]
    for kind in [kind for kind in KINDS if part in kind]:
        with tempfile.TemporaryDirectory() as folder:
            outcomes = _outcomes(kind, Path(folder))
        for way, outcome in zip(WAYS, outcomes, strict=True):
            if outcome is not None and ("**" in outcome.verdict or part):
                print(f"--- {kind}: {way}\n{outcome.text[-3000:]}", file=sys.stderr)
        cells = ["" if outcome is None else outcome.verdict for outcome in outcomes]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr)
    return "\n".join(lines) + "\n"


def _outcomes(kind: str, folder: Path) -> list[Outcome | None]:
    trained = [_train(folder, f"workers-{workers}", kind, workers) for workers in (0, 2)]
    _train(folder, "good", "not", 0)
    experiment = folder / "runs/good/experiment.toml"
    changed = experiment.read_text().replace('how = "not"', f"how = {json.dumps(kind)}")
    if "hang" in kind:
        changed = changed.replace("[env.config]", "step_timeout = 1.0\n\n[env.config]", 1)
    experiment.write_text(changed)
    evaluated = _muster(folder, "evaluate", "good", "--episodes", "30")
    checked = _muster(folder, "check", "tests.misbehaving:Misbehaving", *_settings(kind, every=1))
    recorded = sorted((folder / "runs/workers-2/failures").glob("*.json"))
    replayed = _muster(folder, "play", "--replay", str(recorded[0])) if recorded else None
    rllib = _train(folder, "rllib", kind, 1, "--engine", "rllib")
    return [*trained, evaluated, checked, replayed, rllib]


def _train(folder: Path, name: str, kind: str, workers: int, *flags: str) -> Outcome:
    return _muster(
        folder,
        "train",
        "tests.misbehaving:Misbehaving",
        *_settings(kind, every=17 if kind.startswith(("hang", "os._exit", "segfault", "kill")) else 5),
        f"--name={name}",
        f"--workers={workers}",
        "--seed=4",
        "--set=resources.env_groups=2",
        "--set=resources.envs_per_group=2",
        "--set=algorithm.train_batch_size=160",
        "--set=algorithm.minibatch_size=40",
        "--set=model.hidden=[8]",
        "--set=stop.iterations=3",
        *flags,
    )


def _settings(kind: str, every: int) -> list[str]:
    settings = [f"--set=env.config.how={kind}", f"--set=env.config.every={every}"]
    return [*settings, *(["--set=env.step_timeout=1"] if "hang" in kind else [])]


def _muster(folder: Path, *arguments: str) -> Outcome:
    """Run a command in a folder; its output goes to a file, since what it starts may hold on to a pipe."""
    output = folder / "output"
    began = time.monotonic()
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "muster", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )
        try:
            code: int | None = process.wait(LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
    return Outcome(code, time.monotonic() - began, output.read_text(errors="replace"))
