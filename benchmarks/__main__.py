"""`python -m benchmarks [NAME ...]`: run all measurements, or those named, and write what they found.

`throughput:ratio` holds only those contests of `throughput` that have "ratio" in their title; `solving` likewise.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

NAMES = (
    "learning",
    "defaults",
    "ablation",
    "rllib_learning",
    "worker_memory",
    "launch_times",
    "ssh_start",
    "launch_faults",
    "launch_kills",
    "launch_signals",
    "rendezvous",
    "strangers",
    "signals",
    "misbehaviour",
    "throughput",
    "solving",
    "growth",
    "scaling",
    "batched",
    "reading",
    "serving",
)
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Run the benchmarks in turn; each returns a page in Markdown."""
    wanted = [name.partition(":") for name in sys.argv[1:] or NAMES]
    if unknown := {name for name, _, _ in wanted} - set(NAMES):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(NAMES)}")
    RESULTS.mkdir(exist_ok=True)
    for name, _, part in wanted:
        benchmark = importlib.import_module(f"benchmarks.{name}")
        page = benchmark.run(part) if part else benchmark.run()
        getattr(benchmark, "PAGE", RESULTS / f"{name}.md").write_text(page, encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
