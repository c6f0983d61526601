"""`muster export`: what a run learned, as a file that needs no muster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from muster.cli.options import AsJson, Checkpoint, Run, RunsDir, Trust, writable_file
from muster.cli.screen import console, print_json, show_notice
from muster.runs.finding import find_checkpoint, require_own_run
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import read_experiment

SUFFIXES_TAKEN = (".onnx", ".pt", ".pth", ".ts")


def export(
    run: Run,
    file_format: Annotated[
        Literal["onnx", "torchscript"], typer.Option("--format", help="onnx or torchscript.")
    ] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file; default: policy.onnx or .pt in the run's folder."),
    ] = None,
    checkpoint: Checkpoint = "best",
    runs_dir: RunsDir = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Write a run's best policy as ONNX or TorchScript, checked to decide as the policy does."""
    from muster.policies import load_policy
    from muster.policies.onnx_export import SUFFIXES, require
    from muster.training.policy_export import export

    require(file_format)
    folder, path = find_checkpoint(run, checkpoint, folder_of_runs(runs_dir), show_notice)
    require_own_run(folder, [path], f"export {run}", trust=trust)
    output = output or folder.path / f"policy{SUFFIXES[file_format]}"
    writable_file("-o", output, SUFFIXES_TAKEN)
    experiment = read_experiment(folder, path, show_notice)
    result = export(load_policy(path, trust=trust), experiment.simulator(), output, file_format)
    if as_json:
        print_json({"run": str(folder.path), "checkpoint": str(path), **asdict(result)})
        return
    for title, arrays in (("in ", result.inputs), ("out", result.outputs)):
        for name, shape in arrays.items():
            console().print(f"{title}  {name}  {shape}", markup=False, highlight=False)
    console().print(
        f"wrote {result.path}: decides as checkpoint {path.name} does on {result.observations} observations "
        f"(largest difference {result.largest_difference:.1g})"
    )
