"""Check a simulator before training in it: everything that is wrong, at once, judged as training will."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import passive_env_checker
from gymnasium.vector import AutoresetMode

from muster.experiment.quantities import counted
from muster.simulators.describing import (
    UnsupportedSpaceError,
    describe_actions,
    describe_observations,
    is_channels_first,
    leaves,
)
from muster.simulators.masks import random_action
from muster.simulators.simulator import Simulator
from muster.simulators.verdict import Verdict
from muster.stepping.batches import OneOfBatch, autoreset_mode, build_batch, reset_batch, seeds_each
from muster.stepping.building import build
from muster.stepping.calls import Call
from muster.stepping.findings import Finding, of_failure
from muster.stepping.live import FailedCallError, Identity, LiveSimulator
from muster.stepping.old_gym import WAYS, adapted_ways
from muster.stepping.pickle_check import agree, pickle_problem
from muster.stepping.random_play import findings_of, play_randomly
from muster.stepping.resident import MEBIBYTE, resident_bytes
from muster.stepping.rules import Rules

SLOW_BUILD_SECONDS = 1.0


@dataclass(frozen=True)
class Planned:
    """How many simulators training will have, and the memory there is for them, in bytes, if that is known.

    `per_batch` is how many a group has if the simulator is batched, if that differs.
    """

    groups: int = 1
    per_group: int = 1
    memory: int | None = None
    per_batch: int | None = None


def check_simulator(
    simulator: Simulator, rules: Rules, planned: Planned | None = None, *, journals: Path | None = None
) -> list[Finding]:
    """Build a simulator, try it in every way that training needs, and return what was found.

    Raises:
        ExperimentError: if there is no such simulator.
    """
    return _Check(simulator, rules, planned or Planned(), journals).findings()


class _Check:
    def __init__(self, simulator: Simulator, rules: Rules, planned: Planned, journals: Path | None) -> None:
        self._simulator = simulator
        self._rules = rules
        self._journals = journals
        self._is_batch = simulator.is_batched()
        if self._is_batch and planned.per_batch is not None:
            planned = replace(planned, per_group=planned.per_batch)
        self._planned = planned

    def findings(self) -> list[Finding]:
        live = self._live(0)
        began = time.perf_counter()
        try:
            live.build()
        except FailedCallError as error:
            return [of_failure(error.failure)]
        first_seconds = time.perf_counter() - began
        # Before anything else has freed memory that the next one would use again.
        cost = self._building(live, first_seconds)
        findings = _batch(live, self._planned.per_group)
        findings += _spaces(live)
        findings += _images(live, self._rules)
        findings += cost
        findings += _interface(live)
        play = play_randomly(live)
        findings += map(of_failure, play.failures.values())
        findings += findings_of(play, live)
        if not any(finding.verdict is Verdict.PROBLEM for finding in findings):
            findings += self._repeats()
            findings += _pickles(live)
        try:
            live.close()
        except FailedCallError as error:
            failure = error.failure
            message = f"it cannot be closed: {failure.error}\n{failure.traceback}"
            findings.append(Finding(Verdict.WARNING, "close", message))
        return findings

    def _live(self, index: int) -> LiveSimulator:
        identity = Identity(index=index)
        return LiveSimulator(self._simulator, self._rules, identity=identity, journals=self._journals)

    def _building(self, live: LiveSimulator, first_seconds: float) -> list[Finding]:
        """Build another, as training will, and begin episodes; the first one has paid for the imports."""
        before, began = resident_bytes(), time.perf_counter()
        try:
            with live.calling(Call.BUILD):
                close = self._build_another()
            seconds, after = time.perf_counter() - began, resident_bytes()
            # That it cannot be closed is found later.
            with suppress(FailedCallError), live.calling(Call.CLOSE):
                close()
        except FailedCallError as error:
            return [of_failure(error.failure)]
        memory = None if before is None or after is None else max(0, after - before)
        return [_cost(first_seconds, seconds, memory, self._planned, is_batch=self._is_batch)]

    def _build_another(self) -> Callable[[], None]:
        """Build a simulator, or a batch of the size that training has; return what closes it."""
        if self._is_batch:
            seeds = range(self._planned.per_group)
            batch = build_batch(self._simulator, len(seeds), 1, seeds)
            reset_batch(batch, seeds)
            return batch.close
        env = build(self._simulator, index=1)
        env.reset(seed=0)
        return env.close

    def _repeats(self) -> list[Finding]:
        """Play the same seed and actions on two simulators: training repeats itself only if these agree."""
        first, second = self._live(1), self._live(2)
        try:
            for live in (first, second):
                live.build()
                live.begin(0, 1)
            seen = first.reset()
            second.reset()
            same = agree(first, second, *seen)
        except FailedCallError as error:
            return [of_failure(error.failure)]
        finally:
            for live in (first, second):
                with suppress(FailedCallError):
                    live.close()
        if same:
            return [Finding(Verdict.OK, "repeats", "same seed, same actions, same episode")]
        return [
            Finding(
                Verdict.WARNING,
                "repeats",
                "the same seed and actions gave different episodes, so runs will not repeat exactly",
                "draw all random numbers from self.np_random, after super().reset(seed=seed)",
            )
        ]


def _batch(live: LiveSimulator, count: int) -> list[Finding]:
    """Say that a simulator is batched, and which of its episodes have seeds of their own."""
    env = live.env.unwrapped
    if not isinstance(env, OneOfBatch):
        return []
    if not seeds_each(env.batch):
        seeding = "one seed for the batch, which then continues its random numbers"
    elif autoreset_mode(env.batch) is AutoresetMode.DISABLED:
        seeding = "each episode has its own seed"
    else:
        seeding = "first episodes have seeds of their own, later ones continue the batch's random numbers"
    kind = type(env.batch.unwrapped).__name__.removesuffix("Batch")
    return [Finding(Verdict.OK, "batch", f"{counted(count, 'simulator')} step as one ({kind}); {seeding}")]


def _images(live: LiveSimulator, rules: Rules) -> list[Finding]:
    """Say how images are read."""
    try:
        description = describe_observations(live.env.observation_space, rules.image_dimensions)
    except UnsupportedSpaceError:
        return []
    findings = []
    for path, leaf in leaves(description):
        if leaf["kind"] == "image":
            name = "observation" + "".join(f"[{key!r}]" for key in path)
            findings.append(Finding(Verdict.OK, "images", f"{name}: {_image(leaf['shape'])}"))
    return findings


def _image(shape: list[int]) -> str:
    if len(shape) == 2:
        return f"{shape[0]} x {shape[1]} pixels"
    if is_channels_first(shape):
        channels, height, width = shape
        return f"{height} x {width} pixels; {channels} channels or stacked frames, which come first"
    height, width, channels = shape
    return f"{height} x {width} pixels; {counted(channels, 'channel')}, which come last"


def _cost(
    first_seconds: float, seconds: float, memory: int | None, planned: Planned, *, is_batch: bool
) -> Finding:
    """Say what building takes, and what that makes in all."""
    count = planned.groups if is_batch else planned.groups * planned.per_group
    each = f"a batch of {planned.per_group}" if is_batch else "a simulator"
    total = counted(count, "batch" if is_batch else "simulator").replace("batchs", "batches")
    message = f"{each} takes {_seconds(seconds)}{_mebibytes(memory, ' and ')}; the first {_seconds(first_seconds)}"
    message += f" with imports\n{total}: {_seconds(count * seconds)} one after another"
    all_memory = None if memory is None else count * memory
    message += _mebibytes(all_memory, ", ")
    if all_memory is not None and planned.memory is not None and all_memory > planned.memory:
        hint = f"this host has {planned.memory / MEBIBYTE:,.0f} MiB: fewer resources.env_groups or envs_per_group"
        return Finding(Verdict.WARNING, "build", message, hint)
    if seconds >= SLOW_BUILD_SECONDS:
        hint = "with workers they are built side by side"
        return Finding(Verdict.WARNING, "build", message, hint)
    return Finding(Verdict.OK, "build", message)


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2g} ms" if seconds < 0.1 else f"{seconds:,.1f} s"


def _mebibytes(memory: int | None, before: str) -> str:
    if memory is None:
        return ""
    return f"{before}less than 1 MiB" if memory < MEBIBYTE else f"{before}{memory / MEBIBYTE:,.0f} MiB"


def _spaces(live: LiveSimulator) -> list[Finding]:
    findings = []
    parts: list[tuple[str, Callable[[Any], Any], Any]] = [
        ("observations", describe_observations, live.env.observation_space),
        ("actions", describe_actions, live.env.action_space),
    ]
    for subject, describe_space, space in parts:
        try:
            describe_space(space)
            findings.append(Finding(Verdict.OK, subject, str(space)))
        except UnsupportedSpaceError as error:
            findings.append(Finding(Verdict.PROBLEM, subject, str(error), error.hint))
    return findings


class _AsTrainedOn(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Numbers as training reads them, so that Gymnasium's checker does not warn of what is judged elsewhere."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._read(observation), info

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        return self._read(observation), *rest

    def _read(self, observation: Any) -> Any:
        space = self.observation_space
        if not isinstance(space, gymnasium.spaces.Box) or not isinstance(observation, np.ndarray):
            return observation
        if observation.shape != space.shape or observation.dtype.kind not in "fiu":
            return observation
        return np.clip(observation, space.low, space.high).astype(space.dtype)


def _interface(live: LiveSimulator) -> list[Finding]:
    """Run Gymnasium's own checks of one reset and one step; training may take what they warn of."""
    findings = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with live.calling(Call.STEP) as simulator:
                env = _AsTrainedOn(simulator)
                observation, info = passive_env_checker.env_reset_passive_checker(env, seed=0)
                action = random_action(env.action_space, observation, info)
                passive_env_checker.env_step_passive_checker(env, action)
        except FailedCallError as error:
            findings.append(Finding(Verdict.WARNING, "interface", error.failure.error, "by Gymnasium's checker"))
    for way in adapted_ways(live.env):
        message = f"{way}, as in the old Gym; it is adapted"
        findings.append(Finding(Verdict.WARNING, "interface", message, WAYS[way]))
    seen = {str(warning.message).removeprefix("\x1b[33mWARN: ").removesuffix("\x1b[0m") for warning in caught}
    findings += [Finding(Verdict.WARNING, "interface", message) for message in sorted(seen)]
    return findings or [Finding(Verdict.OK, "interface", "Gymnasium's checker finds nothing")]


def _pickles(live: LiveSimulator) -> list[Finding]:
    """Save the simulator in the middle of an episode: resuming is exact only if the copy continues alike."""
    if problem := pickle_problem(live):
        hint = "resuming will begin new episodes; all else is exact"
        return [Finding(Verdict.WARNING, "pickles", problem, hint)]
    return [Finding(Verdict.OK, "pickles", "yes, so that resuming is exact")]
