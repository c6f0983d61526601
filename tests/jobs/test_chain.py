"""When a chain of jobs goes on."""

from __future__ import annotations

import pytest

from muster.jobs.chain import refusal
from muster.jobs.folder import Link, Order

ORDER = Order(kind="train", cluster="c", scheduler="slurm", chain="dependency", max_jobs=5)


def link(number: int, progress: int | None, code: int | None, job: str = "") -> Link:
    return Link(number, job or f"job{number}", 0.0, progress, ended=None if code is None else 1.0, exit_code=code)


@pytest.mark.parametrize("code", [75, 137, None])
def test_it_goes_on_after_a_link_that_has_saved_or_was_killed(code: int | None) -> None:
    assert refusal(ORDER, [link(1, 0, code)], "job2", 10) is None


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 130, 143])
def test_it_ends_after_any_other_code(code: int) -> None:
    refused = refusal(ORDER, [link(1, 0, code)], "job2", 10)
    assert refused is not None
    assert (refused.exit_code, refused.state) == (0, None)


def test_a_job_that_the_scheduler_restarts_after_a_preemption_goes_on() -> None:
    assert refusal(ORDER, [link(1, 0, 143, job="same")], "same", 10) is None
    assert refusal(ORDER, [link(1, 0, 0, job="same")], "same", 10) is not None


def test_it_ends_after_as_many_jobs_as_allowed() -> None:
    links = [link(number, 10 * number, 75) for number in range(1, 6)]
    refused = refusal(ORDER, links, "job6", 60)
    assert refused is not None
    assert refused.state == "stopped"
    assert refusal(ORDER, links[:4], "job5", 60) is None


def test_it_ends_after_two_links_in_a_row_without_progress() -> None:
    assert refusal(ORDER, [link(1, 0, 75), link(2, 10, None)], "job3", 10) is None
    refused = refusal(ORDER, [link(1, 0, 75), link(2, 10, None), link(3, 10, 75)], "job4", 10)
    assert refused is not None
    assert (refused.exit_code, refused.state) == (1, "failed")
    assert refusal(ORDER, [link(1, 0, 75), link(2, 10, None), link(3, 10, 75)], "job4", 11) is None


def test_a_command_counts_no_progress_and_is_bounded_by_its_jobs_alone() -> None:
    links = [link(number, None, 75) for number in range(1, 4)]
    assert refusal(ORDER, links, "job4", None) is None
