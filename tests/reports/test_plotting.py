"""`muster plot`: a run's columns in the terminal and as a picture."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from muster.reports.terminal_plot import plot_lines
from tests.commands import muster_here
from tests.runs.tiny import train_tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("plotted"), "run")


def test_a_rising_line_rises_from_corner_to_corner() -> None:
    lines = plot_lines(np.array([0.0, 100.0]), np.array([0.0, 10.0]), 40, 5)
    assert [line.partition("┤")[0].strip() for line in lines[:5]] == ["10.0", "", "5", "", "0"]
    starts = [len(line) - len(line.replace("⠀", "")) for line in lines[:5]]
    assert starts == sorted(starts, reverse=True)
    assert starts[-1] == 0
    assert lines[-1].split() == ["0", "100"]
    assert all(len(line) <= 40 for line in lines)


def test_cells_without_a_number_are_left_out_and_a_level_line_is_drawn() -> None:
    assert plot_lines(np.array([1.0]), np.array([np.nan]), 40, 5) == ["no values"]
    lines = plot_lines(np.array([1.0, 2.0, 3.0]), np.array([7.0, np.nan, 7.0]), 40, 5)
    assert lines[0].endswith("⠉")


def test_columns_are_drawn_in_the_terminal_and_as_a_picture(run: Path, tmp_path: Path) -> None:
    done = muster_here("plot", run, "return/mean", "policy/entropy")
    assert done.code == 0, done.err
    assert "policy/entropy of run over simulator steps" in done.out
    assert done.out.count("┤") == 28
    assert f"wrote {tmp_path / 'p.png'}" in muster_here("plot", run, "-o", tmp_path / "p.png").out
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"


def test_seeds_are_drawn_together(run: Path, tmp_path: Path) -> None:
    for seed in range(3):
        shutil.copytree(run, tmp_path / f"both/seed-{seed}", symlinks=True)
    done = muster_here("plot", "both", "--runs-dir", tmp_path)
    assert done.code == 0, done.err
    assert "return/mean of both (interquartile mean of 3 runs) over simulator steps" in done.out
    drawn = muster_here("plot", "both", "-o", tmp_path / "p.png", "--runs-dir", tmp_path)
    assert (drawn.code, (tmp_path / "p.png").read_bytes()[:4]) == (0, b"\x89PNG")


def test_the_last_part_of_a_column_s_name_is_enough(run: Path) -> None:
    assert "policy/entropy of run over simulator steps" in muster_here("plot", run, "entropy").out
    assert "no column 'mean'" in muster_here("plot", run, "mean").err


def test_a_column_that_is_not_there_names_those_that_are_near(run: Path) -> None:
    refused = muster_here("plot", run, "return/men")
    assert refused.code == 2
    assert "no column 'return/men'" in refused.err
    assert "there are: return/mean" in refused.err
