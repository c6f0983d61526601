"""What a policy is compared with: random actions, or a rule of the user's own."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

import gymnasium
import numpy as np

from muster.errors import InputError
from muster.simulators.lookup import extend_search_path, import_attribute
from muster.simulators.masks import random_action
from muster.simulators.simulator import Simulator

RANDOM = "random"


class Baseline:
    """Chooses actions by a function of the observation, or of observation and `info`.

    Of a class, an object is made for each episode, so that it may have a memory.
    """

    def __init__(self, rule: Any, action_space: Any) -> None:
        self._rule = rule
        self._space = action_space
        self._choose: Any = rule
        self._takes_info = False
        if rule != RANDOM:
            is_class = inspect.isclass(rule)
            parameters = inspect.signature(vars(rule)["__call__"] if is_class else rule).parameters.values()
            wanted = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
            self._takes_info = len(wanted) - is_class >= 2

    def begin_episode(self) -> None:
        """Forget the episode before."""
        if inspect.isclass(self._rule):
            self._choose = self._rule()

    def act(self, observation: Any, info: Any) -> Any:
        """Return an action.

        Raises:
            InputError: with the rule's own traceback, if it raises; or if what it returns is no action.
        """
        if self._rule == RANDOM:
            return random_action(self._space, observation, info)
        try:
            action = self._choose(observation, info) if self._takes_info else self._choose(observation)
        except Exception as error:
            own = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
            raise InputError(f"the baseline failed:\n{''.join(traceback.format_exception(own))}") from None
        if not self._fits(action):
            raise InputError(f"the baseline returned {action!r:.80}, expected an action of {self._space}")
        return action

    def _fits(self, action: Any) -> bool:
        """Whether an action is one of the space; numbers of a Box may be of any type, and beyond its bounds."""
        if isinstance(self._space, gymnasium.spaces.Box):
            return bool(np.shape(action) == self._space.shape)
        return bool(self._space.contains(action))


def find_rule(name: str, simulator: Simulator) -> Any:
    """Return `random`, or the function or class that a name stands for.

    Raises:
        InputError: if there is none.
    """
    if name == RANDOM:
        return RANDOM
    if ":" not in name:
        raise InputError(
            f"--baseline {name}: expected random, module:function or path/to/file.py:function\n"
            "    a function of the observation, or of observation and info, that returns an action"
        )
    extend_search_path(simulator.paths)
    rule = import_attribute(name, "--baseline")
    if inspect.isclass(rule) and "__call__" not in vars(rule):
        raise InputError(
            f"--baseline {name}: its objects cannot be called; define __call__(self, observation, info)"
        )
    return rule
