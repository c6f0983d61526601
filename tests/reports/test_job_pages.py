"""What a report shows of a run's jobs and of the cluster that they brought up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.jobs.folder import LINK_ENDED, STARTED, SUBMITTED, JobFolder, Order
from tests.commands import muster_here
from tests.reports.test_pages import body_of
from tests.runs.tiny import train_tiny

pytest.importorskip("plotly")
NOW = 1_790_000_000.0


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two links on two hosts of four CPUs, of which the second lost a host and has not ended."""
    run = train_tiny(tmp_path, "run")
    job = JobFolder(run)
    job.create(Order("train", "bigiron", "slurm", chain="requeue", max_jobs=4, nodes=2, cpus=4), {})
    lines = [
        {"event": SUBMITTED, "job_id": "7", "time": NOW, "anew": True},
        {"event": STARTED, "job_id": "7", "time": NOW, "link": 1, "host": "node1", "progress": 0},
        {
            "event": LINK_ENDED,
            "job_id": "7",
            "time": NOW + 1800,
            "link": 1,
            "exit_code": 75,
            "cpu_seconds": 7200.0,
        },
        {"event": STARTED, "job_id": "7", "time": NOW + 1900, "link": 2, "host": "node1", "progress": 1},
    ]
    job.record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    usage = job.folder / "usage"
    usage.mkdir()
    for host, seconds in (("node1", 5400.0), ("node2", 1800.0)):
        (usage / f"1-{host}-33.json").write_text(json.dumps({"cpu_seconds": seconds, "memory": 2 * 1024**3}))
    (usage / "2-node1-44.json").write_text("[")
    launch = run / "launches" / "slurm-7"
    launch.mkdir(parents=True)
    events = [
        {"time": NOW + 1901, "host": "node1", "event": "rank here", "rank": 0},
        {"time": NOW + 1902.5, "host": "node2", "event": "ray started", "cpus": 4},
        {"time": NOW + 1960, "host": "node1", "event": "host lost", "name": "node2"},
    ]
    (launch / "bring-up.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return run


def test_links_hosts_and_lost_hosts_are_shown(run: Path, tmp_path: Path) -> None:
    done = muster_here("report", run, "-o", tmp_path / "page.html")
    assert done.code == 0, done.err
    text = body_of(tmp_path / "page.html")
    for expected in (
        "2 links of at most 4 on bigiron",
        "CPUs 50 % busy",
        '<td class="n">50 %</td>',
        "<td>node2</td>",
        '<td class="n">3.0</td><td class="n">75 %</td><td class="n">2.00 GiB</td>',
        "Bring-up slurm-7",
        "59.00 s  node1  host lost: name node2",
    ):
        assert expected in text, expected


@pytest.mark.parametrize("content", [b"", b"[1]\n{\n", b"\0" * 100, b'{"time": "soon", "event": [1]}\n'])
def test_damaged_records_of_jobs_give_a_page(run: Path, tmp_path: Path, content: bytes) -> None:
    for path in (
        run / "jobs.jsonl",
        run / "job/job.json",
        run / "launches/slurm-7/bring-up.jsonl",
        run / "events.jsonl",
    ):
        path.write_bytes(content)
    done = muster_here("report", run, "-o", tmp_path / "page.html")
    assert done.code == 0, done.err
    assert "job.json: cannot be read" in body_of(tmp_path / "page.html")
