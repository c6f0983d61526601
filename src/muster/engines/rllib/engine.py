"""RLlib's algorithms as an engine: an iteration is one `train()`, watched from outside."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import ray
import torch

from muster.engines.engine import Iteration, RunSupervision, journals_beside, rules_of
from muster.engines.failure_inbox import FailureInbox
from muster.engines.moments import Moments
from muster.engines.rllib import state
from muster.engines.rllib.config import Subject, make_config, quieten
from muster.engines.rllib.env import GuardedSimulator, GuardSettings
from muster.engines.rllib.policy import RLlibPolicy
from muster.engines.rllib.process_state import PROCESS, EscapeError, InForce, Link, Sample
from muster.engines.rllib.report_actor import start_report_actor
from muster.engines.rllib.spaces import ObservationCoder
from muster.engines.rllib.train_thread import WatchedTraining
from muster.engines.waiting import get, patient
from muster.errors import InputError, NonFiniteUpdateError, RayLostError
from muster.policies.scale import Scale
from muster.simulators.seeding import Stream, reset_seed
from muster.simulators.simulator import Simulator
from muster.stepping.failures import SamplingAbandonedError
from muster.stepping.here import called_here
from muster.stepping.journal import journal_folder
from muster.stepping.process_state import ProcessState

CLOSE_SECONDS = 5.0


class RLlibEngine:
    """One of RLlib's algorithms for one experiment, with a number of env runners (0: in this process)."""

    def __init__(
        self,
        subject: Subject,
        simulator: Simulator,
        num_workers: int,
        supervision: RunSupervision,
        checkpoint: Path | None = None,
        weights_from: Path | None = None,
    ) -> None:
        quieten()
        torch.set_num_threads(subject.experiment.resources.learner_threads)
        if PROCESS.is_taken:
            raise InputError(
                "RLlib trains another run in this process\n    end that one first, or train with workers"
            )
        PROCESS.begin()
        PROCESS.supervision = supervision
        self._subject = subject
        self._coder = ObservationCoder(subject.observations)
        self._num_workers = num_workers
        self._supervision = supervision
        self._simulators_state = ProcessState()
        self._link = Link(start_report_actor(), FailureInbox(), uuid.uuid4().hex) if num_workers else None
        if self._link is None:
            PROCESS.journals = journal_folder(journals_beside(simulator))
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
        self._watched = WatchedTraining(self._algorithm, self._link, supervision)
        self._is_training = False
        PROCESS.is_taken = not num_workers

    def _config(self, simulator: Simulator, start: int) -> Any:
        subject, experiment = self._subject, self._subject.experiment
        env_config: dict[str, Any] = {"link": self._link}
        config = make_config(subject, self._num_workers, GuardedSimulator, env_config)
        config.debugging(seed=reset_seed(experiment.seed, Stream.LEARNER, start))
        env_config["settings"] = GuardSettings(
            simulator,
            rules_of(experiment),
            subject.observations,
            subject.actions,
            subject.is_masked,
            experiment.resources.envs_per_group,
            experiment.seed,
            start,
            config.gamma,
            experiment.normalize.observations,
            experiment.normalize.rewards,
            experiment.env.restart_every,
            experiment.metrics,
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

    def iterate(self, fraction_done: float, scheduled: Mapping[str, Any]) -> Iteration:
        """Let RLlib train once; the state to be saved changes only if all of it succeeds.

        Raises:
            SimulatorError, SamplingAbandonedError, NonFiniteUpdateError, RayLostError: the state is as it was
                before.
        """
        started = time.perf_counter()
        PROCESS.in_force = self._in_force(scheduled)
        if self._link is not None:
            self._get(self._link.reports.put_in_force.remote(PROCESS.in_force))
        self._is_training = True
        result = self._watched.train() if self._num_workers else self._train_here()
        self._is_training = False
        seconds = time.perf_counter() - started
        sample = self._get(self._link.reports.take.remote()) if self._link is not None else PROCESS.take()
        figures = result.get("learners", {}).get("default_policy", {})
        captured = state.capture(self._algorithm, *self._merged(sample))
        if not captured.is_finite or _has_diverged(figures):
            raise NonFiniteUpdateError(
                "the update of RLlib's learner was not finite and is not kept\n"
                "    look at the simulator's rewards and observations, or lower algorithm.lr"
            )
        self._captured = captured
        learn_seconds = min(seconds, _learn_seconds(result))
        return Iteration(
            steps=sample.steps,
            episodes=sample.episodes,
            workers_lost=self._watched.take_losses(),
            metrics={name: _figure(figures.get(key)) for name, key in self._figures.items()},
            sample_seconds=seconds - learn_seconds,
            learn_seconds=learn_seconds,
            wait_seconds=0.0,
        )

    def _get(self, reference: Any) -> Any:
        return get(reference, self._supervision.interrupted)

    def _train_here(self) -> dict[str, Any]:
        try:
            with self._called_here():
                result: dict[str, Any] = self._algorithm.train()
            return result
        except EscapeError as escape:
            raise escape.error from None

    def _called_here(self) -> AbstractContextManager[None]:
        timeout, hung = self._subject.experiment.env.step_timeout, self._supervision.hung
        return called_here(timeout, state=self._simulators_state, hung=hung)

    def _merged(self, sample: Sample) -> tuple[Moments, Moments]:
        before = self._captured
        return (
            before.observations.merged(sample.observations) if sample.observations else before.observations,
            before.returns.merged(sample.returns) if sample.returns else before.returns,
        )

    def _in_force(self, scheduled: Mapping[str, Any]) -> InForce:
        normalizes_rewards = self._subject.experiment.normalize.rewards
        reward_std = float(self._captured.returns.std[0]) if normalizes_rewards else 1.0
        return InForce(self._observation_scale(), reward_std, scheduled)

    def _observation_scale(self) -> Scale | None:
        return self._captured.observations.scale(self._coder.scalable) if self._is_scaled else None

    @property
    def _is_scaled(self) -> bool:
        return self._subject.experiment.normalize.observations and bool(self._coder.scalable.any())

    def policy(self) -> RLlibPolicy:
        """Return the policy as it is now."""
        return RLlibPolicy(self._subject, self._captured.policy, self._observation_scale())

    def save(self, folder: Path, *, simulators: bool) -> str | None:
        """Write policy and complete training state into a folder; the replay buffer where it is asked for.

        Not after an iteration that was given up, though: its thread may be filling the buffer still.
        """
        self.policy().save(folder)
        self._captured.write(folder)
        if self._subject.experiment.checkpoint.replay_buffer and not self._is_training:
            state.write_replay(self._algorithm, folder)
        return None

    def close(self) -> None:
        """End the env runners, which may be in the middle of a long step; else close RLlib as it wants it."""
        if self._link is None:
            with self._called_here(), suppress(EscapeError):
                self._algorithm.stop()
            if PROCESS.journals is not None:
                shutil.rmtree(PROCESS.journals, ignore_errors=True)
            PROCESS.is_taken = False
            return
        with suppress(RayLostError, SamplingAbandonedError):
            interrupted = patient(self._supervision.interrupted, CLOSE_SECONDS)
            for runner in get(self._link.reports.runners.remote(), interrupted):
                ray.kill(runner)
            self._watched.end()
            self._supervision.report_all(self._link.inbox.take())
            ray.kill(self._link.reports)
            self._link.inbox.close()
        # Else its destructor does it later, and starts another Ray for that.
        self._algorithm.learner_group.shutdown()


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
