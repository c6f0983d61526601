"""A trial hears from its sweep while an iteration is under way."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from muster.sweeps.folder import SweepFolder
from muster.sweeps.sweep_watch import LOOK_SECONDS, SweepWatch
from muster.training.interruption import Interruption


def test_it_hears_while_it_is_asked_whether_to_abandon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setenv("MUSTER_GRACE", "4")
    folder = SweepFolder(tmp_path)
    with SweepWatch(folder) as watch:
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert not watch.must_abandon()
        folder.interrupt(Interruption("the sweep was told to end", 143))
        now += LOOK_SECONDS
        assert not watch.must_abandon(), "the iteration may end within the grace period"
        assert watch.pending() == Interruption("the sweep was told to end", 143)
        now += 4
        assert watch.must_abandon()
