"""How the ranks of a launch find each other: by a shared folder, by MPI, or at an address that the user gives.

Each way gives all ranks one secret, and the hosts the address of the head's board. A folder is looked at only
until then: no rank touches it while the command runs.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from muster.clusters.allocation.model import Allocation
from muster.clusters.allocation.pmi import ask_launch_name
from muster.clusters.launching import mpi
from muster.clusters.launching.board_server import Address, BoardServer
from muster.clusters.launching.launch_options import LaunchOptions
from muster.clusters.mounts import NETWORK_TYPES, mount_type, read_mounts
from muster.environment_variables import LAUNCH_ID_VARIABLE, LAUNCH_TOKEN_VARIABLE, RUNS_DIR_VARIABLE
from muster.errors import ClusterError
from muster.runs.files import write_text

NOT_MPI = ("muster", "ssh", "srun", "flux")
"""Launchers in whose ranks MPI may find itself alone, or end the process for want of its own launcher."""
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.05, 1.0
_SECRET, _BOARD, _TROUBLE = "secret", "board.json", "trouble-"
_SECRET_BYTES, _SECRET_SECONDS = 32, 10.0

OpenBoard = Callable[[bytes, int | None], BoardServer]
"""Opens the head's board for a secret, at a given port or at one of its own."""


@dataclass(frozen=True)
class Rendezvous:
    """What the ranks share: the launch's name, its secret, and the way to the head's board."""

    launch_id: str
    secret: bytes
    folder: MeetingFolder | None = None
    """Where the board's address is to be read, if the ranks share a folder."""
    address: Address | None = None
    """The board's address, if it is known already."""
    board: BoardServer | None = None
    """The board itself, if this rank had to open it already."""


class MeetingFolder:
    """A folder for us alone, in which the head writes where its board is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> bytes:
        """Make the folder, whichever rank is first; return the secret that all find there.

        Raises:
            ClusterError: if it cannot be made.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._require_ours()
            with suppress(FileExistsError), _created(self.path / _SECRET) as file:
                file.write(secrets.token_hex(_SECRET_BYTES))
            return self._read_secret()
        except OSError as error:
            raise ClusterError(
                f"{self.path}: the ranks cannot meet there: {error.strerror}\n"
                "    choose a folder that all hosts share and you can write to: "
                f"--runs-dir or {RUNS_DIR_VARIABLE}"
            ) from None

    def _read_secret(self) -> bytes:
        """Return the secret when the rank that made the file has written it."""
        deadline = time.monotonic() + _SECRET_SECONDS
        while len(found := (self.path / _SECRET).read_bytes()) < 2 * _SECRET_BYTES:
            if time.monotonic() > deadline:
                raise OSError(errno.EIO, "its secret was never written")
            time.sleep(FIRST_LOOK_SECONDS)
        return found

    def publish(self, address: Address, host: str) -> None:
        """Write where the head's board is."""
        self._write(_BOARD, {"address": address, "host": host})

    def publish_failure(self, text: str) -> None:
        """Write that no head will come, and why; unless one has come, or the folder is gone already."""
        with suppress(OSError, ClusterError):
            if self.board() is None:
                self._write(_BOARD, {"failure": text})

    def board(self) -> tuple[Address, str] | None:
        """Return where the board is and on which host, or None as long as the head has not come.

        Raises:
            ClusterError: if no head will come.
        """
        with suppress(OSError):
            os.close(os.open(self.path, os.O_RDONLY))  # makes a network file system look again at what is there
        with suppress(OSError, ValueError):
            written = json.loads((self.path / _BOARD).read_text(encoding="utf-8"))
            if "failure" in written:
                raise ClusterError(written["failure"])
            return (written["address"][0], written["address"][1]), written["host"]
        return None

    def leave_order(self, rank: int, order: dict[str, Any]) -> Path:
        """Write what a rank is to do, for its eyes alone; return the file.

        Raises:
            ClusterError: if the folder cannot be made.
        """
        self.open()
        self._write(f"order-{rank}.json", order)
        return self.path / f"order-{rank}.json"

    def is_there(self) -> bool:
        """Whether the launch has not ended yet."""
        return self.path.is_dir()

    def report_trouble(self, host: str, text: str) -> None:
        """Tell the head why a host cannot reach its board."""
        with suppress(OSError):
            self._write(f"{_TROUBLE}{host}.json", text)

    def troubles(self) -> dict[str, str]:
        """Return which hosts cannot reach the board, and why."""
        found = {}
        for path in self.path.glob(f"{_TROUBLE}*.json"):
            with suppress(OSError, ValueError):
                found[path.stem.removeprefix(_TROUBLE)] = str(json.loads(path.read_text(encoding="utf-8")))
        return found

    def remove(self) -> None:
        """Remove the folder when the launch has ended."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _write(self, name: str, value: Any) -> None:
        write_text(self.path / name, json.dumps(value), durable=False, private=True)

    def _require_ours(self) -> None:
        """Look that nobody else made the folder, for then they could write the address of a board of their own."""
        status = self.path.lstat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise ClusterError(
                f"{self.path}: the ranks cannot meet there: other users can enter it\n"
                f"    remove it, or take another {LAUNCH_ID_VARIABLE} or --runs-dir"
            )


def _created(path: Path) -> IO[str]:
    """Open a new file for us alone; of several ranks that try, one succeeds."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii")


def find_others(
    allocation: Allocation, options: LaunchOptions, is_head: bool, open_board: OpenBoard
) -> Rendezvous:
    """Find the other ranks of this launch.

    Raises:
        ClusterError: if nothing tells this launch from others, or the ranks cannot reach each other.
    """
    if options.head_address is not None:
        return _at_address(allocation, options.head_address)
    if _may_be_apart(allocation, options.records) and mpi.is_installed():
        return _by_mpi(allocation, options, is_head, open_board)
    return _in_folder(
        identify(allocation) if allocation.in_step else f"alone-{secrets.token_hex(4)}", options.records
    )


def identify(allocation: Allocation) -> str:
    """Return what names this launch on all its ranks.

    Raises:
        ClusterError: if nothing does.
    """
    if allocation.launch_id is not None:
        return allocation.launch_id.value
    if (asked := ask_launch_name(os.environ)) is not None:
        return f"pmi-{asked.value}"
    raise ClusterError(
        "nothing tells this launch from others, so its ranks cannot meet\n"
        f"    set {LAUNCH_ID_VARIABLE} to the same new value on all ranks, for example: "
        f"{LAUNCH_ID_VARIABLE}=$(date +%s) mpirun -x {LAUNCH_ID_VARIABLE} ..."
    )


def await_board(folder: MeetingFolder, seconds: float, is_over: Callable[[], bool]) -> tuple[Address, str] | None:
    """Wait for the head to write where its board is, looking less and less often; None if it does not.

    Raises:
        ClusterError: if no head will come.
    """
    deadline = time.monotonic() + seconds
    pause = FIRST_LOOK_SECONDS
    while (found := folder.board()) is None and time.monotonic() < deadline and not is_over():
        if not folder.path.is_dir():
            raise ClusterError(f"{folder.path}: the launch has ended before this rank met the others")
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_LOOK_SECONDS)
    return found


def _in_folder(launch_id: str, records: Path) -> Rendezvous:
    folder = MeetingFolder(records / launch_id / "meeting")
    return Rendezvous(launch_id, folder.open(), folder)


def _at_address(allocation: Allocation, address: Address) -> Rendezvous:
    secret = os.environ.get(LAUNCH_TOKEN_VARIABLE)
    if not secret:
        raise ClusterError(
            f"--head-address {address[0]}:{address[1]}: the ranks share no secret by which to know each other\n"
            f"    set {LAUNCH_TOKEN_VARIABLE} to the same new value on all ranks, for example: "
            f"export {LAUNCH_TOKEN_VARIABLE}=$(openssl rand -hex 32)"
        )
    launch_id = allocation.launch_id.value if allocation.launch_id else f"at-{address[0]}-{address[1]}"
    return Rendezvous(launch_id, secret.encode(), address=address)


def _by_mpi(allocation: Allocation, options: LaunchOptions, is_head: bool, open_board: OpenBoard) -> Rendezvous:
    """Ask MPI whether the folder is shared; where it is not, let MPI pass the board's address around."""
    with mpi.World(allocation.ranks) as world:
        if world.problem is None:
            launch_id = world.from_first(f"mpi-{secrets.token_hex(6)}")
            if _is_seen_by_all(world, options.records / launch_id):
                return _in_folder(launch_id, options.records)
            secret = world.from_first(secrets.token_hex(32)).encode()
            board, failure = _opened(open_board, secret) if is_head else (None, None)
            failure = world.from_one(failure)
            address = world.from_one(board.address if board else None)
    if world.problem is not None:
        if is_head:
            print(f"launch: {world.problem}\nlaunch: so the ranks meet in {options.records}", file=sys.stderr)
        return _in_folder(identify(allocation), options.records)
    if failure is not None:
        raise ClusterError(failure)
    if address is None:
        raise ClusterError(
            f"no rank is on the head's host {options.head}\n    --head must name one of these hosts"
        )
    return Rendezvous(launch_id, secret, address=address, board=board)


def _opened(open_board: OpenBoard, secret: bytes) -> tuple[BoardServer | None, str | None]:
    """Open the board, or say why it cannot be opened, for then the other ranks must not wait for it."""
    try:
        return open_board(secret, None), None
    except ClusterError as error:
        return None, str(error)


def _is_seen_by_all(world: mpi.World, folder: Path) -> bool:
    if world.is_first:
        folder.mkdir(parents=True, exist_ok=True)

    def look() -> bool:
        with suppress(OSError):
            os.close(os.open(folder.parent, os.O_RDONLY))
        return folder.is_dir()

    return world.all_say(look)


def _may_be_apart(allocation: Allocation, records: Path) -> bool:
    """Whether MPI's ranks are on several hosts, and the folder not on a network file system."""
    ranks = allocation.ranks
    if ranks is None or ranks.launcher.value in NOT_MPI or ranks.num_ranks is None:
        return False
    if ranks.num_local_ranks is not None and ranks.num_local_ranks.value == ranks.num_ranks.value:
        return False
    return mount_type(records, read_mounts()) not in NETWORK_TYPES
