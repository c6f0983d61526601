"""`muster doctor` on one rank: meet the others, examine this host, and on rank 0 put everything together."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from muster.clusters.allocation.model import Allocation
from muster.clusters.doctor.cluster_checks import (
    PRESENCE,
    SHARED,
    ClockReading,
    check_clock,
    check_presence,
    check_versions,
)
from muster.clusters.doctor.door import Door
from muster.clusters.doctor.findings import Finding, problem, warning, well
from muster.clusters.doctor.host_examination import examine_host, opened_door
from muster.clusters.doctor.options import DoctorOptions
from muster.clusters.doctor.ranks import Card, own_versions, speakers
from muster.clusters.doctor.report import Report, make_report
from muster.clusters.launching.addresses import own_address
from muster.clusters.launching.meeting import Meeting, wait_for
from muster.errors import ClusterError
from muster.simulators.verdict import Verdict

ANSWER_SECONDS = 10.0
"""How long rank 0 waits for the others to answer its question for the time."""
EXTRA_SECONDS = 15.0
"""What knocking and a slow file system may take beyond the time that is allowed for the simulator."""


class Examination:
    """One rank's part in an examination.

    The meeting's files, in the order in which they come: `card-N` of each rank; `question` of rank 0 when all are
    here or the time is over; `answer-N` and `report-N` of each rank that examines its host. Then rank 0 removes
    the folder, and all part.
    """

    def __init__(self, allocation: Allocation, options: DoctorOptions, name: str) -> None:
        ranks = allocation.ranks
        self._allocation = allocation
        self._options = options
        self._rank = ranks.rank.value if ranks else 0
        self._num_ranks = _expected_ranks(allocation)
        self._examines = ranks is None or ranks.local_rank is None or ranks.local_rank.value == 0
        self._host = socket.gethostname()
        self._meeting = Meeting(options.records / name)

    def run(self) -> Report | None:
        """Do this rank's part; return what was found on all hosts if this is rank 0, else None."""
        with opened_door(self._options.port_range) as (door, ports):
            card = self._card(door)
            try:
                self._meeting.open()
                self._meeting.put(f"card-{self._rank}", asdict(card))
            except (ClusterError, OSError) as error:
                return self._report_alone(card, ports, error) if self._rank == 0 else None
            if self._rank != 0:
                self._follow(ports)
                return None
            try:
                return self._lead(ports)
            finally:
                self._meeting.close()

    def _lead(self, ports: Finding) -> Report:
        """Be rank 0: wait for all, ask for the time, examine this host, gather what the others found."""
        timeout = self._options.timeout
        wait_for(lambda: len(self._meeting.names("card-")) >= self._num_ranks or None, timeout)
        cards = self._cards()
        asked = time.time()
        self._meeting.put("question", asked)
        examining = [card for card in speakers(cards).values() if card.rank != 0]
        readings = self._hear_answers(asked, examining)
        found = {self._host: [*self._examine(cards), ports]}
        awaited = {str(card.rank) for card in examining}
        wait_for(lambda: self._meeting.names("report-") >= awaited or None, timeout + EXTRA_SECONDS)
        for card in examining:
            found[card.host] = _read_findings(self._meeting.get(f"report-{card.rank}"))
        for host, reading in readings.items():
            found[host].append(check_clock(reading))
        return make_report(self._with_comparisons(found, cards))

    def _follow(self, ports: Finding) -> None:
        """Be another rank: answer rank 0, examine this host, and keep the door open until rank 0 has all."""
        if not self._examines:
            return
        patience = self._options.timeout + EXTRA_SECONDS
        wait_for(lambda: self._is_asked() or not self._meeting.is_open() or None, patience)
        cards = self._cards()
        speaker = speakers(cards).get(self._host)
        if not self._is_asked() or speaker is None or speaker.rank != self._rank:
            return
        # Rank 0 removes the folder when it has all, or no more patience.
        with suppress(FileNotFoundError):
            self._meeting.put(f"answer-{self._rank}", time.time())
            findings = [*self._examine(cards), ports]
            self._meeting.put(f"report-{self._rank}", [asdict(finding) for finding in findings])
        wait_for(lambda: not self._meeting.is_open() or None, patience)

    def _is_asked(self) -> bool:
        return self._meeting.get("question") is not None

    def _examine(self, cards: list[Card]) -> list[Finding]:
        shared = well(SHARED, f"{self._options.records}: writable" + (", seen by all" if len(cards) > 1 else ""))
        return [shared, *examine_host(self._allocation, self._options, cards)]

    def _report_alone(self, card: Card, ports: Finding, error: Exception) -> Report:
        """Report on this host alone where there is no folder to meet in."""
        message, _, remedy = str(error).partition("\n")
        remedy = remedy.strip() or "choose a folder that all hosts share and you can write to: --runs-dir"
        findings = [
            problem(SHARED, message, remedy),
            *examine_host(self._allocation, self._options, [card]),
            ports,
        ]
        return make_report({self._host: findings})

    def _hear_answers(self, asked: float, cards: list[Card]) -> dict[str, ClockReading]:
        """Note when each answer comes, by this host's clock."""
        readings: dict[str, ClockReading] = {}

        def look() -> bool | None:
            for card in cards:
                answered = None if card.host in readings else self._meeting.get(f"answer-{card.rank}")
                if answered is not None:
                    readings[card.host] = ClockReading(asked, answered, time.time())
            return len(readings) == len(cards) or None

        wait_for(look, ANSWER_SECONDS)
        return readings

    def _with_comparisons(self, found: dict[str, list[Finding]], cards: list[Card]) -> Mapping[str, list[Finding]]:
        for host, finding in check_versions(cards).items():
            found.setdefault(host, []).append(finding)
        hosts = [host.name for host in self._allocation.hosts.value]
        if not self._allocation.in_step and len(hosts) > 1:
            found[self._host].append(_others_not_examined(len(hosts)))
            return found
        missing = check_presence(hosts, self._num_ranks, cards, self._meeting.path.parent, self._options.timeout)
        return found | {name: [finding] for name, finding in missing.items()}

    def _cards(self) -> list[Card]:
        values = [self._meeting.get(f"card-{rank}") for rank in self._meeting.names("card-")]
        return [Card(**value) for value in values if value is not None]

    def _card(self, door: Door) -> Card:
        others = [host.name for host in self._allocation.hosts.value if host.name != self._host]
        try:
            address = own_address(others, self._options.interface)
        except ClusterError:
            address = None
        return Card(
            rank=self._rank,
            host=self._host,
            examines=self._examines,
            address=address,
            port=door.port,
            token=door.token,
            affinity=sorted(self._allocation.machine.affinity or ()),
            versions=own_versions(),
        )


def _expected_ranks(allocation: Allocation) -> int:
    if not allocation.in_step:
        return 1
    if allocation.ranks and allocation.ranks.num_ranks:
        return allocation.ranks.num_ranks.value
    return len(allocation.hosts.value)


def _others_not_examined(num_hosts: int) -> Finding:
    return warning(
        PRESENCE,
        f"only this one of {num_hosts} hosts was examined, for nothing started the others",
        "start it on all of them with your site's launcher: LAUNCHER muster doctor",
    )


def _read_findings(written: list[dict[str, Any]] | None) -> list[Finding]:
    if written is None:
        message = "came, but did not finish its checks"
        return [problem(PRESENCE, message, "--timeout waits longer; else look on this host what hangs there")]
    return [Finding(**{**finding, "verdict": Verdict(finding["verdict"])}) for finding in written]
