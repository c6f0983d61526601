"""What Tune says of the trials goes to the record and to whoever watches; an interruption goes to the trials."""

from __future__ import annotations

import time
from typing import Any

from ray.tune import Callback, Stopper
from ray.tune.stopper import NoopStopper

from muster.sweeps.record import SweepRecord
from muster.sweeps.sweep_listener import SweepListener
from muster.sweeps.trial_run import OUTCOME
from muster.training.interruption import InterruptionWatch

WAITING_SECONDS = 30.0


class Reporter(Callback):  # type: ignore[misc]
    """Keeps the record up to date."""

    def __init__(self, record: SweepRecord, watch: InterruptionWatch, listener: SweepListener) -> None:
        self._record = record
        self._watch = watch
        self._listener = listener
        self._last_progress = time.monotonic()
        self.stopper = InterruptionStopper(record, watch)

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Take over the trial's values: they may have changed since it last ran."""
        self._last_progress = time.monotonic()
        known = self._record.find(trial.trial_id)
        known.values = dict(trial.config["values"])
        self._change(trial.trial_id, "running")

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Take over a row, and the outcome that comes with the last one."""
        self._last_progress = time.monotonic()
        known = self._record.find(trial.trial_id)
        known.add(result, self._record.metric)
        self._watch.measured(iteration=result.get("time/sample", 0.0) + result.get("time/learn", 0.0))
        if outcome := result.get(OUTCOME):
            known.exit_code = outcome["exit_code"]
            self._change(known.name, outcome["state"], outcome["reason"])
            if outcome["state"] == "failed":
                self._listener.failed(known.name, outcome["details"])
        else:
            self._listener.changed(self._record, known.name)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note that the scheduler ended a trial, which now saves."""
        if self._record.find(trial.trial_id).state == "running":
            self._change(trial.trial_id, "stopped", "stopped early by asha: others were better", 0)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note that a trial's process died too often."""
        reason = "its process died again and again; see its folder, and the memory of the machine"
        self._change(trial.trial_id, "failed", reason, 1)
        self._listener.failed(trial.trial_id, reason)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Tell that a trial's process died, and that it resumes."""
        self._listener.noticed(f"{trial.trial_id}: its process died; it resumes from its last checkpoint")

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Note which trials are paused, and say so if nothing runs for long."""
        for trial in trials:
            if trial.status == trial.PAUSED and self._record.find(trial.trial_id).state == "running":
                self._change(trial.trial_id, "queued", "paused: others take their turn")
        running = any(trial.state == "running" for trial in self._record.trials)
        if not running and time.monotonic() - self._last_progress > WAITING_SECONDS:
            self._last_progress = time.monotonic()
            self._listener.noticed("no trial runs: waiting for CPUs of Ray that others use")

    def _change(self, name: str, state: str, reason: str = "", exit_code: int | None = None) -> None:
        trial = self._record.find(name)
        trial.state, trial.reason = state, reason
        trial.exit_code = trial.exit_code if exit_code is None else exit_code
        self._record.save()
        self._listener.changed(self._record, name)


class InterruptionStopper(Stopper):  # type: ignore[misc]
    """Ends all trials when the sweep is interrupted."""

    def __init__(self, record: SweepRecord, watch: InterruptionWatch) -> None:
        self._folder = record.folder
        self._watch = watch
        self._has_told = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        interruption = self._watch.pending()
        if interruption is not None and not self._has_told:
            self._folder.interrupt(interruption)
            self._has_told = True
        return interruption is not None

    def __reduce__(self) -> Any:
        """Tune pickles its stopper into a file that is of no use to us."""
        return NoopStopper, ()
