"""The head's rank: bring Ray up, run the command, end everything, whatever happens on the way."""

from __future__ import annotations

import os
import secrets
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.clusters.launching.addresses import own_address
from muster.clusters.launching.causes import last_lines, why_absent
from muster.clusters.launching.keeping import KeeperProcess
from muster.clusters.launching.meeting import RankCard, wait_for
from muster.clusters.launching.orders import Orders
from muster.clusters.launching.plan import HostPlan, hosts_of, version_mismatch
from muster.clusters.launching.ports import PortBlock
from muster.clusters.launching.rank import (
    LEAVE_SECONDS,
    POLL_SECONDS,
    RAY,
    Rank,
    host_resources,
    widen_affinity,
    write_token,
)
from muster.clusters.launching.ray_node import ray_environment, start_command
from muster.clusters.launching.readiness import ClusterView
from muster.clusters.launching.setup import environment_after
from muster.errors import ClusterError, MusterError

COMMAND = "command"
HEARTBEAT_SECONDS = 1.0
WATCH_SECONDS = 2.0


class Head:
    """Leads a launch."""

    def __init__(self, rank: Rank, orders: Orders) -> None:
        self._rank = rank
        self._orders = orders
        self._ended = threading.Event()

    def lead(self) -> int:
        """Be the head's rank: bring Ray up, run the command, end everything, whatever happens on the way."""
        code = 1
        heartbeat = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        heartbeat.start()
        with host_resources(self._rank.allocation, self._rank.options) as (folder, ports):
            own = self._rank.plan_this_host()
            widen_affinity(own)
            keeper = KeeperProcess([folder, *self._rank.meeting_folders])
            try:
                code = self._bring_up_and_run(keeper, own, folder, ports)
            except MusterError as error:
                code = error.exit_code
                self._rank.meeting.put("failure", str(error))
                raise
            finally:
                self._rank.timeline.add("ending", code=code)
                self._rank.meeting.put("done", code)
                for meeting_folder in self._rank.meeting_folders:
                    keeper.spare(meeting_folder)
                keeper.end()
                self._await_leaving()
                self._rank.timeline.add("ended")
                self._rank.timeline.join(self._events_of_those_who_left())
                self._ended.set()
                heartbeat.join()
                self._rank.meeting.close()
        return code

    def _beat(self) -> None:
        """Show the other hosts that this one lives, as long as they are here to see it."""
        beat = 0
        while not self._ended.is_set():
            beat += 1
            with suppress(OSError):
                self._rank.meeting.put("heartbeat", beat)
            self._ended.wait(HEARTBEAT_SECONDS)

    def _bring_up_and_run(self, keeper: KeeperProcess, own: HostPlan, folder: Path, ports: PortBlock) -> int:
        options = self._rank.options
        token = secrets.token_hex(32)
        self._rank.meeting.put("token", token)
        local_token = write_token(folder / "token", token)
        hosts = [host.name for host in self._rank.allocation.hosts.value if host.name != self._rank.host]
        address = own_address(hosts, options.interface)
        environ = environment_after(options.setup, os.environ)
        environment = ray_environment(environ, local_token, [*hosts, address], options.unset)
        command = start_command(
            address=address, share=own.share, ports=ports, folder=folder, head=None, dashboard=options.dashboard
        )
        keeper.start(RAY, command, environment, self._rank.log())
        head_address = f"{address}:{ports.service(0)}"
        self._rank.meeting.put("head", {"address": head_address, "host": self._rank.host})
        self._rank.timeline.add("head started", address=head_address, cpus=own.share.cpus)
        view = ClusterView(head_address, local_token)
        self._await_hosts(keeper, view)
        self._rank.meeting.put("ready", True)
        self._rank.timeline.add("all in", hosts=len(view.alive_hosts()), cpus=view.num_cpus())
        return self._run_command(keeper, environment, head_address, view)

    def _await_hosts(self, keeper: KeeperProcess, view: ClusterView) -> None:
        """Wait until every rank has come and Ray sees every host.

        Raises:
            ClusterError: naming those that are missing, or what differs between hosts.
        """
        options, meeting, timeline = self._rank.options, self._rank.meeting, self._rank.timeline
        deadline = time.monotonic() + options.timeout
        in_now: set[str] = set()
        while True:
            cards = meeting.cards()
            if mismatch := version_mismatch(cards):
                raise ClusterError(mismatch)
            self._require_ray(keeper)
            failures = {**self._told("failed-"), **self._orders.failures}
            alive = view.alive_hosts()
            for host in sorted(alive - in_now):
                timeline.add("host in", name=host)
            in_now |= alive
            hosts = hosts_of(cards)
            if len(cards) >= self._rank.num_ranks and len(alive) >= len(hosts):
                return
            if failures or time.monotonic() > deadline:
                if options.min_nodes is not None and len(alive) >= options.min_nodes:
                    timeline.add("going on without", hosts=", ".join(self._missing(alive)) or "some ranks")
                    return
                raise ClusterError(self._who_is_missing(cards, alive, failures))
            time.sleep(POLL_SECONDS)

    def _require_ray(self, keeper: KeeperProcess) -> None:
        if (ended := keeper.exit_of(RAY)) is not None:
            raise ClusterError(f"Ray's head ended with code {ended['code']}{last_lines(self._rank.log())}")

    def _missing(self, alive: set[str]) -> list[str]:
        names = {host.name for host in self._rank.allocation.hosts.value} | set(
            hosts_of(self._rank.meeting.cards())
        )
        return sorted(names - alive)

    def _who_is_missing(self, cards: dict[int, RankCard], alive: set[str], failures: dict[str, Any]) -> str:
        rank, troubles, came = self._rank, self._told("trouble-"), hosts_of(cards)
        lines = [
            f"the cluster did not come up: {len(alive)} hosts are in after at most {rank.options.timeout:g} s"
        ]
        for host in self._missing(alive):
            if host in failures:
                why = failures[host]
            elif host not in came:
                why = why_absent(host, rank.records if rank.meeting_folders else None)
            else:
                why = (
                    f"its Ray did not join: {troubles.get(host) or 'its log ends so:'}{last_lines(rank.log(host))}"
                )
            lines.append(f"    {host}: {why}")
        missing_ranks = sorted(set(range(rank.num_ranks)) - set(cards))
        if missing_ranks and not self._missing(alive):
            lines.append(f"    ranks that never came: {', '.join(map(str, missing_ranks))}")
        lines.append("    --timeout waits longer; --min-nodes goes on with fewer")
        return "\n".join(lines)

    def _told(self, prefix: str) -> dict[str, Any]:
        """Return what the other hosts have said of themselves."""
        said = {host: self._rank.meeting.get(f"{prefix}{host}") for host in self._rank.meeting.names(prefix)}
        return {host: words for host, words in said.items() if words is not None}

    def _run_command(
        self, keeper: KeeperProcess, environment: dict[str, str], head_address: str, view: ClusterView
    ) -> int:
        environment = {
            **environment,
            "RAY_ADDRESS": head_address,
            "MUSTER_LAUNCH_ID": self._rank.launch_id,
            "MUSTER_LAUNCH_CPUS": str(view.num_cpus()),
        }
        if self._rank.allocation.end_time is not None:
            environment["MUSTER_END_TIME"] = str(self._rank.allocation.end_time.value)
        command = [part.replace("{ray_address}", head_address) for part in self._rank.options.command]
        self._rank.timeline.add("command started", command=" ".join(command))
        keeper.start(COMMAND, command, environment)
        alive, looked = view.alive_hosts(), time.monotonic()
        while (ended := keeper.exit_of(COMMAND)) is None:
            for number in self._orders.take_signals():
                self._rank.timeline.add("signal forwarded", name=number.name)
                keeper.signal(COMMAND, number)
            if time.monotonic() - looked > WATCH_SECONDS:
                looked = time.monotonic()
                alive = self._tell_losses(alive, view.alive_hosts())
                if (ray := keeper.exit_of(RAY)) is not None:
                    raise ClusterError(f"Ray's head ended with code {ray['code']}\n{last_lines(self._rank.log())}")
            time.sleep(POLL_SECONDS)
        if "error" in ended:
            raise ClusterError(f"the command could not be started: {ended['error']}")
        code = int(ended["code"])
        self._rank.timeline.add("command ended", code=code)
        return code

    def _tell_losses(self, before: set[str], now: set[str]) -> set[str]:
        for host in sorted(before - now):
            self._rank.timeline.add("host lost", name=host)
        for host in sorted(now - before):
            self._rank.timeline.add("host back", name=host)
        return now

    def _await_leaving(self) -> None:
        """Wait until the other hosts have ended their Ray, for their ranks may only exit after us."""
        others = {str(rank) for rank in self._rank.meeting.cards()} - {str(self._rank.number)}
        wait_for(lambda: self._rank.meeting.names("left-") >= others or None, LEAVE_SECONDS)

    def _events_of_those_who_left(self) -> list[dict[str, Any]]:
        left = [self._rank.meeting.get(f"left-{rank}") for rank in self._rank.meeting.names("left-")]
        return [event for events in left for event in events or ()]
