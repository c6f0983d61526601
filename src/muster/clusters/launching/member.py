"""Any other rank: start Ray if it leads on its host, and stay until the head says that it is done."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from muster.clusters.launching.addresses import own_address
from muster.clusters.launching.causes import last_lines, why_unreachable
from muster.clusters.launching.keeping import KeeperProcess
from muster.clusters.launching.meeting import wait_for
from muster.clusters.launching.network_board import Address
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
from muster.clusters.launching.setup import environment_after
from muster.errors import ClusterError, MusterError

HEAD_LOST_SECONDS = 30.0
KNOCK_AGAIN_SECONDS = 2.0
DOUBT_SECONDS = 15.0
"""How long a rank looks for the head before it says on its own screen what may be wrong."""
_PERHAPS_APART = "\n    hosts that share no folder meet by --head-address or mpi4py"


class Member:
    """Follows the head of a launch."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank

    def follow(self) -> int:
        """Be another rank: start Ray if this one leads on its host, stay until the head says that it is done."""
        code = None
        head = self._await_head()
        if head is None:
            code = self._rank.meeting.get("done")
            if code is None:
                raise ClusterError(
                    f"no head was seen within {self._rank.options.timeout:g} s\n"
                    f"    is there a rank on {self._rank.options.head or 'the first host'}, "
                    f"and does it share {self._rank.records}?{_PERHAPS_APART}"
                )
        elif head["host"] != self._rank.host and self._rank.leads_here():
            code = self._host_ray(head["address"])
        else:
            code = self._await_done(lambda: None)
        if code is None:
            return ClusterError.exit_code
        self._leave()
        wait_for(lambda: True if not self._rank.meeting.is_open() else None, LEAVE_SECONDS)
        return int(code)

    def _host_ray(self, head_address: str) -> int | None:
        with host_resources(self._rank.allocation, self._rank.options) as (folder, ports):
            own = self._rank.plan_this_host()
            widen_affinity(own)
            keeper = KeeperProcess([folder])
            try:
                token = write_token(folder / "token", self._rank.meeting.get("token") or "")
                head = _split(head_address)
                address = own_address([head[0]], self._rank.options.interface)
                environ = environment_after(self._rank.options.setup, os.environ)
                environment = ray_environment(environ, token, [address, head[0]], self._rank.options.unset)
                command = start_command(
                    address=address,
                    share=own.share,
                    ports=ports,
                    folder=folder,
                    head=head_address,
                    dashboard=False,
                )
                keeper.start(RAY, command, environment, self._rank.log())
                self._rank.timeline.add("ray started", cpus=own.share.cpus)
                self._watch_the_way_to(head)
                return self._await_done(lambda: keeper.exit_of(RAY))
            except MusterError as error:
                self._rank.meeting.put(f"failed-{self._rank.host}", str(error))
                return self._await_done(lambda: None)
            finally:
                keeper.end()
                self._rank.timeline.add("ray ended")

    def _watch_the_way_to(self, head: Address) -> None:
        """Tell the head, as long as not all are in, what keeps this host's Ray from reaching it."""

        def watch() -> None:
            told = None
            while self._rank.meeting.get("ready") is None and self._rank.meeting.get("done") is None:
                if (trouble := why_unreachable(head)) != told:
                    told = trouble
                    self._rank.meeting.put(f"trouble-{self._rank.host}", trouble)
                time.sleep(KNOCK_AGAIN_SECONDS)

        threading.Thread(target=watch, name="way to the head", daemon=True).start()

    def _await_head(self) -> dict[str, Any] | None:
        """Wait for the head's address; None if the launch ended before, or nobody leads it."""

        def look() -> dict[str, Any] | None:
            if self._rank.meeting.get("done") is not None:
                return {}
            found: dict[str, Any] | None = self._rank.meeting.get("head")
            return found

        timeout = self._rank.options.timeout
        head = wait_for(look, min(DOUBT_SECONDS, timeout))
        if head is None and timeout > DOUBT_SECONDS:
            print(
                f"launch: {self._rank.host} still sees no head in {self._rank.records}{_PERHAPS_APART}",
                file=sys.stderr,
                flush=True,
            )
            head = wait_for(look, timeout - DOUBT_SECONDS)
        return head or None

    def _await_done(self, ray_exit: Callable[[], dict[str, Any] | None]) -> int | None:
        """Stay until the launch is done; None if the head's host is lost."""
        beat, changed = None, time.monotonic()
        told = False
        while (code := self._rank.meeting.get("done")) is None:
            if (ended := ray_exit()) is not None and not told:
                told = True
                said = f"its Ray ended with code {ended['code']}{last_lines(self._rank.log())}"
                self._rank.meeting.put(f"failed-{self._rank.host}", said)
            now = self._rank.meeting.get("heartbeat")
            if now != beat:
                beat, changed = now, time.monotonic()
            if time.monotonic() - changed > HEAD_LOST_SECONDS or not self._rank.meeting.is_open():
                self._rank.timeline.add("head lost")
                return None
            time.sleep(POLL_SECONDS)
        return int(code)

    def _leave(self) -> None:
        if self._rank.meeting.is_open():
            self._rank.meeting.put(f"left-{self._rank.number}", self._rank.timeline.events)


def _split(address: str) -> Address:
    host, _, port = address.rpartition(":")
    return host, int(port)
