"""What the live page shows: all runs, one run, what changes while it trains; text of run folders stays text."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from muster.runs.files import write_json
from tests.commands import MUSTER, environment, muster_here, start_muster, wait_until
from tests.reports.test_pages import MARKUP
from tests.runs.test_damage import DAMAGES, SMALL_FILES
from tests.runs.tiny import train_tiny
from tests.serving.browser import Browser, served

pytest.importorskip("starlette")
pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("runs"), "one", **{"evaluation.every": 1, "evaluation.episodes": 1})


def copied(original: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(original, target, symlinks=True)
    return target


def grow(run: Path, rows: int = 1) -> None:
    """Append what an iteration writes."""
    metrics = run / "metrics.csv"
    last = metrics.read_text().splitlines()[-1].split(",")
    with metrics.open("a") as file:
        for at in range(1, rows + 1):
            file.write(",".join([str(int(last[0]) + at), str(int(last[1]) + 64 * at), *last[2:]]) + "\n")
    status = json.loads((run / "status.json").read_text())
    status |= {"iteration": status["iteration"] + rows, "steps": status["steps"] + 64 * rows}
    write_json(run / "status.json", status)


def test_names_tracebacks_and_logs_that_are_markup_are_text(original: Path, tmp_path: Path) -> None:
    run = copied(original, tmp_path / MARKUP / "seed-0")
    odd = os.fsdecode(b"odd-\xff\n'\"#?&%2e")
    copied(original, tmp_path / odd)
    (run / "failures").mkdir()
    failure = {"error": f"</script>{MARKUP}\ud800", "traceback": f"</pre>{MARKUP}\ud800", "seed": 1}
    (run / "failures/0001.json").write_text(json.dumps(failure))
    (run / "job").mkdir()
    (run / "job/job.json").write_text("{}")
    (run / "job/job.o1").write_text(f"</pre>{MARKUP}\n\x1b[31mred\x1b[0m\n")
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps({**status, "reason": f"{MARKUP}\ud800"}))
    with served(tmp_path) as browser:
        pages = [browser.get("/")]
        links = re.findall(r'href="(/(?:runs|report)/[^"]+)"', pages[0].text)
        assert len(links) == 3
        pages += [browser.get(link) for link in links]
        name, value = next(iter(browser.events("/events")))
        content = json.loads(value)
    assert [page.code for page in pages] == [200] * 4
    assert any("1 failure of the simulator" in page.text for page in pages)
    for text in [*(page.text for page in pages), *content["rows"].values()]:
        assert "<img" not in text
    for page in pages[:1]:
        assert "&lt;img src=x" in page.text
    assert name == "rows"
    assert any("red" in page.text and "\x1b" not in page.text for page in pages)


def test_the_list_has_every_run_and_is_kept_up_to_date(original: Path, tmp_path: Path) -> None:
    for number in range(3):
        copied(original, tmp_path / f"run-{number}")
    with served(tmp_path) as browser:
        page = browser.get("/").text
        for expected in ('data-run="run-1"', "CartPole-v1", "PPO", "128</td>", "finished"):
            assert expected in page, expected
        events = browser.events("/events")
        assert len(json.loads(next(events)[1])["order"]) == 3
        grow(tmp_path / "run-1", 1)
        changed: dict[str, str] = {}
        while "192</td>" not in changed.get("run-1", "") or "<polyline" not in changed["run-1"]:
            changed = json.loads(next(events)[1])["rows"]
            assert list(changed) == ["run-1"], "a row that has not changed is not sent"
        shutil.rmtree(tmp_path / "run-2")
        copied(original, tmp_path / "late")
        wait_until(
            lambda: set(json.loads(next(events)[1])["order"]) == {"run-0", "run-1", "late"}, "a new run", 20
        )
        events.close()


def test_a_run_s_page_grows_while_it_trains(original: Path, tmp_path: Path) -> None:
    run = copied(original, tmp_path / "one")
    with served(tmp_path) as browser:
        page = browser.get("/runs/one").text
        assert "PPO on CartPole-v1, seed 0" in page
        assert "steps in 2 iterations" in page
        events = browser.events("/events/one")
        first = dict((next(events), next(events)))
        assert "128 steps" in first["state"]
        grow(run, 5)
        seen: dict[str, str] = {}
        while "content" not in seen or "448 steps" not in seen.get("state", ""):
            name, value = next(events)
            seen |= {name: value} if value != first.get(name) else {}
        events.close()
        answer = browser.get("/content/one")
        assert answer.headers["x-version"] == seen["content"]
        assert answer.headers["content-encoding"] == "gzip"


@pytest.fixture(scope="module")
def damaged(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A server of runs that are named by how all their small files are damaged."""
    root = tmp_path_factory.mktemp("damaged")
    for damage, do in DAMAGES.items():
        run = copied(original, root / damage)
        for name in SMALL_FILES:
            do(run / name)
    with served(root) as browser:
        yield browser


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_runs_are_listed_and_have_a_page_that_says_what_is_missing(damaged: Browser, damage: str) -> None:
    row = damaged.get("/").text.partition(f'data-run="{damage}"')[2].partition("</tr>")[0]
    assert "missing or damaged" in row
    page = damaged.get(f"/runs/{damage}")
    assert page.code == 200
    assert "Missing or damaged" in page.text
    for name in ("experiment.toml", "metrics.csv", "versions.json"):
        assert f"<li>{name}" in page.text, name


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("muster.serving.app", "uvicorn"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    refused = muster_here("serve", tmp_path)
    assert refused.code == 2
    assert "pip install '.[serve]'" in refused.err


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    refused = muster_here("serve", tmp_path / "nothing")
    assert (refused.code, "no such folder" in refused.err) == (2, True)


def test_a_single_run_is_refused_with_what_shows_it(original: Path) -> None:
    refused = muster_here("serve", original)
    assert refused.code == 2
    assert "is one run, expected a folder of runs" in refused.err
    assert f"muster dashboard {original} --live" in refused.err


def test_a_folder_is_found_by_its_name_among_the_runs(original: Path, tmp_path: Path) -> None:
    copied(original, tmp_path / "runs/tuned/trial-0")
    process = start_muster("serve", "tuned", "--json", cwd=tmp_path)
    try:
        assert process.stdout is not None
        printed = process.stdout.readline()
        assert printed and json.loads(printed)["runs"] == str(tmp_path / "runs/tuned")
    finally:
        process.kill()
        process.communicate()


def on_a_terminal(folder: Path, *arguments: str) -> str:
    """Run a command on a terminal until it says how to end it; return the address that it shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(MUSTER), *arguments], cwd=folder, env=environment(), stdout=theirs, stderr=theirs, stdin=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while b"Ctrl-C" not in shown:
            shown += os.read(ours, 4096)
        address = re.search(rb"http://127\.0\.0\.1:\d+/\S*\?token=\S+", shown)
        assert address is not None, shown
        opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor).open(
            address[0].decode(), timeout=20
        )
        page = str(opened.read().decode())
        assert "token" not in opened.url
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
        return page
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_terminal_shows_the_address_with_its_token(original: Path, tmp_path: Path) -> None:
    copied(original, tmp_path / "runs/one")
    assert "<h1>Runs</h1>" in on_a_terminal(tmp_path, "serve", "--no-browser")
    assert "<h1>one</h1>" in on_a_terminal(tmp_path, "dashboard", "one", "--live", "--no-browser")
    elsewhere = start_muster("serve", cwd=tmp_path)
    assert elsewhere.stdout is not None and elsewhere.stderr is not None
    assert "token" not in elsewhere.stdout.readline()
    assert "`muster serve --json` prints it" in elsewhere.stderr.readline()
    elsewhere.send_signal(signal.SIGINT)
    elsewhere.communicate(timeout=20)


def test_the_token_is_in_no_command_line_of_a_browser(original: Path, tmp_path: Path) -> None:
    copied(original, tmp_path / "runs/one")
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}.part; mv {seen}.part {seen}\n')
    browser.chmod(0o755)
    process = start_muster(
        "serve",
        "runs",
        cwd=tmp_path,
        BROWSER=f"{browser} %s &",
        DISPLAY=":9",
        SSH_CONNECTION="",
        TMPDIR=str(tmp_path),
    )
    try:
        wait_until(seen.exists, "the browser")
        arguments = seen.read_text()
        assert "token=" not in arguments
        page = Path(urlsplit(arguments.strip()).path)
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        leads_to = re.search(r"url=([^\"]+)", page.read_text())
        assert leads_to is not None
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor)
        assert "<h1>Runs</h1>" in opener.open(leads_to[1], timeout=20).read().decode()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert not page.parent.exists()
    finally:
        process.kill()
        process.communicate()
