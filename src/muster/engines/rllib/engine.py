"""RLlib's algorithms as an engine: an iteration is one `train()`, watched from outside."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import ray
import torch

from muster.engines.engine import Interrupted, Iteration, SamplingAbandonedError, SimulatorFailure, Tell
from muster.engines.hanging import interrupted_on_hang
from muster.engines.moments import Moments
from muster.engines.rllib import state
from muster.engines.rllib.collecting import start_collector
from muster.engines.rllib.configuring import Subject, make_config, quieten
from muster.engines.rllib.guarding import GuardedSimulator, GuardSettings
from muster.engines.rllib.policy import RLlibPolicy
from muster.engines.rllib.spaces import ObservationCoder
from muster.engines.rllib.station import STATION, EscapeError, Report, Scales
from muster.engines.rllib.watching import WatchedTraining
from muster.engines.waiting import get
from muster.errors import NonFiniteUpdateError, RayLostError
from muster.simulators.building import Simulator
from muster.simulators.seeding import Stream, reset_seed


class RLlibEngine:
    """One of RLlib's algorithms for one experiment, with a number of env runners (0: in this process)."""

    def __init__(
        self,
        subject: Subject,
        simulator: Simulator,
        num_workers: int,
        interrupted: Interrupted,
        checkpoint: Path | None = None,
        weights_from: Path | None = None,
    ) -> None:
        quieten()
        torch.set_num_threads(subject.experiment.resources.learner_threads)
        STATION.begin()
        self._subject = subject
        self._coder = ObservationCoder(subject.observations)
        self._num_workers = num_workers
        self._interrupted = interrupted
        self._collector = start_collector() if num_workers else None
        start = int(checkpoint.name) if checkpoint is not None else 0
        config = self._config(simulator, start)
        with _quiet_ray() if num_workers else nullcontext():
            self._algorithm = config.build_algo()
        _remove_log_folder(self._algorithm)
        values = self._load(checkpoint, weights_from)
        self._captured = state.capture(self._algorithm, values["observations"], values["returns"])
        self._figures = _figures_of(subject, config)
        at_once = config.total_train_batch_size if subject.algorithm.steps is None else 0
        self.batch_size = max(config.min_sample_timesteps_per_iteration, at_once)
        self.episodes_restarted = checkpoint is not None
        self._watched = WatchedTraining(self._algorithm, self._collector)
        self._is_training = False

    def _config(self, simulator: Simulator, start: int) -> Any:
        subject, experiment = self._subject, self._subject.experiment
        env_config: dict[str, Any] = {"collector": self._collector}
        config = make_config(subject, self._num_workers, GuardedSimulator, env_config)
        config.debugging(seed=reset_seed(experiment.seed, Stream.LEARNER, start))
        env_config["settings"] = GuardSettings(
            simulator,
            subject.observations,
            subject.actions,
            experiment.resources.envs_per_group,
            experiment.seed,
            start,
            config.gamma,
            experiment.normalize.observations,
            experiment.normalize.rewards,
            experiment.env.restart_every,
            experiment.env.check_bounds,
            experiment.env.step_timeout,
        )
        return config.environment(env_config=env_config)

    def _load(self, checkpoint: Path | None, weights_from: Path | None) -> dict[str, Any]:
        source = checkpoint or weights_from
        if source is None:
            return {"observations": Moments.empty(len(self._coder.scalable)), "returns": Moments.empty(1)}
        values = state.read(source)
        if checkpoint is not None:
            state.restore(self._algorithm, values)
            state.read_replay(self._algorithm, checkpoint)
        else:
            state.restore_weights(self._algorithm, values, source)
        return values

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The columns that the algorithm adds to the record."""
        return tuple(self._figures)

    def iterate(self, fraction_done: float, interrupted: Interrupted, tell: Tell) -> Iteration:
        """Let RLlib train once; the state to be saved changes only if all of it succeeds.

        Nothing is told before it ends.

        Raises:
            SimulatorError, SamplingAbandonedError, NonFiniteUpdateError, RayLostError: the state is as it was
                before.
        """
        started = time.perf_counter()
        self._interrupted = interrupted
        STATION.scales = self._scales()
        if self._collector:
            get(self._collector.set_scales.remote(STATION.scales), interrupted)
        self._is_training = True
        result = self._watched.train(interrupted) if self._num_workers else self._train_here(interrupted)
        self._is_training = False
        seconds = time.perf_counter() - started
        report = get(self._collector.take.remote(), interrupted) if self._collector else STATION.take()
        figures = result.get("learners", {}).get("default_policy", {})
        captured = state.capture(self._algorithm, *self._merged(report))
        if not captured.is_finite or _has_diverged(figures):
            raise NonFiniteUpdateError(
                "the update of RLlib's learner was not finite and is not kept\n"
                "    look at the simulator's rewards and observations, or lower algorithm.lr"
            )
        self._captured = captured
        learn_seconds = min(seconds, _learn_seconds(result))
        return Iteration(
            steps=report.steps,
            episodes=report.episodes,
            failures=report.failures,
            workers_lost=self._watched.take_losses(),
            metrics={name: _figure(figures.get(key)) for name, key in self._figures.items()},
            sample_seconds=seconds - learn_seconds,
            learn_seconds=learn_seconds,
            wait_seconds=0.0,
        )

    def _train_here(self, interrupted: Interrupted) -> dict[str, Any]:
        STATION.interrupted = interrupted
        try:
            with self._hangs_interrupted():
                result: dict[str, Any] = self._algorithm.train()
            return result
        except EscapeError as escape:
            raise escape.error from None

    def _hangs_interrupted(self) -> AbstractContextManager[None]:
        return interrupted_on_hang(self._subject.experiment.env.step_timeout, lambda: STATION.under_way)

    def _merged(self, report: Report) -> tuple[Moments, Moments]:
        before = self._captured
        return (
            before.observations.merged(report.observations) if report.observations else before.observations,
            before.returns.merged(report.returns) if report.returns else before.returns,
        )

    def _scales(self) -> Scales:
        normalize, captured = self._subject.experiment.normalize, self._captured
        return Scales(
            captured.observations.scale(self._coder.scalable) if self._is_scaled else None,
            float(captured.returns.std[0]) if normalize.rewards else 1.0,
        )

    @property
    def _is_scaled(self) -> bool:
        return self._subject.experiment.normalize.observations and bool(self._coder.scalable.any())

    def policy(self) -> RLlibPolicy:
        """Return the policy as it is now."""
        return RLlibPolicy(self._subject, self._captured.policy, self._scales().observations)

    def save(self, folder: Path, *, simulators: bool) -> str | None:
        """Write policy and complete training state into a folder; the replay buffer where it is asked for.

        Not after an iteration that was given up, though: its thread may be filling the buffer still.
        """
        self.policy().save(folder)
        self._captured.write(folder)
        if self._subject.experiment.checkpoint.replay_buffer and not self._is_training:
            state.write_replay(self._algorithm, folder)
        return None

    def close(self) -> list[SimulatorFailure]:
        """End the env runners, which may be in the middle of a long step; else close RLlib as it wants it."""
        if self._collector is None:
            with self._hangs_interrupted():
                self._algorithm.stop()
            return STATION.take().failures
        with suppress(RayLostError, SamplingAbandonedError):
            for runner in get(self._collector.runners.remote(), self._interrupted):
                ray.kill(runner)
            self._watched.end()
            ray.kill(self._collector)
        # Else its destructor does it later, and starts another Ray for that.
        self._algorithm.learner_group.shutdown()
        return []


def _learn_seconds(result: dict[str, Any]) -> float:
    """Return the learner's time in an iteration: RLlib gives the mean over its training steps."""
    timers = result.get("timers", {})
    mean = timers.get("learner_update_timer", timers.get("learn", 0.0))
    return float(mean) * float(result.get("num_training_step_calls_per_iteration", 1))


def _figures_of(subject: Subject, config: Any) -> dict[str, str]:
    """Return the algorithm's figures, without the KL where it is not measured and stays zero."""
    figures = subject.algorithm.figures
    measures_kl = getattr(config, "use_kl_loss", False)
    return {name: key for name, key in figures.items() if measures_kl or "kl" not in name}


def _has_diverged(figures: dict[str, Any]) -> bool:
    """Return whether the loss of an update was no number; without an update nothing is, not even its steps."""
    is_update = not math.isnan(figures.get("num_module_steps_trained", 0))
    return is_update and math.isnan(figures.get("total_loss", 0.0))


def _figure(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


@contextmanager
def _quiet_ray() -> Iterator[None]:
    """Keep what Ray's own library writes off the screen: it warns of how RLlib makes its env runners."""
    sys.stderr.flush()
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _remove_log_folder(algorithm: Any) -> None:
    """Remove the empty folder that every algorithm of RLlib's makes in the user's home."""
    with suppress(OSError):
        Path(algorithm.logdir).rmdir()
        Path(algorithm.logdir).parent.rmdir()
