"""A notebook that trains a class of its own, watches, evaluates and plots: executed by a real kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbclient
import nbformat

from tests.commands import ROOT

NOTEBOOK = ROOT / "examples" / "notebook" / "tank.ipynb"


def outputs(cell: Any) -> str:
    return "\n".join(str(output.get("data", output)) for output in cell.outputs)


def test_the_example_s_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    text = "\n".join(map(outputs, cells))
    assert "PPO on Tank" in text and "return" in text, "the progress is displayed"
    assert "image/png" in text, "something is plotted"
    assert "RunEvaluation(return" in text and "beaten in" in text
    assert "Comparison" in text
    assert (tmp_path / "runs").is_dir()
