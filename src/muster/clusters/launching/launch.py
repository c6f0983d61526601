"""`muster launch` on one rank: find the others, then lead the launch, lead a host, or follow."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path

from muster.clusters.allocation.model import Allocation
from muster.clusters.launching import keeper_process, outer_process
from muster.clusters.launching.board_server import BoardServer
from muster.clusters.launching.head import Head
from muster.clusters.launching.host_ray import held_ports
from muster.clusters.launching.launch_options import LaunchOptions
from muster.clusters.launching.led_host import LedHost
from muster.clusters.launching.local_ranks import LocalLeader, follow
from muster.clusters.launching.member import Member
from muster.clusters.launching.plan import shares_to_hand_on
from muster.clusters.launching.ports import PortBlock
from muster.clusters.launching.rank import Rank
from muster.clusters.launching.rendezvous import LONGEST_LOOK_SECONDS, Rendezvous, await_board, find_others
from muster.clusters.launching.signals import InterruptedLaunchError, Signals
from muster.clusters.launching.usage import record_usage
from muster.clusters.waiting import wait_for
from muster.environment_variables import LAUNCH_CPUS_VARIABLE, LAUNCH_ID_VARIABLE
from muster.errors import ClusterError, InputError
from muster.extras import how_to_install

BOARD_SERVICE = 9
_DASHBOARD_IMPORTS = "dashboard/optional_deps.py"
"""The file of Ray's that imports all that its dashboard needs."""
FAILURE_SECONDS = 3 * LONGEST_LOOK_SECONDS
"""How long a head that has failed leaves the word of it where the other ranks look."""


def refuse_where_impossible(environ: Mapping[str, str]) -> None:
    """Refuse a launch on a system that cannot keep its processes together, or inside another launch's command.

    Raises:
        InputError: if so.
    """
    if sys.platform != "linux":
        raise InputError(
            "launch: works on Linux alone\n    `muster train` uses all CPUs of this machine by itself"
        )
    if LAUNCH_CPUS_VARIABLE in environ:
        raise InputError(
            "launch: this already runs inside a launch, whose Ray is at "
            f"RAY_ADDRESS={environ.get('RAY_ADDRESS', '')}\n"
            "    run the command itself, without `muster launch --`: it joins that Ray"
        )


def require_dashboard() -> None:
    """Look that Ray's dashboard is installed, without importing Ray: it would keep to the token of that moment.

    Raises:
        InputError: if it is not.
    """
    ray = find_spec("ray")
    assert ray is not None and ray.origin is not None
    try:
        runpy.run_path(str(Path(ray.origin).parent / _DASHBOARD_IMPORTS))
    except ImportError as error:
        raise InputError(
            f"--dashboard: the packages of Ray's dashboard are not installed: {error}{how_to_install('ray')}"
        ) from None


def launch(allocation: Allocation, options: LaunchOptions) -> int:
    """Do this rank's part in a launch; return the exit code of its command.

    Raises:
        ClusterError: if the cluster does not come up.
    """
    sys.stdout.flush()
    outer_process.continue_below()
    keeper_process.adopt_orphans()
    signals = Signals()
    with signals.taken():
        try:
            return _take_part(Rank(allocation, options, signals))
        except InterruptedLaunchError as interrupted:
            return interrupted.exit_code
        except OSError as error:
            raise ClusterError(f"{error.filename or os.uname().nodename}: {error.strerror or error}") from error
        finally:
            record_usage(os.environ)


def _take_part(rank: Rank) -> int:
    with ExitStack() as held:
        ports: PortBlock | None = None

        def open_board(secret: bytes, port: int | None) -> BoardServer:
            nonlocal ports
            ports = ports or held.enter_context(held_ports(rank.allocation, rank.options))
            others = [host.name for host in rank.allocation.hosts.value if host.name != rank.host]
            given = rank.options.head_address
            address = given[0] if given else rank.address(others)
            return BoardServer(address, port or ports.service(BOARD_SERVICE), secret)

        rendezvous = find_others(rank.allocation, rank.options, rank.may_be_head(), open_board)
        rank.signals.raise_first()
        leader = _lead_here(rank, rendezvous)
        if leader is None:
            code = follow(rendezvous.secret, rank.card(), rank.options.timeout, rank.signals.take)
            return ClusterError.exit_code if code is None else code
        if not rank.may_be_head():
            return Member(LedHost(rank, rendezvous, leader, on_screen=False)).follow()
        given = rank.options.head_address
        try:
            board = rendezvous.board or open_board(rendezvous.secret, given[1] if given else None)
        except ClusterError as error:
            _tell_failure(rank, rendezvous, error)
            raise
        assert ports is not None
        board.hand_out(shares_to_hand_on(rank.allocation))
        if rendezvous.folder is not None:
            rendezvous.folder.publish(board.address, rank.host)
        return Head(LedHost(rank, rendezvous, leader, on_screen=True), board, ports).lead()


def _tell_failure(rank: Rank, rendezvous: Rendezvous, error: ClusterError) -> None:
    """Tell the other ranks that their head has failed, and stay until they have looked."""
    if rank.num_ranks == 1:
        return
    failure = f"the head on {rank.host} failed: {error}"
    folder, given = rendezvous.folder, rank.options.head_address
    with ExitStack() as held, suppress(ClusterError):
        if folder is not None:
            folder.publish_failure(failure)
            held.callback(folder.remove)
        elif given is not None:
            board = BoardServer(given[0], given[1], rendezvous.secret)
            held.callback(board.close)
            board.announce(done=error.exit_code, failure=failure)
        wait_for(lambda: rank.signals.have_come() or None, FAILURE_SECONDS)


def _lead_here(rank: Rank, rendezvous: Rendezvous) -> LocalLeader | None:
    """Take the lead on this host if this rank is the first there; None if another one leads.

    Where the launcher does not tell which is the first, the first to come leads; on the head's host, the head.
    """
    if rank.local_rank not in (0, None):
        return None
    is_known = rank.local_rank == 0 or (rank.number == 0 and rank.may_be_head())
    if not is_known and not rank.may_be_head() and _is_head_here(rank, rendezvous):
        return None
    try:
        return LocalLeader(rendezvous.secret, rank.card())
    except OSError:
        if not is_known:
            return None
    raise ClusterError(
        f"another launch named {rendezvous.launch_id} runs on {rank.host}\n"
        f"    wait until it ends, or give this one a {LAUNCH_ID_VARIABLE} of its own"
    )


def _is_head_here(rank: Rank, rendezvous: Rendezvous) -> bool:
    if rendezvous.folder is None:
        return False
    found = await_board(rendezvous.folder, rank.options.timeout, rank.signals.have_come)
    rank.signals.raise_first()
    return found is not None and found[1] == rank.host
