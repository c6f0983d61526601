"""The leader of any other host: start Ray there, and stay until the head says that it is done."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import asdict

from muster.clusters.allocation.host_lists import short_name
from muster.clusters.launching.board_client import BoardClient, HeadGoneError
from muster.clusters.launching.board_server import Address
from muster.clusters.launching.board_topics import HeadState, Topic
from muster.clusters.launching.causes import last_lines, why_unreachable
from muster.clusters.launching.host_ray import HostRay, held_ports
from muster.clusters.launching.led_host import LedHost, RayPlace
from muster.clusters.launching.rank import LEAVE_SECONDS
from muster.clusters.launching.rendezvous import await_board
from muster.clusters.launching.signals import InterruptedLaunchError
from muster.errors import ClusterError, MusterError

HEAD_LOST_SECONDS = 30.0
INTERRUPTED_SECONDS = 5.0
"""How long to wait for a silent head when a signal has come."""
BRING_UP_SECONDS, STEADY_SECONDS = 0.5, 5.0
"""How long the head may take to answer that nothing has changed."""
DOUBT_SECONDS = 15.0
"""How long a rank looks for the head before it says on its own screen what may be wrong."""
KNOCK_AGAIN_SECONDS = 2.0
_PERHAPS_APART = "\n    hosts that share no folder meet by --head-address or mpi4py"


class Member:
    """Leads one host of a launch, and follows the head."""

    def __init__(self, host: LedHost) -> None:
        self._host = host
        self._rank = host.rank
        self._rendezvous = host.rendezvous
        self._leader = host.leader
        self._state = HeadState()
        self._answered = time.monotonic()
        self._patience = HEAD_LOST_SECONDS
        self._knocked = 0.0
        self._trouble: str | None = None

    def follow(self) -> int:
        """Be the leader of a host from beginning to end; return the launch's code.

        Raises:
            ClusterError: if the head cannot be found.
            InterruptedLaunchError: if a signal comes before the head is found.
        """
        code: int | None = None
        try:
            board = self._find_head()
            code = self._take_part(board)
        except (ClusterError, InterruptedLaunchError):
            self._remove_meeting_without_head()
            raise
        finally:
            self._leader.dismiss(ClusterError.exit_code if code is None else code)
        return ClusterError.exit_code if code is None else code

    def _remove_meeting_without_head(self) -> None:
        """Remove the meeting folder if no head has ever come that would; one that has failed does."""
        folder = self._rendezvous.folder
        with suppress(ClusterError):
            if folder is not None and folder.board() is None:
                folder.remove()

    def _find_head(self) -> BoardClient:
        """Return the head's board.

        Raises:
            ClusterError: if there is none, or it cannot be reached.
        """
        rank, folder = self._rank, self._rendezvous.folder
        deadline = time.monotonic() + rank.options.timeout
        while True:
            address = self._rendezvous.address or self._await_address(deadline - time.monotonic())
            board = BoardClient(address, self._rendezvous.secret, rank.number, short_name(rank.allocated_as))
            patience = min(KNOCK_AGAIN_SECONDS, rank.options.timeout) if folder else rank.options.timeout
            try:
                board.connect(patience, rank.signals.have_come)
                rank.signals.raise_first()
                return board
            except ClusterError as error:
                if folder is None or time.monotonic() > deadline:
                    raise
                folder.report_trouble(rank.allocated_as, str(error))

    def _await_address(self, seconds: float) -> Address:
        rank, folder = self._rank, self._rendezvous.folder
        assert folder is not None
        found = await_board(folder, min(DOUBT_SECONDS, seconds), rank.signals.have_come)
        if found is None and seconds > DOUBT_SECONDS and not rank.signals.have_come():
            print(f"launch: {rank.host} still sees no head in {folder.path}{_PERHAPS_APART}", file=sys.stderr)
            found = await_board(folder, seconds - DOUBT_SECONDS, rank.signals.have_come)
        rank.signals.raise_first()
        if found is None:
            raise ClusterError(
                f"no head was seen within {rank.options.timeout:g} s\n"
                f"    is there a rank on {rank.options.head or 'the first host'}, "
                f"and does it share {folder.path.parent}?{_PERHAPS_APART}"
            )
        return found[0]

    def _take_part(self, board: BoardClient) -> int | None:
        """Host Ray until the launch is done; return its code, or None if the head is lost."""
        timeline = self._host.timeline
        try:
            try:
                code = self._host_ray(board)
            except HeadGoneError:
                raise
            except Exception as error:
                board.put(Topic.FAILED, {"host": self._rank.allocated_as, "why": str(error)})
                if not isinstance(error, (MusterError, OSError)):
                    raise
                print(f"launch: {self._rank.host}: {error}", file=sys.stderr)
                code = self._await_done(board)
        except HeadGoneError:
            timeline.add("head lost")
            return None
        if self._state.failure is not None:
            print(f"launch: {self._state.failure}", file=sys.stderr)
        board.put(Topic.LEFT, timeline.events)
        self._await_closing(board)
        return code

    def _host_ray(self, board: BoardClient) -> int:
        rank = self._rank
        address = rank.address([board.address[0]])
        board.put(Topic.HOST, asdict(self._host.card(address)))
        code: int | None = None
        with held_ports(rank.allocation, rank.options) as ports, self._host.held_ray() as ray:
            try:
                self._await_start(board, address)
                head, token = self._state.head, self._state.token
                if self._state.done is None and head is not None and token is not None:
                    place = RayPlace(address, head, token, hosts=[head.rpartition(":")[0]])
                    self._host.start_ray(ray, ports, place, self._state.own)
                code = self._await_done(board, ray)
                return code
            finally:
                ray.end(code)
                self._host.timeline.add("ray ended")

    def _await_start(self, board: BoardClient, address: str) -> None:
        """Wait until Ray can be started here: the head is up, and all ranks of this host have come."""
        told = len(self._host.local_ranks())
        while self._state.done is None:
            if len(self._host.local_ranks()) != told:
                card = self._host.card(address)
                told = len(card.ranks)
                board.put(Topic.HOST, asdict(card))
            if self._state.head is not None and (self._state.all_here or self._host.are_all_ranks_here()):
                return
            self._hear(board, BRING_UP_SECONDS)

    def _await_done(self, board: BoardClient, ray: HostRay | None = None) -> int:
        """Stay until the launch is done, and report what becomes of this host's Ray."""
        reported = False
        while self._state.done is None:
            is_up = self._state.ready
            self._hear(board, STEADY_SECONDS if is_up else BRING_UP_SECONDS)
            if ray is None:
                continue
            if (ended := ray.exit()) is not None and not reported:
                reported = True
                why = f"its Ray exited with code {ended['code']}{last_lines(self._host.log)}"
                board.put(Topic.FAILED, {"host": self._rank.allocated_as, "why": why})
            if not is_up and self._state.head is not None:
                self._knock(board, self._state.head)
        return self._state.done

    def _knock(self, board: BoardClient, head: str) -> None:
        """Tell the head, as long as not all are in, what keeps this host's Ray from reaching it."""
        if time.monotonic() - self._knocked > KNOCK_AGAIN_SECONDS:
            self._knocked = time.monotonic()
            host, _, port = head.rpartition(":")
            if (trouble := why_unreachable((host, int(port)))) != self._trouble:
                self._trouble = trouble
                board.put(Topic.TROUBLE, trouble)

    def _hear(self, board: BoardClient, seconds: float) -> None:
        """Hear from the head, and pass signals on to it.

        Raises:
            HeadGoneError: if it is gone, or has been silent for too long.
        """
        state = board.state(seconds, self._rank.signals.have_come)
        if state is not None:
            self._state, self._answered = state, time.monotonic()
        elif time.monotonic() - self._answered > self._patience:
            raise HeadGoneError
        if numbers := [*self._rank.signals.take(), *self._leader.take_signals()]:
            self._patience = INTERRUPTED_SECONDS
            board.put(Topic.SIGNALS, numbers, number=time.time_ns(), seconds=INTERRUPTED_SECONDS)

    def _await_closing(self, board: BoardClient) -> None:
        """Stay until the head has ended too: some launchers end all ranks at the first that exits."""
        deadline = time.monotonic() + LEAVE_SECONDS
        while time.monotonic() < deadline:
            try:
                board.state(BRING_UP_SECONDS)
            except HeadGoneError:
                return
