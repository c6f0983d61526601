"""The live page in a real browser: it changes without a reload, asks nobody else, and has no error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from muster.jobs.dashboard.page import page_file
from tests.commands import wait_until
from tests.reports.chromium import CHROMIUM
from tests.reports.test_pages import MARKUP
from tests.runs.tiny import train_tiny
from tests.serving.browser import served
from tests.serving.chromium_page import chromium_page
from tests.serving.test_live_pages import grow

pytest.importorskip("starlette")
pytest.importorskip("plotly")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
STEPS = "document.getElementById('figure-0').data[2].x.slice(-1)[0]"
SUMMARY = "document.getElementById('summary').textContent"


def test_the_curve_grows_in_an_open_page(tmp_path: Path) -> None:
    run = train_tiny(tmp_path / "runs", "one")
    shutil.copytree(run, tmp_path / "runs" / MARKUP, symlinks=True)
    with served(tmp_path / "runs") as browser, chromium_page(tmp_path / "profile") as page:
        server = f"http://127.0.0.1:{browser.port}/"
        page.open(f"{server}runs/one?token={browser.token}")
        wait_until(lambda: page.evaluate(STEPS) == 128, "the chart")
        assert page.evaluate("location.href") == f"{server}runs/one"
        page.evaluate("window.isTheSamePage = true; document.querySelector('details').open = true")
        grow(run, 5)
        wait_until(lambda: page.evaluate(STEPS) == 448, "the curve to grow", 30)
        wait_until(lambda: "448 steps" in (page.evaluate(SUMMARY) or ""), "the summary")
        assert page.evaluate("isTheSamePage && document.querySelector('details').open") is True

        page.open(server)
        wait_until(lambda: page.evaluate("document.getElementById('count').textContent") == "2 runs", "the list")
        page.evaluate("document.getElementById('name').value = 'error'")
        page.evaluate("document.getElementById('name').dispatchEvent(new Event('input'))")
        shown = "[...document.querySelectorAll('#runs tbody tr')].filter((row) => !row.hidden).length"
        assert page.evaluate(shown) == 1
        grow(run)
        row = "document.querySelector('tr[data-run=one]').textContent"
        wait_until(lambda: "512" in (page.evaluate(row) or ""), "the row of the run", 30)
        assert page.evaluate(shown) == 1, "the choice holds for rows that have changed"
        assert page.evaluate("document.images.length") == 0
    assert page.console == []
    assert [address for address in page.requests if not address.startswith((server, "data:", "blob:"))] == []


def test_the_file_that_a_browser_is_given_leads_to_the_page(tmp_path: Path) -> None:
    train_tiny(tmp_path / "runs", "one")
    with served(tmp_path / "runs") as browser, chromium_page(tmp_path / "profile") as page:
        server = f"http://127.0.0.1:{browser.port}/"
        with page_file(f"{server}runs/one?token={browser.token}") as file:
            page.open(file.as_uri())
            wait_until(lambda: page.evaluate("location.href") == f"{server}runs/one", "the page", 10)
            wait_until(lambda: page.evaluate("document.querySelector('h1').textContent") == "one", "the run", 10)
