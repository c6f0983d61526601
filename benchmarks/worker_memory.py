"""Memory of a built-in worker beside that of an RLlib env runner, both stepping CartPole with 8 simulators."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psutil

ROUNDS = 3
ITERATIONS = 3
WORKERS = 2
MIB = 1024**2


def run() -> str:
    """Measure both in turn, several rounds, each in a process of its own."""
    measured: dict[str, list[tuple[float, float]]] = {"builtin": [], "rllib": []}
    for _ in range(ROUNDS):
        for engine, figures in measured.items():
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.worker_memory", engine],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            resident, own = map(float, done.stdout.splitlines()[-1].split())
            figures.append((resident, own))
    rows = []
    medians = {}
    for engine, figures in measured.items():
        resident, own = (statistics.median(column) for column in zip(*figures, strict=True))
        medians[engine] = (resident, own)
        rows.append(f"| {engine} | {resident:.0f} | {own:.0f} |")
    ratios = [ours / theirs for ours, theirs in zip(medians["builtin"], medians["rllib"], strict=True)]
    rows.append(f"| ratio | {ratios[0]:.2f} | {ratios[1]:.2f} |")
    return "\n".join(
        [
            "# Memory of a worker",
            "",
            f"CartPole-v1, PPO, {WORKERS} workers of 8 simulators each, after {ITERATIONS} iterations; median of "
            f"{ROUNDS} interleaved rounds, mean over workers.",
            "",
            "| engine | resident, MiB | of its own, MiB |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def measure_builtin() -> tuple[float, float]:
    """Train with the built-in engine and look at its workers after the last iteration."""
    import tempfile

    from muster import train
    from muster.training import TrainOptions
    from muster.training.listener import Silence

    found: list[tuple[float, float]] = []

    class Watcher(Silence):
        def iterated(self, row: dict[str, Any], progress: Any) -> None:
            if progress.iteration == ITERATIONS:
                found.append(_memory("ray::Worker"))

    overrides = {
        "resources.workers": WORKERS,
        "resources.env_groups": WORKERS,
        "stop.iterations": ITERATIONS,
        "algorithm.train_batch_size": 4096,
        "name": "run",
    }
    with tempfile.TemporaryDirectory() as folder:
        train("CartPole-v1", overrides=overrides, options=TrainOptions(runs_dir=folder), listener=Watcher())
    return found[0]


def measure_rllib() -> tuple[float, float]:
    """Train with RLlib's PPO and look at its env runners after the last iteration."""
    from ray.rllib.algorithms.ppo import PPOConfig

    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=WORKERS, num_envs_per_env_runner=8)
        .training(train_batch_size=4096, minibatch_size=128, num_epochs=2)
    )
    algorithm = config.build_algo()
    for _ in range(ITERATIONS):
        algorithm.train()
    memory = _memory("ray::SingleAgentEnvRunner")
    algorithm.stop()
    return memory


def _memory(process_name: str) -> tuple[float, float]:
    """Return the mean resident and unique memory, in MiB, of this process's descendants of that name."""
    workers = [
        process.memory_full_info()
        for process in psutil.Process().children(recursive=True)
        if " ".join(process.cmdline()).startswith(process_name)
    ]
    assert len(workers) == WORKERS, [p.cmdline() for p in psutil.Process().children(recursive=True)]
    return (
        statistics.mean(worker.rss for worker in workers) / MIB,
        statistics.mean(worker.uss for worker in workers) / MIB,
    )


if __name__ == "__main__":
    measures: dict[str, Callable[[], tuple[float, float]]] = {"builtin": measure_builtin, "rllib": measure_rllib}
    print(*measures[sys.argv[1]]())
