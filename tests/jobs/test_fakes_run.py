"""Rendered job scripts, executed by the fake schedulers: states, exit codes, cancels and chains."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from muster.clusters.named import FoundCluster, NamedCluster
from muster.errors import JobError
from muster.jobs.cancelling import cancel_runs
from muster.jobs.delivery import carry_out
from muster.jobs.folder import JobFolder
from muster.jobs.states import RunState, read_states
from muster.jobs.submission import plan_command
from muster.jobs.submission_plan import SubmitOptions
from tests.fakes.jobs import DONE
from tests.fakes.site import FakeSite

MakeSite = Callable[..., FakeSite]
SCHEDULERS = ("pbs", "cobalt", "lsf", "flux")
ENDS = ("finished", "failed", "cancelled", "stopped", "lost")
COUNTING = "n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) >count; test $n -ge {times} && exit 0; exit 75"


@pytest.fixture
def make_site(fake_site: MakeSite, project: Path, monkeypatch: pytest.MonkeyPatch) -> MakeSite:
    """Makes a fake scheduler whose commands are on PATH, also in login shells."""

    def make(scheduler: str) -> FakeSite:
        site = fake_site(scheduler, kill_delay=1.0, minute=3.0)
        home = project.parent / "home"
        home.mkdir()
        site.write_profile(home)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PATH", site.environment["PATH"])
        return site

    return make


@pytest.fixture(params=SCHEDULERS)
def site(request: pytest.FixtureRequest, make_site: MakeSite) -> FakeSite:
    """Each fake scheduler in turn."""
    return make_site(request.param)


def submit(
    site: FakeSite, command: str, *, chain: str | None = None, max_jobs: int = 1, wall_time: float = 60.0
) -> JobFolder:
    """Submit a shell command as each job's work, in place of a launch."""
    table = {"scheduler": site.scheduler, "wall_time": wall_time, "cpus": 1, "chain": chain}
    cluster = NamedCluster.model_validate({key: value for key, value in table.items() if value is not None})
    options = SubmitOptions(
        FoundCluster(site.scheduler, cluster, "test"), Path.cwd() / "runs", max_jobs=max_jobs, snapshot=False
    )
    plan = plan_command(["true"], options)
    carry_out(replace(plan, order=replace(plan.order, command=["/bin/sh", "-c", command])))
    return plan.job


def wait_for(job: JobFolder, states: Sequence[str], seconds: float = 12.0) -> RunState:
    """Ask for a run's state until it is one of those."""
    deadline = time.monotonic() + seconds
    while (state := read_states([job])[0]).state not in states:
        assert time.monotonic() < deadline, str([path.read_text() for path in job.outputs()]) + str(state)
        time.sleep(0.1)
    return state


def test_a_job_goes_from_queued_over_running_to_its_end(site: FakeSite) -> None:
    site.pause()
    job = submit(site, "echo work; until test -e go; do sleep 0.1; done; exit 3")
    assert wait_for(job, ["queued", *ENDS]).state == "queued"
    site.unpause()
    assert wait_for(job, ["running", *ENDS]).state == "running"
    Path("go").touch()
    state = wait_for(job, ENDS)
    assert (state.state, state.exit_code) == ("failed", 3)
    site.wait(1)
    assert any("work" in path.read_text() for path in job.outputs()), list(job.folder.iterdir())


def test_a_cancelled_job_saves_and_is_gone(site: FakeSite) -> None:
    job = submit(site, "trap 'touch saved; exit 143' TERM; touch up; sleep 60 & wait", max_jobs=3)
    wait_for(job, ["running"])
    while not Path("up").exists():
        time.sleep(0.05)
    assert cancel_runs([job], lambda _: None)
    assert wait_for(job, ENDS).state == "cancelled"
    assert Path("saved").exists()
    deadline = time.monotonic() + 15
    while any(one.state != DONE for one in site.jobs()):
        assert time.monotonic() < deadline, site.jobs()
        time.sleep(0.1)
    assert len(job.links()) == 1


def test_a_chain_by_dependency_ends_when_the_work_is_done(site: FakeSite) -> None:
    job = submit(site, COUNTING.format(times=2), chain="dependency", max_jobs=5)
    assert wait_for(job, ["finished", "failed", "lost"]).state == "finished"
    assert [link.exit_code for link in job.links()] == [75, 75, 0]
    assert len({link.job_id for link in job.links()}) == 3


def test_jobs_submitted_ahead_leave_when_nothing_is_left_to_do(site: FakeSite) -> None:
    job = submit(site, COUNTING.format(times=1), chain="ahead", max_jobs=3)
    assert len(job.submitted()) == 3
    assert wait_for(job, ["finished", "failed", "lost"]).state == "finished"
    for number in (1, 2, 3):
        site.wait(number)
    assert [link.exit_code for link in job.links()] == [75, 0]


@pytest.mark.long
def test_a_job_killed_at_its_wall_time_is_continued(site: FakeSite) -> None:
    """The command does not save in time, so that the next job has to find out by itself."""
    work = "test -e again && exit 0; touch again; trap '' TERM INT USR2 ALRM; sleep 60"
    # Cobalt and LSF count minutes, of which the fake's have 3 s.
    job = submit(
        site, work, chain="dependency", max_jobs=3, wall_time=3.0 if site.scheduler in ("pbs", "flux") else 60
    )
    if site.scheduler == "cobalt":
        # A job that others depend on must end well there, and one that is killed does not.
        [first] = site.wait(1)
        assert first.reason == "limit"
        return
    assert wait_for(job, ["finished", "failed"]).state == "finished"
    assert len(job.links()) == 2


def test_lsf_queues_a_saved_job_again(make_site: MakeSite) -> None:
    lsf = make_site("lsf")
    job = submit(lsf, COUNTING.format(times=1), chain="requeue", max_jobs=3)
    assert wait_for(job, ["finished", "failed", "lost"]).state == "finished"
    assert [link.job_id for link in job.links()] == ["1", "1"]


def test_a_scheduler_that_is_down_is_no_reason_to_act(site: FakeSite) -> None:
    job = submit(site, "until test -e go; do sleep 0.1; done")
    wait_for(job, ["running"])
    site.go_down()
    assert read_states([job])[0].state == "unknown"
    site.misbehave({"lsf": "bjobs", "flux": "flux"}.get(site.scheduler, "qstat"), stdout="<html>garbage</html>\n")
    assert read_states([job])[0].state == "unknown"
    site.behave()
    Path("go").touch()
    assert wait_for(job, ENDS).state == "finished"


def test_a_refused_submit_leaves_nothing_behind(site: FakeSite) -> None:
    site.refuse_submits()
    with pytest.raises(JobError, match="failed with code"):
        submit(site, "true")
    assert not list(Path("runs").iterdir())
