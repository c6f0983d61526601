"""A simulator that misbehaves in every way there is, in some of its episodes."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTH = 10
FAILS_AT = 4
LINE = "the solver has something to say\n"


class OwnError(BaseException):
    """Derives from what nobody should derive from."""


class SpeechlessError(Exception):
    """Cannot even say what is wrong."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Misbehaving(gymnasium.Env[Any, Any]):
    """Shows which of two actions pays; misbehaves at the fifth step of episodes whose seed `every` divides."""

    failed_to_build = False

    def __init__(self, how: str, every: int = 5, index: int = 0) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,))
        self.action_space = spaces.Discrete(2)
        self.how, self.every = how, every
        self.steps, self.fails, self.shown, self.has_stepped = 0, False, 0, False
        if how == "build" and index == 1 and not type(self).failed_to_build:
            type(self).failed_to_build = True
            raise OSError("no licence left")
        if how == "hang in build":
            time.sleep(60)
        misuse_process(how)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.fails = 0, seed is not None and seed % self.every == 0
        if self.fails and self.how == "reset":
            raise RuntimeError("no restart file")
        if self.fails and self.how == "hang in reset":
            time.sleep(60)
        if self.fails and self.how == "NaN at reset":
            return np.full(2, np.nan, np.float32), {}
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        reward = float(action == self.shown)
        misbehaves = self.fails and self.steps == FAILS_AT
        self.has_stepped = True
        self.steps += 1
        outcome: tuple[Any, ...] = self._observe(), reward, self.steps == LENGTH, False, {}
        return misbehave(self.how, outcome) if misbehaves else outcome

    def close(self) -> None:
        if self.how == "close":
            raise RuntimeError("the socket is gone")
        if self.how == "hang in close" and self.has_stepped:
            time.sleep(60)

    def _observe(self) -> Any:
        self.shown = int(self.np_random.integers(2))
        return np.eye(2, dtype=np.float32)[self.shown]


def misbehave(how: str, outcome: tuple[Any, ...]) -> Any:
    """Do what must not be done in a step, or return what must not be returned."""
    changed = _changed(how, *outcome)
    if changed is not None:
        return changed
    match how:
        case "raise":
            raise RuntimeError("the pump broke")
        case "memory":
            raise MemoryError("no room for the mesh")
        case "sys.exit":
            sys.exit("goodbye")
        case "KeyboardInterrupt":
            raise KeyboardInterrupt("not the user's")
        case "BaseException":
            raise OwnError("of no known kind")
        case "GeneratorExit":
            raise GeneratorExit("out of here")
        case "failing __str__":
            raise SpeechlessError
        case "megabytes":
            raise ValueError("x" * 5_000_000)
        case "surrogates":
            raise ValueError("caf\udce9")
        case "hang":
            time.sleep(60)
        case "hang in C":
            ctypes.PyDLL(None).sleep(60)
        case "hang deaf":
            while True:
                with suppress(TimeoutError):
                    time.sleep(60)
        case "os._exit" | "os._exit with a forked child":
            os._exit(7)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "print":
            print(LINE * 100_000)
        case "None":
            return None
    return outcome


def _changed(how: str, observation: Any, reward: float, terminated: bool, truncated: bool, info: Any) -> Any:
    rest = (terminated, truncated, info)
    return {
        "NaN": (observation * np.nan, reward, *rest),
        "infinite reward": (observation, float("inf"), *rest),
        "reward of a wrong type": (observation, None, *rest),
        "wrong shape": (np.zeros(3, np.float32), reward, *rest),
        "wrong type": ("north", reward, *rest),
        "outside": (observation * 7, reward, *rest),
        "three values": (observation, reward, info),
        "strange truth": (observation, reward, np.array([True, False]), truncated, info),
        "info of a wrong type": (observation, reward, terminated, truncated, 7),
    }.get(how)


def _not_in_time(number: int, frame: Any) -> None:
    raise TimeoutError("the solver has not answered")


def misuse_process(how: str) -> None:
    """Change the process that a simulator lives in, as simulators do."""
    match how:
        case "chdir":
            os.chdir("/")
        case "signal handlers":
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
                with suppress(ValueError):
                    signal.signal(number, signal.SIG_IGN)
        case "environment":
            os.environ.clear()
        case "closed streams":
            for descriptor in (0, 1, 2):
                with suppress(OSError):
                    os.close(descriptor)
        case "closed descriptors":
            os.closerange(3, 64)
        case "children":
            subprocess.Popen(["sleep", "90"], close_fds=False)
        case "os._exit with a forked child":
            multiprocessing.get_context("fork").Process(target=time.sleep, args=(90,), daemon=True).start()
        case "threads":
            threading.Thread(target=time.sleep, args=(90,)).start()
        case "socket time-out":
            socket.setdefaulttimeout(0.001)
        case "alarm":
            signal.signal(signal.SIGALRM, _not_in_time)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
        case "numpy.seterr":
            np.seterr(all="raise")
        case "stdout":
            sys.stdout = sys.stderr = None


class Heeded(Misbehaving):
    """Fails, and then waits until that is known: for a file that whoever hears of it makes."""

    has_failed = False

    def __init__(self, heard: str) -> None:
        super().__init__("raise")
        self.heard = Path(heard)

    def step(self, action: Any) -> Any:
        give_up = time.monotonic() + 20
        while type(self).has_failed and not self.heard.exists():
            if time.monotonic() > give_up:
                raise TimeoutError("nobody has heard of it")
            time.sleep(0.05)
        type(self).has_failed = self.fails and self.steps == FAILS_AT
        return super().step(action)


class Steered(Misbehaving):
    """Takes a number for its action, and says which when it fails."""

    def __init__(self) -> None:
        super().__init__("not")
        self.action_space = spaces.Box(-2, 2, (1,))

    def step(self, action: Any) -> Any:
        if self.fails and self.steps == FAILS_AT:
            raise RuntimeError(f"the rudder broke at {action[0]!r}")
        return super().step(int(action[0] > 0))


class Unreliable(Misbehaving):
    """Misbehaves once in 500 steps at random, in one of six ways."""

    WAYS = ("raise", "NaN", "infinite reward", "wrong shape", "outside", "os._exit")

    def __init__(self, counts: str) -> None:
        super().__init__("not")
        self.counts = counts

    def step(self, action: Any) -> Any:
        outcome = super().step(action)
        if self.np_random.random() >= 1 / 500:
            return outcome
        how = self.WAYS[int(self.np_random.integers(len(self.WAYS)))]
        with Path(self.counts).open("a") as file:
            file.write(f"{how}\n")
        return misbehave(how, outcome)


class Odd(gymnasium.Env[Any, Any]):
    """Does what no rule forbids: a mask for actions that take none, and what is no dict for its info."""

    def __init__(self, how: str = "mask") -> None:
        self.observation_space = spaces.Box(-1, 1, (2,))
        self.action_space = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-1, 1, (1,))})
        if how != "mask of parts":
            self.action_space = spaces.Box(-1, 1, (1,))
        self.how, self.steps = how, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {} if self.how == "list" else self._info()

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps == LENGTH, False, self._info()

    def _info(self) -> Any:
        allowed = np.ones(2, np.int8)
        return {"mask": {"action_mask": allowed}, "mask of parts": {"action_mask": {"a": allowed}}, "list": [1]}[
            self.how
        ]


class LosesPart(gymnasium.Env[Any, Any]):
    """Has all parts in its observations but in the last one of an episode."""

    def __init__(self, part: str) -> None:
        self.part = part
        mask = spaces.MultiBinary(2)
        self.observation_space = spaces.Dict({"seen": spaces.Box(-1, 1, (1,)), "action_mask": mask})
        self.action_space = spaces.Discrete(2)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return {"seen": np.zeros(1, np.float32), "action_mask": np.ones(2, np.int8)}, {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation = {"seen": np.zeros(1, np.float32), "action_mask": np.ones(2, np.int8)}
        if self.steps == LENGTH:
            del observation[self.part]
        return observation, 1.0, self.steps == LENGTH, False, {}


class Spare(Misbehaving):
    """Misbehaves only beside those that are trained in, of which there are four."""

    def __init__(self, how: str, index: int) -> None:
        super().__init__(how if index == 4 else "not", every=1)


class CopyDies(Misbehaving):
    """Works, but a pickled copy of it ends its process."""

    def __init__(self) -> None:
        super().__init__("not")
        self.is_copy = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.is_copy = True

    def step(self, action: Any) -> Any:
        if self.is_copy:
            os._exit(9)
        return super().step(action)
