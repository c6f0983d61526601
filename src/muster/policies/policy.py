"""What acts, whichever engine trained it; and finding and loading one that was saved."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from muster.errors import CheckpointError, InputError
from muster.extras import how_to_install
from muster.files.ownership import require_own
from muster.files.regular import is_regular, read_bytes

if TYPE_CHECKING:
    import numpy as np

DESCRIPTION_FILE = "policy.json"
ARRAYS_FILE = "policy.npz"

_WITHOUT_CODE = ("mlp",)

# The module that loads each kind, imported when one is met: a policy needs no more than its own kind does.
_HOMES = {
    "mlp": "muster.policies.mlp_policy",
    "torch": "muster.policies.torch_policy",
    "rllib": "muster.engines.rllib.policy",
}


class Policy(Protocol):
    """What acts: an observation of the simulator in, an action for it out."""

    def act(
        self,
        observation: Any,
        *,
        mask: Any = None,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """Return the action for one observation, as the simulator's `step` takes it.

        `mask` is the step's `info["action_mask"]`, if the simulator gives one.
        """

    def begin_episode(self) -> None:
        """Forget the episode before; to be called at every reset, for the sake of policies with a memory."""

    def save(self, folder: Path) -> None:
        """Write `policy.json` and `policy.npz` into a folder."""


def load_policy(path: str | Path, *, trust: bool = False) -> Policy:
    """Load a policy from a checkpoint, a run folder (its best checkpoint), or any folder that holds one.

    A policy of the built-in network runs no code of its files. The other kinds import the network's class that
    they name, and so must be your own, or trusted.

    Raises:
        InputError: if there is no policy there, or what it needs is not installed.
        OwnershipError: if it would run code from files that another user can change.
        CheckpointError: if its files are damaged.
    """
    folder = _find(Path(path))
    try:
        description = json.loads(read_bytes(folder / DESCRIPTION_FILE))
        if description["kind"] not in _WITHOUT_CODE:
            files = (folder, folder / DESCRIPTION_FILE, folder / ARRAYS_FILE)
            require_own(files, f"loading {folder}", trust=trust)
        home = _home(folder, description["kind"])
        policy: Policy = home.load(folder, description)
        return policy
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise CheckpointError(
            f"{folder}: the policy is damaged: {type(error).__name__}: {error}\n    take another checkpoint"
        ) from None


def write_policy(folder: Path, description: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write `policy.json` and `policy.npz` into a folder."""
    import numpy as np

    (folder / DESCRIPTION_FILE).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    with (folder / ARRAYS_FILE).open("wb") as file:
        np.savez(file, **arrays)


def _home(folder: Path, kind: str) -> Any:
    if kind not in _HOMES:
        raise InputError(f"{folder}: a policy of kind {kind!r}; this version loads {', '.join(_HOMES)}")
    try:
        return import_module(_HOMES[kind])
    except ImportError as error:
        raise InputError(
            f"{folder}: a policy of kind {kind!r} needs an extra ({error}){how_to_install(kind)}"
        ) from None


def _find(path: Path) -> Path:
    checkpoints = path / "checkpoints"
    newest_first = sorted(checkpoints.glob("[0-9]*"), reverse=True)
    for folder in (path, checkpoints / "best", checkpoints / "latest", *newest_first):
        if is_regular(folder / DESCRIPTION_FILE):
            return folder
    raise InputError(f"{path}: no policy there\n    expected a run folder or a checkpoint of one")
