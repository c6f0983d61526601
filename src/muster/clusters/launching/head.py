"""The head's rank: bring Ray up, run the command, end everything, whatever happens on the way."""

from __future__ import annotations

import secrets
import signal
import time

from muster.clusters.allocation.grace import grace_of_command
from muster.clusters.launching.board_server import BoardServer
from muster.clusters.launching.board_topics import Topic
from muster.clusters.launching.causes import last_lines
from muster.clusters.launching.dashboard_record import FOLDER as DASHBOARD
from muster.clusters.launching.dashboard_record import DashboardRecord, write_dashboard
from muster.clusters.launching.host_ray import HostRay
from muster.clusters.launching.led_host import LedHost, RayPlace
from muster.clusters.launching.missing import Missing, explain_missing, missing_hosts
from muster.clusters.launching.plan import HostCard, version_mismatch
from muster.clusters.launching.ports import PortBlock
from muster.clusters.launching.rank import LEAVE_SECONDS
from muster.clusters.launching.ray_node import DASHBOARD_SERVICE, LOOPBACK
from muster.clusters.launching.readiness import STEADY_SECONDS, ClusterView
from muster.clusters.launching.signals import ENDING, FORWARDED_AS, InterruptedLaunchError
from muster.clusters.waiting import POLL_SECONDS, wait_for
from muster.environment_variables import (
    END_TIME_VARIABLE,
    GRACE_VARIABLE,
    LAUNCH_CPUS_VARIABLE,
    LAUNCH_ID_VARIABLE,
)
from muster.errors import ClusterError, MusterError

COMMAND = "command"
LAST_SECONDS = 5.0
"""How long the command may take to save and end when its Ray is lost."""
GONE_SECONDS = 5.0
"""How long a host that has checked in may be silent before the others are in."""


class Head:
    """Leads a launch."""

    def __init__(self, host: LedHost, board: BoardServer, ports: PortBlock) -> None:
        self._host = host
        self._rank = host.rank
        self._rendezvous = host.rendezvous
        self._board = board
        self._leader = host.leader
        self._ports = ports
        self._timeline = host.timeline
        self._last_seen: dict[int, float] = {}

    def lead(self) -> int:
        """Be the head's rank from beginning to end; return the command's code.

        Raises:
            ClusterError: if the cluster does not come up, or is lost.
        """
        meeting = self._rendezvous.folder
        folders = [meeting.path] if meeting else []
        code = ClusterError.exit_code
        removed = [*folders, self._rank.records(self._rendezvous) / DASHBOARD]
        with self._host.held_ray(removed) as ray:
            try:
                code = self._bring_up_and_run(ray)
            except InterruptedLaunchError as interrupted:
                self._timeline.add("interrupted", signal=str(interrupted))
                code = interrupted.exit_code
            except MusterError as error:
                code = error.exit_code
                raise
            finally:
                self._timeline.add("ending", code=code)
                self._board.announce(done=code)
                for folder in folders:
                    ray.keeper.spare(folder)
                ray.end(code)
                self._await_leaving()
                self._timeline.add("ended")
                timelines = self._board.all_of(Topic.LEFT).values()
                self._timeline.join([event for events in timelines for event in events])
                self._leader.dismiss(code)
                if meeting is not None:
                    meeting.remove()
                self._board.close()
        return code

    def _bring_up_and_run(self, ray: HostRay) -> int:
        rank, options = self._rank, self._rank.options
        hosts = [host.name for host in rank.allocation.hosts.value if host.name != rank.host]
        address = rank.address(hosts)
        self._await_local_ranks()
        place = RayPlace(address, head=None, token=secrets.token_hex(32), hosts=hosts)
        environment = self._host.start_ray(ray, self._ports, place)
        head_address = place.head_address(self._ports)
        self._board.announce(head=head_address, token=place.token)
        view = ClusterView(head_address, ray.token)
        self._await_hosts(ray, view, address)
        self._board.announce(ready=True)
        self._timeline.add("all in", hosts=len(view.alive()), cpus=view.num_cpus())
        view.pause_seconds = STEADY_SECONDS
        if options.dashboard:
            self._record_dashboard(place.token)
        environment |= {
            "RAY_ADDRESS": head_address,
            LAUNCH_ID_VARIABLE: self._rendezvous.launch_id,
            LAUNCH_CPUS_VARIABLE: str(view.num_cpus()),
        }
        environment[GRACE_VARIABLE] = f"{self._grace():g}"
        if rank.allocation.end_time is not None:
            environment[END_TIME_VARIABLE] = str(rank.allocation.end_time.value)
        command = [part.replace("{ray_address}", head_address) for part in options.command]
        self._timeline.add("command started", command=" ".join(command))
        ray.keeper.start(COMMAND, command, environment)
        return self._attend_command(ray, view)

    def _record_dashboard(self, token: str) -> None:
        rank, port = self._rank, self._ports.service(DASHBOARD_SERVICE)
        write_dashboard(rank.records(self._rendezvous), DashboardRecord(rank.allocated_as, rank.host, port, token))
        self._timeline.add("dashboard", address=f"{LOOPBACK}:{port} on {rank.host}")

    def _await_local_ranks(self) -> None:
        """Wait for the other ranks of this host, whose masks add to its share; and where nobody tells how many
        there are, for all ranks of the launch.
        """

        def look() -> bool | None:
            self._rank.signals.raise_first()
            return self._host.are_all_ranks_here() or self._are_all_here() or None

        wait_for(look, self._rank.options.timeout)
        self._board.announce(all_here=self._are_all_here())

    def _are_all_here(self) -> bool:
        """Whether all ranks of the launch have come, and as many hosts as were asked for."""
        others = self._other_hosts()
        num_ranks = len(self._host.local_ranks()) + sum(len(card.ranks) for card in others)
        return num_ranks >= self._rank.num_ranks and 1 + len(others) >= (self._rank.options.nodes or 1)

    def _other_hosts(self) -> list[HostCard]:
        return [HostCard(**card) for _, card in sorted(self._board.all_of(Topic.HOST).items())]

    def _await_hosts(self, ray: HostRay, view: ClusterView, address: str) -> None:
        """Wait until every rank has come and Ray sees every host.

        Raises:
            ClusterError: naming those that are missing, or what differs between hosts.
            InterruptedLaunchError: if a signal comes.
        """
        rank, options = self._rank, self._rank.options
        started = time.monotonic()
        own = self._host.card(address)
        announced: set[str] = set()
        while True:
            self._take_relayed()
            rank.signals.raise_first()
            hosts = [own, *self._other_hosts()]
            if mismatch := version_mismatch(hosts):
                raise ClusterError(mismatch)
            if (ended := ray.exit()) is not None:
                raise ClusterError(f"Ray's head exited with code {ended['code']}{last_lines(ray.log)}")
            alive = view.alive()
            for card in hosts:
                if card.address in alive and card.host not in announced:
                    announced.add(card.host)
                    self._timeline.add("host in", name=card.host)
            are_all_here = self._are_all_here()
            self._board.announce(all_here=are_all_here)
            if are_all_here and all(card.address in alive for card in hosts):
                return
            failures = self._failures(hosts)
            elapsed = time.monotonic() - started
            if failures or elapsed > options.timeout:
                missing = missing_hosts(rank.allocation, hosts, alive)
                if options.min_nodes is not None and len(announced) >= options.min_nodes:
                    self._timeline.add("continuing without", hosts=", ".join(missing) or "some ranks")
                    return
                raise ClusterError(
                    explain_missing(
                        Missing(missing, failures, self._board.all_of(Topic.TROUBLE), elapsed),
                        rank,
                        self._rendezvous,
                        hosts,
                    )
                )
            time.sleep(POLL_SECONDS)

    def _failures(self, hosts: list[HostCard]) -> dict[str, str]:
        """Return the hosts that cannot come any more, and why: by their names in the allocation."""
        failures = dict(self._rank.signals.failures)
        failures |= {failed["host"]: failed["why"] for failed in self._board.all_of(Topic.FAILED).values()}
        now = time.monotonic()
        for card in hosts[1:]:
            if self._board.is_connected(card.rank):
                self._last_seen[card.rank] = now
            elif now - self._last_seen.setdefault(card.rank, now) > GONE_SECONDS:
                failures.setdefault(card.allocated_as, "its rank has exited or was killed, or its network is cut")
        return failures

    def _take_relayed(self) -> None:
        """Take the signals that other ranks have received."""
        for number in self._leader.take_signals():
            self._rank.signals.relay(number)
        for numbers in self._board.take_all_of(Topic.SIGNALS):
            for number in numbers:
                self._rank.signals.relay(number)

    def _attend_command(self, ray: HostRay, view: ClusterView) -> int:
        alive = view.alive()
        names = {card.address: card.host for card in self._other_hosts()}
        kill_at: float | None = None
        lost: str | None = None
        while (ended := ray.keeper.exit_of(COMMAND)) is None:
            self._take_relayed()
            for number in self._rank.signals.take():
                self._timeline.add("signal forwarded", name=number.name)
                ray.keeper.signal(COMMAND, FORWARDED_AS.get(number, number))
                if number in ENDING and kill_at is None:
                    kill_at = time.monotonic() + self._grace()
            if lost is None and (exited := ray.exit()) is not None:
                lost = f"Ray's head exited with code {exited['code']}{last_lines(ray.log)}"
                self._timeline.add("ray lost", code=exited["code"])
                ray.keeper.signal(COMMAND, signal.SIGTERM)
                kill_at = min(kill_at or float("inf"), time.monotonic() + LAST_SECONDS)
            if kill_at is not None and time.monotonic() > kill_at:
                self._timeline.add("command killed", reason="it did not end within its grace period")
                ray.keeper.signal(COMMAND, signal.SIGKILL)
                kill_at = float("inf")
            alive = self._report_losses(alive, view.alive(), names)
            time.sleep(POLL_SECONDS)
        if "error" in ended:
            raise ClusterError(f"the command could not be started: {ended['error']}")
        code = int(ended["code"])
        self._timeline.add("command ended", code=code)
        if lost is not None:
            raise ClusterError(lost)
        return code

    def _grace(self) -> float:
        """Return how long the command may take to end after a signal."""
        given = self._rank.options.grace
        return grace_of_command(self._rank.allocation.grace.value if given is None else given)

    def _report_losses(self, before: set[str], now: set[str], names: dict[str, str]) -> set[str]:
        for address in sorted(before - now):
            self._timeline.add("host lost", name=names.get(address, address))
        for address in sorted(now - before):
            self._timeline.add("host back", name=names.get(address, address))
        return now

    def _await_leaving(self) -> None:
        """Wait until the other hosts have ended their Ray, for their ranks may only exit after us."""

        def look() -> bool | None:
            left = self._board.all_of(Topic.LEFT)
            stay = [card for card in self._other_hosts() if card.rank not in left]
            return not any(self._board.is_connected(card.rank) for card in stay) or None

        wait_for(look, LEAVE_SECONDS)
