"""Any other rank: start Ray if it leads on its host, and stay until the head says that it is done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from muster.clusters.launching.addresses import own_address
from muster.clusters.launching.keeping import KeeperProcess
from muster.clusters.launching.meeting import wait_for
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
from muster.errors import ClusterError, MusterError

HEAD_LOST_SECONDS = 30.0


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
                    f"and does it share {self._rank.records}?"
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
                token = write_token(folder / "token", (self._rank.meeting.path / "token").read_text())
                address = own_address([head_address.rpartition(":")[0]], self._rank.options.interface)
                environment = ray_environment(os.environ, token, [address], self._rank.options.unset)
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
                return self._await_done(lambda: keeper.exit_of(RAY))
            except MusterError as error:
                self._rank.meeting.put(f"failed-{self._rank.host}", str(error))
                return self._await_done(lambda: None)
            finally:
                keeper.end()
                self._rank.timeline.add("ray ended")

    def _await_head(self) -> dict[str, Any] | None:
        """Wait for the head's address; None if the launch ended before, or nobody leads it."""

        def look() -> dict[str, Any] | None:
            if self._rank.meeting.get("done") is not None:
                return {}
            found: dict[str, Any] | None = self._rank.meeting.get("head")
            return found

        return wait_for(look, self._rank.options.timeout) or None

    def _await_done(self, ray_exit: Callable[[], dict[str, Any] | None]) -> int | None:
        """Stay until the launch is done; None if the head's host is lost."""
        beat, changed = None, time.monotonic()
        told = False
        while (code := self._rank.meeting.get("done")) is None:
            if (ended := ray_exit()) is not None and not told:
                told = True
                self._rank.meeting.put(f"failed-{self._rank.host}", f"its Ray ended with code {ended['code']}")
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
            self._rank.meeting.put(f"left-{self._rank.number}", True)
