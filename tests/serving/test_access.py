"""Who can ask the live page for anything: only who has the token, from its own pages, by this machine's names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.runs.files import write_json
from muster.serving.access import POLICY
from tests.runs.tiny import train_tiny
from tests.serving.browser import Browser, served

pytest.importorskip("starlette")
PATHS = (
    "/",
    "/events",
    "/runs/one",
    "/events/one",
    "/content/one",
    "/report/one",
    "/assets/plotly.js",
    "/nothing",
)
SECRET = "a line that no page may show"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A server of one run, beside a file, a run and a log that are not below its folder."""
    outside = tmp_path_factory.mktemp("outside")
    root = outside / "runs"
    train_tiny(root, "one")
    train_tiny(outside, "private")
    (outside / "secret").write_text(SECRET)
    (root / "linked").symlink_to(outside / "private")
    (root / "one/job").mkdir()
    (root / "one/job/job.json").write_text("{}")
    (root / "one/job/job.o1").symlink_to(outside / "secret")
    with served(root) as found:
        yield found


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_answered_without_the_token(browser: Browser, path: str) -> None:
    refused = browser.get(path, cookie=False)
    assert refused.code == 401
    assert "muster serve" in refused.text
    assert browser.get(f"{path}?token={browser.token[:-1]}x", cookie=False).code == 401
    assert browser.get(path, cookie=False, Cookie=browser.cookie[:-1] + "x").code == 401
    assert browser.post("/stop/one", Cookie="").code == 401


def test_the_token_moves_from_the_address_into_a_cookie(browser: Browser) -> None:
    opened = browser.get(f"/runs/one?token={browser.token}&x=1", cookie=False)
    assert (opened.code, opened.headers["location"]) == (303, "/runs/one?x=1")
    cookie = opened.headers["set-cookie"]
    assert browser.token in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert opened.headers["referrer-policy"] == "no-referrer"
    assert browser.get(f"//elsewhere.example/?token={browser.token}", cookie=False).headers["location"] == (
        "/elsewhere.example/"
    )
    assert browser.get("/").code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "10.0.0.1"]
)
def test_another_name_of_this_host_is_refused(browser: Browser, host: str) -> None:
    assert browser.get("/", Host=host).code == 403
    assert browser.get(f"/?token={browser.token}", cookie=False, Host=host).code == 403


@pytest.mark.parametrize("host", ["localhost:1234", "127.0.0.1:4321", "[::1]:99"])
def test_a_tunnel_s_port_is_as_good(browser: Browser, host: str) -> None:
    assert browser.get("/", Host=host, Origin=f"http://{host}").code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1", ""])
def test_a_request_from_another_page_is_refused(browser: Browser, origin: str) -> None:
    assert browser.post("/stop/one", Origin=origin).code == 403
    assert browser.get("/", Origin=origin).code == 403


def test_stopping_needs_an_origin_and_a_post(browser: Browser) -> None:
    assert browser.get("/stop/one", "POST").code == 403
    assert browser.get("/stop/one").code == 405
    answer = browser.post("/stop/one")
    assert answer.code == 409, answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../private",
        "/runs/..%2fprivate",
        "/runs/%2e%2e/private",
        "/runs/one/../../private",
        "/runs//etc",
        "/runs/linked",
        "/runs/",
        "/runs/%00",
        "/runs/%ff",
        "/report/..",
        "/report/../private",
        "/report/",
        "/content/..%2fprivate",
        "/events/..%2fprivate",
        "/assets/../live.js",
        "/assets/..%2faccess.py",
    ],
)
def test_only_what_is_in_the_list_is_found(browser: Browser, path: str) -> None:
    assert browser.get(path).code == 404
    assert browser.post(path.replace("/runs/", "/stop/")).code in (404, 405)


def test_a_report_of_several_runs_leaves_out_links_that_lead_out(tmp_path: Path) -> None:
    inside = train_tiny(tmp_path / "runs/both", "seed-0")
    shutil.copytree(inside, tmp_path / "private", symlinks=True)
    write_json(tmp_path / "private/status.json", {"state": "finished", "steps": 987654321})
    (tmp_path / "runs/both/seed-1").symlink_to(tmp_path / "private")
    with served(tmp_path / "runs") as browser:
        report = browser.get("/report/both")
    assert report.code == 200
    assert "seed-0" in report.text
    assert "987,654,321" not in report.text and "seed-1" not in report.text


def test_links_that_lead_out_are_not_followed(browser: Browser) -> None:
    listed = browser.get("/").text
    assert "1 run left out" in listed
    assert "linked" not in listed
    page = browser.get("/runs/one").text
    assert "No log" in page
    assert SECRET not in page


@pytest.mark.parametrize("path", [*PATHS, "/stop/one"])
def test_every_answer_forbids_what_is_not_ours(browser: Browser, path: str) -> None:
    for answer in (browser.get(path), browser.get(path, cookie=False)):
        policy = answer.headers["content-security-policy"]
        assert (
            policy.startswith("sandbox allow-scripts; default-src 'none'")
            if path == "/report/one" and (answer.code == 200)
            else policy == POLICY
        )
        assert "unsafe-inline" not in POLICY.partition("script-src")[2].partition(";")[0]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        is_asset = path.startswith("/assets/") and answer.code == 200
        assert ("no-store" in answer.headers["cache-control"]) != is_asset
