"""When a chain of jobs continues, and when it ends. Pure functions on the record of its links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.jobs.folder import Link, Order

SAVED = 75
KILLED = 137
"""Killed from outside, and so without a code of its own, as when a whole job is lost."""
INTERRUPTED = (130, 143)
STALLED_LINKS = 2


@dataclass(frozen=True)
class Refusal:
    """Why a link of the chain is not to run, and what the run is then; no state if it stays as it is."""

    reason: str
    exit_code: int = 0
    state: str | None = None


def may_continue(exit_code: int | None) -> bool:
    """Whether a link after this end continues the run: it has saved, or could not say how it ended."""
    return exit_code in (SAVED, KILLED, None)


def refusal(order: Order, links: Sequence[Link], own_job: str, progress: int | None) -> Refusal | None:
    """Return why the next link is not to run, or None if it is."""
    if not links:
        return None
    last = links[-1]
    # A job that the scheduler itself starts again, after a preemption or on another host, was told to end by it.
    restarted = last.job_id == own_job and last.exit_code in INTERRUPTED
    if not may_continue(last.exit_code) and not restarted:
        return Refusal(f"link {last.number} ended with code {last.exit_code}: nothing is left to do")
    if len(links) >= order.max_jobs:
        return Refusal(f"{len(links)} jobs have run, as many as --max-jobs allows", state="stopped")
    if is_stalled(links, progress):
        return Refusal(
            f"the last {STALLED_LINKS} jobs made no progress, so the chain ends here", exit_code=1, state="failed"
        )
    return None


def is_stalled(links: Sequence[Link], progress: int | None) -> bool:
    """Whether none of the last links got any further than the one before."""
    seen = [link.progress for link in links[-STALLED_LINKS:]] + [progress]
    numbers = [number for number in seen if number is not None]
    return len(numbers) == len(seen) > STALLED_LINKS and max(numbers) <= numbers[0]
