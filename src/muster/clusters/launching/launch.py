"""`muster launch` on one rank: meet, start Ray once a host, run the command on the head, end everything."""

from __future__ import annotations

import os
import platform
import secrets
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from muster.clusters.allocation.model import Allocation
from muster.clusters.launching.addresses import own_address
from muster.clusters.launching.keeping import KeeperProcess
from muster.clusters.launching.meeting import Meeting, RankCard, wait_for
from muster.clusters.launching.options import LaunchOptions
from muster.clusters.launching.plan import HostPlan, hosts_of, plan_host, version_mismatch
from muster.clusters.launching.ports import PortBlock, take_ports
from muster.clusters.launching.ray_node import ray_environment, start_command
from muster.clusters.launching.readiness import ClusterView
from muster.clusters.launching.timeline import Timeline
from muster.clusters.temporary import temporary_folder
from muster.errors import ClusterError, MusterError

RAY, COMMAND = "ray", "command"
HEARTBEAT_SECONDS = 1.0
HEAD_LOST_SECONDS = 30.0
LEAVE_SECONDS = 6.0
WATCH_SECONDS = 2.0
POLL_SECONDS = 0.05
REPEATED_SIGNAL_SECONDS = 1.0
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)


class Launch:
    """One rank's part in a launch."""

    def __init__(self, allocation: Allocation, options: LaunchOptions, launch_id: str) -> None:
        ranks = allocation.ranks
        self._allocation = allocation
        self._options = options
        self._launch_id = launch_id
        self._rank = ranks.rank.value if ranks else 0
        self._num_ranks = _expected_ranks(allocation, options)
        self._host = socket.gethostname()
        self._is_head = self._rank == 0 if options.head is None else self._leads_on(options.head)
        self._records = options.records / launch_id
        self._meeting = Meeting(self._records / "meeting")
        self._timeline: Timeline
        self._signals: list[signal.Signals] = []
        self._last_signal: dict[int, float] = {}

    def run(self) -> int:
        """Do this rank's part; return the exit code of the launch."""
        with self._listening():
            self._meeting.open()
            self._timeline = Timeline(self._records, self._host, on_screen=self._is_head)
            self._meeting.join(self._card())
            self._timeline.add("rank here", rank=self._rank)
            return self._lead() if self._is_head else self._follow()

    def _lead(self) -> int:
        """Be the head's rank: bring Ray up, run the command, end everything, whatever happens on the way."""
        code = 1
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        with _host_resources(self._allocation, self._options) as (folder, ports):
            keeper = KeeperProcess([folder])
            try:
                code = self._bring_up_and_run(keeper, folder, ports)
            except MusterError as error:
                code = error.exit_code
                self._meeting.put("failure", str(error))
                raise
            finally:
                self._timeline.add("ending", code=code)
                self._meeting.put("done", code)
                keeper.end()
                self._await_leaving()
                self._timeline.add("ended")
                self._timeline.join()
                self._meeting.close()
        return code

    def _beat(self) -> None:
        """Show the other hosts that this one lives, as long as they are here to see it."""
        beat = 0
        while self._meeting.is_open():
            with suppress(OSError):
                self._meeting.put("heartbeat", beat)
            beat += 1
            time.sleep(HEARTBEAT_SECONDS)

    def _bring_up_and_run(self, keeper: KeeperProcess, folder: Path, ports: PortBlock) -> int:
        options = self._options
        token = _write_token(self._meeting.path / "token", secrets.token_hex(32))
        local_token = _write_token(folder / "token", token.read_text())
        hosts = [host.name for host in self._allocation.hosts.value if host.name != self._host]
        address = own_address(hosts, options.interface)
        own = self._plan_this_host()
        environment = ray_environment(os.environ, local_token, [*hosts, address], options.unset)
        command = start_command(
            address=address, share=own.share, ports=ports, folder=folder, head=None, dashboard=options.dashboard
        )
        _widen_affinity(own)
        keeper.start(RAY, command, environment, self._log())
        head_address = f"{address}:{ports.service(0)}"
        self._meeting.put("head", {"address": head_address, "host": self._host})
        self._timeline.add("head started", address=head_address, cpus=own.share.cpus)
        view = ClusterView(head_address, local_token)
        self._await_hosts(keeper, view)
        self._timeline.add("all in", hosts=len(view.alive_hosts()), cpus=view.num_cpus())
        return self._run_command(keeper, environment, head_address, view)

    def _await_hosts(self, keeper: KeeperProcess, view: ClusterView) -> None:
        """Wait until every rank has come and Ray sees every host.

        Raises:
            ClusterError: naming those that are missing, or what differs between hosts.
        """
        deadline = time.monotonic() + self._options.timeout
        in_now: set[str] = set()
        while True:
            cards = self._meeting.cards()
            if mismatch := version_mismatch(cards):
                raise ClusterError(mismatch)
            if (ended := keeper.exit_of(RAY)) is not None:
                raise ClusterError(f"Ray's head ended with code {ended['code']}\n{_last_lines(self._log())}")
            failures = {name: self._meeting.get(f"failed-{name}") for name in self._meeting.names("failed-")}
            alive = view.alive_hosts()
            for host in sorted(alive - in_now):
                self._timeline.add("host in", name=host)
            in_now |= alive
            hosts = hosts_of(cards)
            if len(cards) >= self._num_ranks and len(alive) >= len(hosts):
                return
            if failures or time.monotonic() > deadline:
                if len(alive) >= (self._options.min_nodes or self._num_ranks + 1):
                    self._timeline.add("going on without", hosts=", ".join(self._missing(alive)) or "some ranks")
                    return
                raise ClusterError(self._who_is_missing(cards, alive, failures))
            time.sleep(POLL_SECONDS)

    def _missing(self, alive: set[str]) -> list[str]:
        names = {host.name for host in self._allocation.hosts.value} | set(hosts_of(self._meeting.cards()))
        return sorted(names - alive)

    def _who_is_missing(self, cards: dict[int, RankCard], alive: set[str], failures: dict[str, Any]) -> str:
        lines = [f"the cluster did not come up within {self._options.timeout:g} s: {len(alive)} hosts are in"]
        for host in self._missing(alive):
            came = host in hosts_of(cards)
            if host in failures:
                lines.append(f"    {host}: {failures[host]}")
            elif not came:
                lines.append(f"    {host}: never started; is there a rank of the launcher on it?")
                lines.append(f"      if there is, it does not see the shared folder {self._records}")
            else:
                lines.append(f"    {host}: its Ray did not join{_last_lines(self._log(host))}")
        missing_ranks = sorted(set(range(self._num_ranks)) - set(cards))
        if missing_ranks and not self._missing(alive):
            lines.append(f"    ranks that never came: {', '.join(map(str, missing_ranks))}")
        lines.append("    --timeout waits longer; --min-nodes goes on with fewer")
        return "\n".join(lines)

    def _run_command(
        self, keeper: KeeperProcess, environment: dict[str, str], head_address: str, view: ClusterView
    ) -> int:
        environment = {
            **environment,
            "RAY_ADDRESS": head_address,
            "MUSTER_LAUNCH_ID": self._launch_id,
            "MUSTER_LAUNCH_CPUS": str(view.num_cpus()),
        }
        if self._allocation.end_time is not None:
            environment["MUSTER_END_TIME"] = str(self._allocation.end_time.value)
        command = [part.replace("{ray_address}", head_address) for part in self._options.command]
        self._timeline.add("command started", command=" ".join(command))
        keeper.start(COMMAND, command, environment)
        alive, looked = view.alive_hosts(), time.monotonic()
        while (ended := keeper.exit_of(COMMAND)) is None:
            for number in self._take_signals():
                self._timeline.add("signal forwarded", name=number.name)
                keeper.signal(COMMAND, number)
            if time.monotonic() - looked > WATCH_SECONDS:
                looked = time.monotonic()
                alive = self._tell_losses(alive, view.alive_hosts())
                if (ray := keeper.exit_of(RAY)) is not None:
                    raise ClusterError(f"Ray's head ended with code {ray['code']}\n{_last_lines(self._log())}")
            time.sleep(POLL_SECONDS)
        if "error" in ended:
            raise ClusterError(f"the command could not be started: {ended['error']}")
        code = int(ended["code"])
        self._timeline.add("command ended", code=code)
        return code

    def _tell_losses(self, before: set[str], now: set[str]) -> set[str]:
        for host in sorted(before - now):
            self._timeline.add("host lost", name=host)
        for host in sorted(now - before):
            self._timeline.add("host back", name=host)
        return now

    def _await_leaving(self) -> None:
        """Wait until the other hosts have ended their Ray, for their ranks may only exit after us."""
        others = {str(rank) for rank in self._meeting.cards()} - {str(self._rank)}
        wait_for(lambda: self._meeting.names("left-") >= others or None, LEAVE_SECONDS)

    def _follow(self) -> int:
        """Be another rank: start Ray if this one leads on its host, stay until the head says that it is done."""
        code = None
        head = self._await_head()
        if head is None:
            code = self._meeting.get("done")
        elif head["host"] != self._host and self._leads_here():
            code = self._host_ray(head["address"])
        else:
            code = self._await_done(lambda: None)
        if code is None:
            return ClusterError.exit_code
        self._meeting_left()
        wait_for(lambda: True if not self._meeting.is_open() else None, LEAVE_SECONDS)
        return int(code)

    def _host_ray(self, head_address: str) -> int | None:
        with _host_resources(self._allocation, self._options) as (folder, ports):
            keeper = KeeperProcess([folder])
            try:
                token = _write_token(folder / "token", (self._meeting.path / "token").read_text())
                own = self._plan_this_host()
                address = own_address([head_address.rpartition(":")[0]], self._options.interface)
                environment = ray_environment(os.environ, token, [address], self._options.unset)
                command = start_command(
                    address=address,
                    share=own.share,
                    ports=ports,
                    folder=folder,
                    head=head_address,
                    dashboard=False,
                )
                _widen_affinity(own)
                keeper.start(RAY, command, environment, self._log())
                self._timeline.add("ray started", cpus=own.share.cpus)
                return self._await_done(lambda: keeper.exit_of(RAY))
            except MusterError as error:
                self._meeting.put(f"failed-{self._host}", str(error))
                return self._await_done(lambda: None)
            finally:
                keeper.end()
                self._timeline.add("ray ended")

    def _await_head(self) -> dict[str, Any] | None:
        """Wait for the head's address; None if the launch ended before, or nobody leads it."""

        def look() -> dict[str, Any] | None:
            if self._meeting.get("done") is not None:
                return {}
            found: dict[str, Any] | None = self._meeting.get("head")
            return found

        return wait_for(look, self._options.timeout) or None

    def _await_done(self, ray_exit: Any) -> int | None:
        """Stay until the launch is done; None if the head's host is lost."""
        beat, changed = None, time.monotonic()
        told = False
        while (code := self._meeting.get("done")) is None:
            if (ended := ray_exit()) is not None and not told:
                told = True
                self._meeting.put(f"failed-{self._host}", f"its Ray ended with code {ended['code']}")
            now = self._meeting.get("heartbeat")
            if now != beat:
                beat, changed = now, time.monotonic()
            if time.monotonic() - changed > HEAD_LOST_SECONDS or not self._meeting.is_open():
                self._timeline.add("head lost")
                return None
            time.sleep(POLL_SECONDS)
        return int(code)

    def _meeting_left(self) -> None:
        if self._meeting.is_open():
            self._meeting.put(f"left-{self._rank}", True)

    def _card(self) -> RankCard:
        allocation, granted = self._allocation, self._allocation.granted
        machine, host = allocation.machine, allocation.this_host
        ranks = allocation.ranks
        return RankCard(
            rank=self._rank,
            host=self._host,
            local_rank=ranks.local_rank.value if ranks and ranks.local_rank else None,
            pid=os.getpid(),
            affinity=sorted(machine.affinity or ()),
            scheduler_cpus=granted.cpus.value if granted and granted.cpus else None,
            cgroup_cpus=machine.cgroup_cpus.value if machine.cgroup_cpus else None,
            gpus=host.gpus.value if host and host.gpus else 0,
            memory=host.memory.value if host and host.memory else machine.memory,
            python=platform.python_version(),
            ray=version("ray"),
            muster=version("muster-rl"),
            time=time.time(),
        )

    def _local_cards(self) -> list[RankCard]:
        return [card for card in self._meeting.cards().values() if card.host == self._host]

    def _plan_this_host(self) -> HostPlan:
        """Wait for the other ranks of this host, whose masks add to its share."""
        ranks = self._allocation.ranks
        expected = ranks.num_local_ranks.value if ranks and ranks.num_local_ranks else 1

        def look() -> list[RankCard] | None:
            cards = self._local_cards()
            return cards if len(cards) >= expected else None

        cards = wait_for(look, self._options.timeout) or self._local_cards()
        return plan_host(self._host, cards, self._options)

    def _leads_here(self) -> bool:
        """Whether this rank is the one to start Ray on its host: the first that its launcher put there."""
        ranks = self._allocation.ranks
        if ranks and ranks.local_rank is not None:
            return ranks.local_rank.value == 0
        wait_for(lambda: True if len(self._meeting.cards()) >= self._num_ranks else None, self._options.timeout)
        return self._rank == min(card.rank for card in self._local_cards())

    def _leads_on(self, host: str) -> bool:
        ranks = self._allocation.ranks
        local_rank = ranks.local_rank.value if ranks and ranks.local_rank else 0
        return local_rank == 0 and host in (self._host, self._host.partition(".")[0])

    def _log(self, host: str | None = None) -> Path:
        folder = self._records / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{host or self._host}.log"

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Take the signals: the head forwards them to the command, the others leave them to the head."""
        previous = {number: signal.signal(number, self._on_signal) for number in FORWARDED}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: Any) -> None:
        """Note a signal; one that comes twice, from terminal and launcher, counts once."""
        now = time.monotonic()
        if now - self._last_signal.get(number, -REPEATED_SIGNAL_SECONDS) >= REPEATED_SIGNAL_SECONDS:
            self._signals.append(signal.Signals(number))
        self._last_signal[number] = now

    def _take_signals(self) -> list[signal.Signals]:
        taken, self._signals = self._signals, []
        return taken


def _expected_ranks(allocation: Allocation, options: LaunchOptions) -> int:
    if options.nodes is not None:
        return options.nodes
    if allocation.ranks and allocation.ranks.num_ranks:
        return allocation.ranks.num_ranks.value
    return len(allocation.hosts.value)


@contextmanager
def _host_resources(allocation: Allocation, options: LaunchOptions) -> Iterator[tuple[Path, PortBlock]]:
    """Hold a temporary folder on this host's own disk, with a short path, and a block of ports."""
    ports = take_ports(*options.port_range) if options.port_range else take_ports()
    try:
        with temporary_folder(allocation.scratch.value) as folder:
            yield folder, ports
    finally:
        ports.release()


def _write_token(path: Path, token: str) -> Path:
    """Write the token for our own eyes, from its first moment on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
    return path


def _widen_affinity(plan: HostPlan) -> None:
    """Let Ray run on all CPUs of the host's share, not only on those that the launcher pinned this rank to."""
    if hasattr(os, "sched_setaffinity") and plan.cpu_ids:
        os.sched_setaffinity(0, plan.cpu_ids)


def _last_lines(log: Path, count: int = 8) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    except OSError:
        return ""
    return "".join(f"\n      {line}" for line in lines)
