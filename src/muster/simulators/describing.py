"""Spaces as plain descriptions: dicts that JSON can hold, so that a saved policy needs no Gymnasium."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import gymnasium

Description = dict[str, Any]
Keys = tuple[str | int, ...]

MASK = "action_mask"
MOST_CHANNELS = 16
_TAKEN = "Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of these"


class Spaces(Protocol):
    """What has an observation space and an action space."""

    @property
    def observation_space(self) -> Any:
        """The space of what the simulator returns."""

    @property
    def action_space(self) -> Any:
        """The space of what it takes."""


class UnsupportedSpaceError(ValueError):
    """A space that has no encoding; `hint` says what to do about it."""

    hint = "a wrapper in env.wrappers can convert it"


def describe_observations(
    space: gymnasium.Space[Any], image_dimensions: Collection[int] = (), name: str = "observation"
) -> Description:
    """Describe an observation space; a uint8 Box with one of the numbers of dimensions given is an image.

    Raises:
        UnsupportedSpaceError: naming the part that has no encoding, and what has.
    """
    from gymnasium import spaces

    match space:
        case spaces.Dict():
            return {"kind": "dict", "parts": _describe_parts(space, image_dimensions, name)}
        case spaces.Tuple():
            members = enumerate(space.spaces)
            return {
                "kind": "tuple",
                "parts": [describe_observations(part, image_dimensions, f"{name}[{i}]") for i, part in members],
            }
    leaf = _describe_leaf(space, name)
    if leaf["kind"] == "box" and leaf["dtype"] == "uint8" and len(leaf["shape"]) in image_dimensions:
        return {"kind": "image", "shape": leaf["shape"]}
    return leaf


def _describe_parts(space: gymnasium.spaces.Dict, image_dimensions: Collection[int], name: str) -> Description:
    parts, errors = {}, []
    for key, part in space.spaces.items():
        try:
            parts[key] = describe_observations(part, image_dimensions, f"{name}[{key!r}]")
        except UnsupportedSpaceError as error:
            errors.append(error)
    if errors:
        if parts and name == "observation":
            keys = ", ".join(f'"{key}"' for key in parts)
            leaves_out = f'{{ class = "gymnasium.wrappers:FilterObservation", filter_keys = [{keys}] }}'
            errors[0].hint += f", or leave it out: env.wrappers = [{leaves_out}]"
        raise errors[0]
    return parts


def is_channels_first(shape: Sequence[int]) -> bool:
    """Return whether an image has its channels, or stacked frames, before its height and width."""
    return len(shape) == 3 and shape[0] <= MOST_CHANNELS and shape[0] < min(shape[1:])


def describe_actions(space: gymnasium.Space[Any], *, squash: bool = False, name: str = "action") -> Description:
    """Describe an action space; `squash` lets a bounded Box be reached through tanh rather than clipped.

    Raises:
        UnsupportedSpaceError: naming the part that has no encoding, and what has.
    """
    from gymnasium import spaces

    match space:
        case spaces.Dict():
            items = space.spaces.items()
            parts = {key: describe_actions(part, squash=squash, name=f"{name}[{key!r}]") for key, part in items}
            return {"kind": "dict", "parts": parts}
        case spaces.Tuple():
            members = enumerate(space.spaces)
            return {
                "kind": "tuple",
                "parts": [describe_actions(part, squash=squash, name=f"{name}[{i}]") for i, part in members],
            }
    leaf = _describe_leaf(space, name)
    return {**leaf, "squash": True} if squash and leaf["kind"] == "box" else leaf


def _describe_leaf(space: gymnasium.Space[Any], name: str) -> Description:
    from gymnasium import spaces

    match space:
        case spaces.Box():
            return {
                "kind": "box",
                "shape": list(space.shape),
                "dtype": str(space.dtype),
                "low": _finite_or_none(space.low),
                "high": _finite_or_none(space.high),
            }
        case spaces.Discrete():
            return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            return {
                "kind": "multi_discrete",
                "nvec": np.ravel(space.nvec).tolist(),
                "start": np.ravel(space.start).tolist(),
                "shape": list(space.shape),
                "dtype": str(space.dtype),
            }
        case spaces.MultiBinary():
            return {"kind": "multi_binary", "shape": list(space.shape)}
    role, _, _ = name.partition("[")
    part = "" if name == role else f" (part {name})"
    raise UnsupportedSpaceError(f"{role} space {space}{part} is not supported; expected {_TAKEN}")


def _finite_or_none(bounds: NDArray[Any]) -> list[float | None]:
    return [float(bound) if np.isfinite(bound) else None for bound in np.ravel(bounds)]


def leaves(description: Description, path: Keys = ()) -> Iterator[tuple[Keys, Description]]:
    """Yield the parts that have no parts, each with the keys that lead to it."""
    if description["kind"] == "dict":
        for name, part in description["parts"].items():
            yield from leaves(part, (*path, name))
    elif description["kind"] == "tuple":
        for index, part in enumerate(description["parts"]):
            yield from leaves(part, (*path, index))
    else:
        yield path, description


def choice_sizes(leaf: Description) -> list[int]:
    """Return among how many each choice of an action's part is; none for a Box."""
    match leaf["kind"]:
        case "discrete":
            return [leaf["n"]]
        case "multi_discrete":
            return list(leaf["nvec"])
        case "multi_binary":
            return [2] * int(np.prod(leaf["shape"]))
    return []


def mask_sizes(actions: Description) -> list[int]:
    """Return the sizes of the choices that an action mask tells of; none if such actions take no mask."""
    return choice_sizes(actions) if actions["kind"] in ("discrete", "multi_discrete") else []


def with_mask(observations: Description, actions: Description) -> Description:
    """Take the part `action_mask` of a Dict out of what the network sees, if the actions take a mask.

    Raises:
        UnsupportedSpaceError: if the mask does not have an entry for each choice, or nothing is left to see.
    """
    parts = observations.get("parts")
    if not isinstance(parts, dict) or MASK not in parts or not (sizes := mask_sizes(actions)):
        return observations
    size = int(np.prod(parts[MASK].get("shape", [0])))
    if size != sum(sizes):
        raise UnsupportedSpaceError(
            f"observation[{MASK!r}] has {size} entries; expected {sum(sizes)}, one for each choice of the actions"
        )
    seen = {name: part for name, part in parts.items() if name != MASK}
    if not seen:
        raise UnsupportedSpaceError(f"observation has no part but {MASK!r}; expected something to decide by")
    return {**observations, "parts": seen, "mask": True}
