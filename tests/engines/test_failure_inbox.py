"""Failures on their way to the run: none is lost, however late the answer."""

from __future__ import annotations

import pytest

from muster.engines import failure_inbox
from muster.engines.failure_inbox import FailureInbox
from muster.stepping.calls import Call
from muster.stepping.failures import Place, failure_of


def test_an_answer_that_comes_late_is_taken_later(
    ray_with_four_cpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = FailureInbox()
    failure = failure_of(RuntimeError("the pump broke"), Place(0, 0, 0, 0, 0, 0), Call.STEP, [])
    inbox.put(failure)
    monkeypatch.setattr(failure_inbox, "TAKE_SECONDS", 0)
    assert inbox.take() == []
    monkeypatch.setattr(failure_inbox, "TAKE_SECONDS", 10)
    assert inbox.take() == [failure]
    assert inbox.take() == []
    inbox.close()
