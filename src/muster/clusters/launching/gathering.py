"""How the ranks of a launch find each other: by a shared folder, by MPI, or at an address that the user gives."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from muster.clusters.allocation.model import Allocation
from muster.clusters.allocation.pmi import ask_launch_name
from muster.clusters.launching import mpi
from muster.clusters.launching.addresses import own_address
from muster.clusters.launching.folder_board import FolderBoard, refreshed
from muster.clusters.launching.meeting import Board
from muster.clusters.launching.network_board import Address, RemoteBoard, ServedBoard
from muster.clusters.launching.options import TOKEN_VARIABLE, LaunchOptions
from muster.clusters.mounts import NETWORK_TYPES, mount_type, read_mounts
from muster.errors import ClusterError

NOT_MPI = ("muster", "ssh", "srun", "flux")
"""Launchers in whose ranks MPI may find itself alone, or end the process for want of its own launcher."""


@dataclass(frozen=True)
class Gathering:
    """What the ranks share from now on: the launch's name and its board."""

    launch_id: str
    board: Board
    folder: Path | None = None
    """Where the board is, if it is on a folder that all hosts share."""


def gather(allocation: Allocation, options: LaunchOptions, is_head: bool) -> Gathering:
    """Find the other ranks of this launch.

    Raises:
        ClusterError: if nothing tells this launch from others, or the ranks cannot reach each other.
    """
    if options.head_address is not None:
        return _at_address(allocation, options, options.head_address, is_head)
    if _may_be_apart(allocation, options.records) and mpi.is_installed():
        return _by_mpi(allocation, options, is_head)
    launch_id = identify(allocation) if allocation.in_step else f"alone-{secrets.token_hex(4)}"
    return _in_folder(launch_id, options.records)


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
        "    set MUSTER_LAUNCH_ID to the same new value on all ranks, for example: "
        "MUSTER_LAUNCH_ID=$(date +%s) mpirun -x MUSTER_LAUNCH_ID ..."
    )


def _in_folder(launch_id: str, records: Path) -> Gathering:
    board = FolderBoard(records / launch_id / "meeting").open()
    return Gathering(launch_id, board, board.path)


def _at_address(allocation: Allocation, options: LaunchOptions, address: Address, is_head: bool) -> Gathering:
    secret = os.environ.get(TOKEN_VARIABLE)
    if not secret:
        raise ClusterError(
            f"--head-address {address[0]}:{address[1]}: the ranks share no secret by which to know each other\n"
            f"    set {TOKEN_VARIABLE} to the same new value on all ranks, for example: "
            f"export {TOKEN_VARIABLE}=$(openssl rand -hex 32)"
        )
    launch_id = allocation.launch_id.value if allocation.launch_id else f"at-{address[0]}-{address[1]}"
    key = secret.encode()
    board: Board = ServedBoard(*address, key) if is_head else RemoteBoard(address, key, options.timeout)
    return Gathering(launch_id, board)


def _by_mpi(allocation: Allocation, options: LaunchOptions, is_head: bool) -> Gathering:
    """Ask MPI whether the folder is shared; where it is not, meet at an address that MPI passes around."""
    with mpi.World(allocation.ranks) as world:
        if world.problem is None:
            launch_id = world.from_first(f"mpi-{secrets.token_hex(6)}")
            if _is_seen_by_all(world, options.records / launch_id):
                return _in_folder(launch_id, options.records)
            secret = world.from_first(secrets.token_hex(32)).encode()
            served = ServedBoard(own_address([], options.interface), 0, secret) if is_head else None
            address = world.from_one(served.address if served else None)
    if world.problem is not None:
        if is_head:
            print(f"launch: {world.problem}\nlaunch: so the ranks meet in {options.records}", file=sys.stderr)
        return _in_folder(identify(allocation), options.records)
    # Only now, for while MPI ends on the head's rank, its board cannot answer.
    if address is None:
        raise ClusterError(
            f"no rank is on the head's host {options.head}\n    --head must name one of these hosts"
        )
    return Gathering(launch_id, served or RemoteBoard(address, secret, options.timeout))


def _is_seen_by_all(world: mpi.World, folder: Path) -> bool:
    if world.is_first:
        folder.mkdir(parents=True, exist_ok=True)
    return world.all_say(refreshed(folder).is_dir)


def _may_be_apart(allocation: Allocation, records: Path) -> bool:
    """Whether MPI's ranks are on several hosts, and the folder not on a network file system."""
    ranks = allocation.ranks
    if ranks is None or ranks.launcher.value in NOT_MPI or ranks.num_ranks is None:
        return False
    if ranks.num_local_ranks is not None and ranks.num_local_ranks.value == ranks.num_ranks.value:
        return False
    return mount_type(records, read_mounts()) not in NETWORK_TYPES
