"""What `muster scale` says of a simulator that computes for a millisecond in every step."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks.commands import muster
from benchmarks.contests import median_and_range

RESULTS = Path(__file__).parent / "results"
JSON_FILE, PLOT = RESULTS / "scaling.json", RESULTS / "scaling.png"
ROUNDS = 3
COMMAND = ("scale", "benchmarks.workloads:burn", "--workers", "1,2")


def run() -> str:
    """Run the command several times, each of which draws the picture anew."""
    rounds = [muster(*COMMAND, "--output", str(PLOT), "--json") for _ in range(ROUNDS)]
    for found in rounds:
        del found["plot"]  # a path of this machine
    JSON_FILE.write_text(json.dumps(rounds, indent=2) + "\n", encoding="utf-8")
    lines = [
        "# Scaling",
        "",
        f"`muster {' '.join(COMMAND)}`: CartPole with 1 ms of computing a step, PPO as it comes. "
        f"Medians of {ROUNDS} runs (range); {os.cpu_count()} CPUs.",
        "",
        "| workers | steps/s | speed-up | efficiency |",
        "|---|---|---|---|",
    ]
    for rows in zip(*(found["rows"] for found in rounds), strict=True):
        cells = [
            median_and_range([row[key] for row in rows], form)
            for key, form in (("steps_per_second", "{:,.0f}"), ("speed_up", "{:.2f}"), ("efficiency", "{:.2f}"))
        ]
        lines.append("| " + " | ".join([str(rows[0]["workers"]), *cells]) + " |")
    serial = median_and_range([found["serial_fraction"] for found in rounds], "{:.1%}")
    doubling = median_and_range([found["gain_of_doubling"] for found in rounds], "{:.2f}")
    more = f"Serial: {serial} of an iteration. Twice as many workers, by the law: {doubling} times as fast."
    return "\n".join([*lines, "", more, "", f"![the last run]({PLOT.name})", ""])
