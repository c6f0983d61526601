"""Reports of runs, sweeps and seeds: what they show, that names and errors are text, that no request leaves."""

from __future__ import annotations

import errno
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from muster.reports.history import read_history
from muster.reports.run_charts import other_metrics
from muster.runs.folder import RunFolder
from muster.sweeps.folder import SweepFolder
from muster.sweeps.record import SweepRecord
from tests.commands import last_json, muster, muster_here
from tests.reports.chromium import CHROMIUM, opened
from tests.runs.test_damage import DAMAGES, SMALL_FILES
from tests.runs.tiny import train_tiny

pytest.importorskip("plotly")
MARKUP = "<img src=x onerror=console.error(1)>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of a group `both`, and a run with evaluations."""
    path = tmp_path_factory.mktemp("reported")
    for seed in (0, 1):
        train_tiny(path / "both", f"seed-{seed}", seed=seed)
    train_tiny(path, "one", **{"evaluation.every": 1, "evaluation.episodes": 1, "algorithm.lr": 0.01})
    return path


def body_of(page: Path) -> str:
    """Return a page without Plotly's script."""
    text = page.read_text()
    parts = re.split(r"(?=<script>)", text)
    return "".join(part for part in parts if len(part) < 1_000_000)


def test_a_report_shows_the_run_and_how_to_repeat_it(runs: Path) -> None:
    done = muster_here("report", runs / "one", "-o", runs / "one.html", "--json")
    assert (done.code, last_json_of(done.out)["problems"]) == (0, [])
    text = body_of(runs / "one.html")
    for expected in (
        "PPO on CartPole-v1, seed 0",
        "evaluation ± standard deviation",
        "best checkpoint (",
        "steps per second",
        "share of an iteration",
        "<td>algorithm.lr</td><td>0.01</td><td>0.0003</td>",
        "muster train",
        "one-again",
        "policy/entropy",
    ):
        assert expected in text or expected.replace("±", "\\u00b1") in text, expected


def test_an_evaluation_has_a_column_for_each_metric_of_one_s_own(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "one", tmp_path / "own", symlinks=True)
    evaluations = tmp_path / "own" / "evaluations.jsonl"
    own = {"metrics": {"energy": 12.5, "steps": 0.25}}
    lines = [json.loads(line) | own for line in evaluations.read_text().splitlines()]
    evaluations.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert muster_here("report", tmp_path / "own", "-o", tmp_path / "own.html").code == 0
    text = body_of(tmp_path / "own.html")
    assert ">metrics/energy</th>" in text
    assert ">12.5</td>" in text
    assert ">metrics/steps</th>" in text and ">0.25</td>" in text
    assert ">64</td>" in text and ">128</td>" in text
    assert "{'energy'" not in text and "{&#x27;energy" not in text


def test_a_run_s_folder_is_named_by_itself(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs / "one")
    assert muster_here("report", ".", "-o", tmp_path / "one.html").code == 0
    assert "--name one-again" in body_of(tmp_path / "one.html")


def test_a_full_disk_is_said_without_advice_for_training(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("muster.runs.files.write_text", fail)
    refused = muster_here("report", runs / "one", "-o", tmp_path / "one.html")
    assert refused.code == 1
    assert refused.err.endswith("No space left on device\n    free some space\n")


def last_json_of(text: str) -> dict[str, list[str]]:
    value: dict[str, list[str]] = json.loads(text.splitlines()[-1])
    return value


def test_names_and_tracebacks_that_are_markup_are_text(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / MARKUP
    shutil.copytree(runs / "one", run, symlinks=True)
    (run / "failures").mkdir()
    failure = {"error": f"</script>{MARKUP}", "traceback": f"</pre></script>{MARKUP}\ud800", "seed": 1}
    (run / "failures/0001.json").write_text(json.dumps(failure))
    with (run / "events.jsonl").open("a") as file:
        file.write(json.dumps({"time": 1e9, "event": MARKUP, "error": f"</script>{MARKUP}"}) + "\n")
    assert muster_here("report", run, "-o", tmp_path / "page.html").code == 0
    text = body_of(tmp_path / "page.html")
    assert "<img" not in text
    assert "&lt;img src=x" in text
    assert text.count("</script>") == len(re.findall(r"<script\b", text)), "only the page's own scripts end"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_page_draws_its_charts_without_an_error_or_a_request(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / MARKUP
    shutil.copytree(runs / "one", run, symlinks=True)
    assert muster_here("report", run, "-o", tmp_path / "page.html").code == 0
    document, console, requests = opened(tmp_path / "page.html", tmp_path / "profile")
    assert document.count('class="main-svg"') > 10
    assert (console, requests) == ([], [])
    probe = tmp_path / "probe.html"
    probe.write_text("<script>console.error('seen')</script><img src='http://192.0.2.1/x.png'>")
    _, console, requests = opened(probe, tmp_path / "profile")
    assert console, "an error would have been seen"
    assert requests, "a request would have been seen"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_gives_a_page_that_says_what_is_missing(runs: Path, tmp_path: Path, damage: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "one", run, symlinks=True)
    for name in SMALL_FILES:
        DAMAGES[damage](run / name)
    done = muster_here("report", run, "-o", tmp_path / "page.html")
    assert done.code == 0, done.err
    text = body_of(tmp_path / "page.html")
    assert "Missing or damaged" in text
    for name in ("experiment.toml", "metrics.csv", "versions.json"):
        assert f"<li>{name}" in text, name


def test_reading_a_run_imports_nothing_that_it_names(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "one", run, symlinks=True)
    (tmp_path / "trap.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\nclass Trap: ...\n")
    text = (run / "experiment.toml").read_text()
    (run / "experiment.toml").write_text(text.replace('id = "CartPole-v1"', f'id = "{tmp_path}/trap.py:Trap"'))
    assert muster_here("report", run, "-o", tmp_path / "page.html").code == 0
    assert "trap.py:Trap" in body_of(tmp_path / "page.html")
    assert not (tmp_path / "sprung").exists()


def test_seeds_have_a_report_together(runs: Path) -> None:
    assert muster_here("report", "both", "--runs-dir", runs).code == 0
    text = body_of(runs / "both/report.html")
    assert "2 runs with a return: too few for a reliable interval" in text
    assert "both (2 runs)" in text
    assert "<td>seed-1</td>" in text


def test_a_sweep_has_a_report_also_without_its_record(runs: Path, tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "sweep")
    folder.path.mkdir()
    folder.experiment.write_text("")
    record = SweepRecord(folder, "return/mean", "max")
    for rate, source in ((0.1, "seed-0"), (0.001, "seed-1")):
        trial = record.add({"algorithm.lr": rate})
        shutil.copytree(runs / "both" / source, folder.path / trial.name, symlinks=True)
    status = json.loads((folder.path / "trial-002/status.json").read_text())
    (folder.path / "trial-002/status.json").write_text(json.dumps({**status, "state": "stopped", "exit_code": 0}))
    assert muster_here("report", folder.path, "-o", tmp_path / "page.html").code == 0
    text = body_of(tmp_path / "page.html")
    assert "return/mean by algorithm.lr" in text
    assert "1 of 2" in text
    assert "<td>trial-002</td><td>cut early</td>" in text
    folder.record.write_text("[")
    assert muster_here("report", folder.path, "-o", tmp_path / "page.html").code == 0
    text = body_of(tmp_path / "page.html")
    assert "sweep.json: cannot be read" in text
    assert "<td>trial-002</td>" in text


def test_without_plotly_a_report_says_what_to_install(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    refused = muster_here("report", runs / "one")
    assert refused.code == 2
    assert "pip install '.[report]'" in refused.err


def test_a_film_of_the_policy_is_in_the_page(runs: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    done = muster("report", "one", "--film", "--runs-dir", runs, "--json", cwd=runs, SDL_VIDEODRIVER="dummy")
    assert done.returncode == 0, done.stderr
    assert last_json(done)["kind"] == "run"
    assert 'src="data:video/mp4;base64,AAAA' in (runs / "one/report.html").read_text()


def test_a_metric_that_never_changes_is_drawn_at_its_value(runs: Path) -> None:
    history = read_history(RunFolder(runs / "one"))
    charts = {figure.title: figure.layout["yaxis"] for figure in other_metrics(history)}
    assert charts["learner/epochs"]["range"] == [9.0, 11.0]
    assert "range" not in charts["policy/entropy"]


def test_all_columns_at_once_are_what_each_is_alone(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "one", run, symlinks=True)
    whole = read_history(RunFolder(run))
    names = whole.record.rows.columns
    assert all(np.array_equal(whole.column(n), whole.record.rows.values(n), equal_nan=True) for n in names)
    text = (run / "metrics.csv").read_text().splitlines()
    (run / "metrics.csv").write_text("\n".join([*text, text[-1].replace(",", ",x", 3).replace(",x", ",", 2), ""]))
    damaged = read_history(RunFolder(run))
    assert list(damaged.column("steps")) == [64.0, 128.0, 128.0]
    assert np.isnan(damaged.column("return/mean")[-1])
