"""The feed: however many pages are open, the folders are read once, and not at all when none is."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from tests.runs.tiny import train_tiny

pytest.importorskip("starlette")

from muster.runs.files import write_json
from muster.runs.folder import RunFolder
from muster.serving import feed as module
from muster.serving import run_content, run_watch
from muster.serving.feed import Feed
from muster.serving.log_tail import MOST_BYTES, log_tail
from muster.serving.run_content import Contents
from muster.serving.run_watch import RunWatch


class CountedWatch(RunWatch):
    """Counts how often it looks."""

    looks = 0

    def look(self) -> None:
        self.looks += 1
        super().look()


def test_many_readers_share_one_look_and_none_means_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(module, "SHARE", 1.0)
    train_tiny(tmp_path, "one")
    watch = CountedWatch(tmp_path)

    async def read(feed: Feed, number: int) -> int:
        events = feed.run_events("one") if number % 2 else feed.list_events()
        count = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(1.5):
                async for _ in events:
                    count += 1
        await events.aclose()
        return count

    async def main() -> tuple[list[int], int, int]:
        feed = Feed(watch)
        task = asyncio.create_task(feed.run())
        counts = await asyncio.gather(*(read(feed, number) for number in range(50)))
        with_readers = watch.looks
        await asyncio.sleep(1)
        task.cancel()
        return counts, with_readers, watch.looks

    counts, with_readers, at_end = asyncio.run(main())
    assert min(counts) >= 1
    assert 2 <= with_readers <= 9
    assert at_end <= with_readers + 1


def test_a_run_that_cannot_be_shown_leaves_the_others_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(train_tiny(tmp_path, "good"), tmp_path / "bad", symlinks=True)
    for place, name in ((run_watch, "read_row"), (run_watch, "row_html"), (run_content, "fill")):
        original = getattr(place, name)
        calls = 0

        def fail_first(*given: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise RuntimeError("unforeseen")
            return original(*given)  # noqa: B023

        with monkeypatch.context() as patched:
            patched.setattr(place, name, fail_first)
            watch, contents = RunWatch(tmp_path), Contents()
            watch.look()
            monkeypatch.setattr(run_content, "SHARE", 1e9)
            contents.renew({path: RunFolder(tmp_path / path) for path in ("bad", "good")})
        shown = [seen.html for seen in watch.runs.values()]
        shown += [str(content.parts) for path in ("bad", "good") if (content := contents.newest(path))]
        assert len(shown) == 4
        assert sum("unforeseen" in text for text in shown) == 1, name


def test_a_reason_of_any_text_is_sent(tmp_path: Path) -> None:
    run = train_tiny(tmp_path, "one")
    watch = RunWatch(tmp_path)
    write_json(run / "status.json", {"state": "failed", "reason": "odd \ud800 <b>", "updated": 1.0})
    watch.look()
    sent = module.summary_html(watch.runs["one"])
    assert "odd \ufffd &lt;b&gt;" in sent
    sent.encode()


def test_the_end_of_a_log_is_plain_text(tmp_path: Path) -> None:
    log = tmp_path / "job.o1"
    assert "not submitted" in log_tail(None)
    assert log_tail(log).startswith("job.o1: No such file")
    log.write_bytes(b"first\n" * MOST_BYTES + b"10%\r50%\r100%\r\n\x1b[1mbold\x1b[0m \x07\xff<b>\n")
    lines = log_tail(log).splitlines()
    assert len(lines) <= 201
    assert lines[-2:] == ["100%", "bold \ufffd\ufffd<b>"]
    assert lines[0] == "first"
