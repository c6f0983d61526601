"""Export a policy, checked on observations of its simulator: what the file says must be what the policy says."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.errors import InputError, MusterError
from muster.policies import Policy
from muster.policies.onnx_export import (
    ExportablePolicy,
    Format,
    arrays_of_parts,
    observation_arrays,
    opened,
    require,
    write,
)
from muster.simulators.describing import MASK, leaves, mask_sizes
from muster.simulators.masks import MaskReader, mask_in
from muster.simulators.simulator import Simulator
from muster.stepping.episodes import play
from muster.stepping.failures import simulator_error
from muster.stepping.here import called_here
from muster.stepping.live import FailedCallError, LiveSimulator
from muster.stepping.rules import Rules
from muster.stepping.threads import threads

Array = NDArray[Any]

RECORDED = 500
SAMPLED = 500
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Export:
    """What was written: the file, its inputs and outputs, and on how many observations it was checked."""

    path: str
    format: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    observations: int
    largest_difference: float


@dataclass
class _Cases:
    """Observations and masks to check with, and the policy's own answers."""

    observations: list[Any]
    masks: list[Any]
    actions: list[Any]
    outputs: list[Array]


def export(policy: Policy, simulator: Simulator, path: Path, file_format: Format) -> Export:
    """Write a policy to a file that needs no muster, after checking that both decide alike.

    Raises:
        InputError: if an extra is missing, or the policy cannot be exported.
        SimulatorError: if the simulator fails.
        MusterError: if the file and the policy differ.
    """
    require(file_format)
    if not isinstance(policy, ExportablePolicy):
        raise InputError("only what the built-in engine trained can be exported, not a policy of RLlib's")
    with called_here(None), threads(1):
        cases = _cases(policy, simulator)
    interface = policy.interface
    masks = None if all(mask is None for mask in cases.masks) else cases.masks
    arrays = observation_arrays(interface.observations, cases.observations, masks)
    unchecked = path.with_name(f".{path.name}.unchecked")
    try:
        names = write(policy, unchecked, file_format, {name: array[:2] for name, array in arrays.items()})
        results = opened(unchecked, file_format, names)(arrays)
        difference = _difference(interface.actions, cases, results)
        unchecked.replace(path)
    finally:
        unchecked.unlink(missing_ok=True)
    return Export(
        str(path),
        file_format,
        {name: _shape(array) for name, array in arrays.items()},
        {name: _shape(array) for name, array in results.items()},
        len(cases.observations),
        difference,
    )


def _cases(policy: ExportablePolicy, simulator: Simulator) -> _Cases:
    """Record observations of the policy's own episodes, and draw others from the space."""
    cases = _Cases([], [], [], [])
    interface = policy.interface
    reader = MaskReader(interface.observations, interface.actions)

    def add(observation: Any, mask: Any) -> Any:
        observation = deepcopy(observation)
        outputs = policy.outputs(observation)
        action = policy.act(observation, mask=mask)
        if len(cases.observations) < RECORDED + SAMPLED and np.isfinite(outputs).all():
            cases.observations.append(observation)
            cases.masks.append(reader.read(observation, {MASK: mask}))
            cases.actions.append(action)
            cases.outputs.append(outputs[0])
        return action

    live = LiveSimulator(simulator, Rules(check_bounds=False))
    rng = np.random.default_rng(0)
    try:
        live.build()
        space = live.env.observation_space
        space.seed(0)
        for _ in play(live, lambda observation, info: add(observation, mask_in(info)), RECORDED, 0):
            if len(cases.observations) >= RECORDED:
                break
        takes_mask = cases.masks[0] is not None
        with np.errstate(all="ignore"):
            for _ in range(SAMPLED):
                mask = _random_mask(rng, mask_sizes(interface.actions)) if takes_mask else None
                observation = space.sample()
                if "mask" in interface.observations:
                    observation, mask = {**observation, MASK: mask}, None
                add(observation, mask)
    except FailedCallError as error:
        raise simulator_error(f"the simulator failed: {error.failure}", error.failure) from None
    finally:
        with suppress(FailedCallError):
            live.close()
    return cases


def _random_mask(rng: np.random.Generator, sizes: list[int]) -> Array:
    """Return a mask that allows at least one of each choice."""
    parts = [rng.integers(0, 2, size).astype(np.int8) for size in sizes]
    for part in parts:
        part[rng.integers(len(part))] = 1
    return np.concatenate(parts)


def _difference(actions: dict[str, Any], cases: _Cases, results: dict[str, Array]) -> float:
    """Return the largest difference of numbers; choices must be the same.

    Raises:
        MusterError: if the policy and the file differ.
    """
    own = arrays_of_parts("action", actions, cases.actions)
    largest = 0.0
    for (_, leaf), (name, expected) in zip(leaves(actions), own.items(), strict=True):
        result = results[name]
        is_exact = leaf["kind"] != "box" or np.dtype(leaf["dtype"]).kind in "iu"
        gap = np.abs(result.astype(float) - expected.astype(float))
        allowed = 0.0 if is_exact else _TOLERANCE * (1 + np.abs(expected))
        _refuse(gap > allowed, expected, result)
        largest = max(largest, float(gap.max()))
    outputs = np.stack(cases.outputs)[:, : results["outputs"].shape[1]]
    gap = np.abs(results["outputs"] - outputs)
    _refuse(gap > _TOLERANCE * (1 + np.abs(outputs)), outputs, results["outputs"])
    return max(largest, float(gap.max()))


def _refuse(wrong: Array, expected: Array, result: Array) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
        raise MusterError(
            f"the exported file differs from the policy: observation {row} gives {result[row].tolist()}, "
            f"expected {expected[row].tolist()}; nothing was written"
        )


def _shape(array: Array) -> str:
    return f"{array.dtype}[{', '.join(['batch', *map(str, array.shape[1:])])}]"
