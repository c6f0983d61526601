"""Check a simulator before training in it: everything that is wrong, at once."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

from muster.errors import MusterError
from muster.simulators.building import Simulator, close_problem
from muster.simulators.copying import agree, copy_problem
from muster.simulators.describing import (
    UnsupportedSpaceError,
    describe_actions,
    describe_observations,
    with_mask,
)
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.masks import MaskReader, random_action
from muster.simulators.old_gym import OldGymAdapter
from muster.simulators.verdict import Verdict

EPISODES = 3
SECONDS = 3.0


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    verdict: Verdict
    subject: str
    message: str
    hint: str = ""


def check_simulator(simulator: Simulator) -> list[Finding]:
    """Build a simulator, try it in every way that training needs, and return what was found."""
    try:
        env = simulator.build(index=0)
    except MusterError:
        raise
    except Exception:
        return [Finding(Verdict.PROBLEM, "build", f"its constructor fails\n{traceback.format_exc()}")]
    findings: list[Finding] = []
    try:
        findings += _check_spaces(env)
        findings += _check_interface(simulator)
        findings += _check_episodes(env)
        if not any(finding.verdict is Verdict.PROBLEM for finding in findings):
            findings += _check_repeats(simulator)
            findings += _check_pickles(env)
    finally:
        problem = close_problem(env)
    if problem:
        findings.append(Finding(Verdict.WARNING, "close", f"it cannot be closed\n{problem}"))
    return findings


def _check_spaces(env: gymnasium.Env[Any, Any]) -> list[Finding]:
    findings = []
    for subject, describe, space in (
        ("observations", describe_observations, env.observation_space),
        ("actions", describe_actions, env.action_space),
    ):
        try:
            describe(space)
            findings.append(Finding(Verdict.OK, subject, str(space)))
        except UnsupportedSpaceError as error:
            findings.append(
                Finding(Verdict.PROBLEM, subject, str(error), "a wrapper in env.wrappers can convert it")
            )
    return findings


def _check_interface(simulator: Simulator) -> list[Finding]:
    """Run Gymnasium's own checker; its warnings are warnings here too.

    Two of its findings are not for here: that a simulator does not repeat itself (it can still be trained in)
    and that an observation has no bounds (the normaliser does not need them).
    """
    findings = []
    env = simulator.build(index=1)
    if isinstance(env.unwrapped, OldGymAdapter):
        message = "the old Gym's: adapted; a time limit is told by info['TimeLimit.truncated'] alone"
        hint = "gymnasium.Env has reset(seed=..., options=...), and a step that returns five values"
        findings.append(Finding(Verdict.WARNING, "interface", message, hint))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_env(env.unwrapped, skip_render_check=True, skip_close_check=True)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            if "eterministic" not in message:
                findings.append(Finding(Verdict.PROBLEM, "interface", message, "as Gymnasium's checker says"))
    seen = {str(warning.message).removeprefix("\x1b[33mWARN: ").removesuffix("\x1b[0m") for warning in caught}
    findings += [
        Finding(Verdict.WARNING, "interface", message) for message in sorted(seen) if "infinity" not in message
    ]
    return findings or [Finding(Verdict.OK, "interface", "Gymnasium's checker finds nothing")]


def _check_episodes(env: gymnasium.Env[Any, Any]) -> list[Finding]:
    """Play random episodes and look at every observation and reward."""
    problems: dict[str, Finding] = {}

    def problem(message: str) -> None:
        problems.setdefault(message, Finding(Verdict.PROBLEM, "episodes", message))

    look_at = _observation_check(env, problem)

    steps, started = 0, time.perf_counter()
    lengths: list[int] = []
    env.action_space.seed(0)
    try:
        while len(lengths) < EPISODES and time.perf_counter() - started < SECONDS:
            observation, info = env.reset(seed=len(lengths))
            look_at(observation, info)
            length, ended = 0, False
            while not ended and time.perf_counter() - started < SECONDS:
                action = random_action(env.action_space, observation, info)
                observation, reward, terminated, truncated, info = env.step(action)
                length += 1
                ended = bool(terminated or truncated)
                look_at(observation, {} if ended else info)
                if not np.isfinite(float(reward)):
                    problem(f"the reward can be {float(reward)}")
            steps += length
            if ended:
                lengths.append(length)
    except Exception:
        problem(f"it fails at step {steps + 1}\n{traceback.format_exc()}")
    seconds = time.perf_counter() - started
    findings = list(problems.values())
    if steps:
        findings.append(Finding(Verdict.OK, "speed", f"{steps / seconds:,.0f} steps/s with random actions"))
    if lengths:
        text = f"{len(lengths)} random episodes of {min(lengths)} to {max(lengths)} steps"
        findings.append(Finding(Verdict.OK, "episodes", text))
    elif not problems:
        findings.append(
            Finding(
                Verdict.WARNING,
                "episodes",
                f"no episode ended within {steps} random steps",
                "if episodes may never end, set env.max_episode_steps",
            )
        )
    return findings


def _observation_check(env: gymnasium.Env[Any, Any], problem: Callable[[str], None]) -> Callable[[Any, Any], None]:
    """Return a function that looks whether an observation and its mask fit their spaces and are finite."""
    try:
        actions = describe_actions(env.action_space)
        observations = with_mask(describe_observations(env.observation_space), actions)
    except UnsupportedSpaceError:
        return lambda _, __: None
    encoder, masks = ObservationEncoder(observations), MaskReader({}, actions)
    row = np.zeros(encoder.size, np.float32)

    def look_at(observation: Any, info: Any) -> None:
        try:
            encoder.encode_into(row, observation)
            if masks.sizes:
                masks.read(observation, info)
        except ValueError as error:
            problem(str(error))
            return
        if not np.isfinite(row).all():
            problem("an observation can hold NaN or infinity")

    return look_at


def _check_repeats(simulator: Simulator) -> list[Finding]:
    """Play the same seed and actions on two simulators: training repeats itself only if these agree."""
    first, second = simulator.build(index=1), simulator.build(index=2)
    try:
        seen = first.reset(seed=1)
        second.reset(seed=1)
        same = agree(first, second, *seen)
    finally:
        close_problem(first)
        close_problem(second)
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


def _check_pickles(env: gymnasium.Env[Any, Any]) -> list[Finding]:
    """Save the simulator in the middle of an episode: resuming is exact only if the copy goes on alike."""
    if problem := copy_problem(env):
        hint = "resuming will begin new episodes; all else is exact"
        return [Finding(Verdict.WARNING, "pickles", problem, hint)]
    return [Finding(Verdict.OK, "pickles", "yes, so that resuming is exact")]
