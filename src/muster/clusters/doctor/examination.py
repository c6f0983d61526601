"""`muster doctor` on one rank: meet the others, examine this host, and on rank 0 put everything together."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
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
from muster.clusters.doctor.doctor_options import DoctorOptions
from muster.clusters.doctor.findings import HostFinding, explained_problem, problem, warning, well
from muster.clusters.doctor.folder_board import FolderBoard
from muster.clusters.doctor.host_examination import examine_host, opened_door
from muster.clusters.doctor.ranks import Doorplate, ExaminedRank, Topic, own_versions, speakers
from muster.clusters.doctor.report import Report, make_report
from muster.clusters.waiting import wait_for
from muster.environment_variables import RUNS_DIR_VARIABLE
from muster.errors import ClusterError
from muster.simulators.verdict import Verdict

ANSWER_SECONDS = 10.0
"""How long rank 0 waits for the others to answer its question for the time."""
EXTRA_SECONDS = 15.0
"""What knocking and a slow file system may take beyond the time that is allowed for the simulator."""


class Examination:
    """One rank's part in an examination: `Topic` lists what is said, in which order.

    Rank 0 removes the folder when it has all.
    """

    def __init__(self, allocation: Allocation, options: DoctorOptions, name: str) -> None:
        ranks = allocation.ranks
        self._allocation = allocation
        self._options = options
        self._rank = ranks.rank.value if ranks else 0
        self._num_ranks = _expected_ranks(allocation)
        self._card = ExaminedRank(
            rank=self._rank,
            host=socket.gethostname(),
            examines=ranks is None or ranks.local_rank is None or ranks.local_rank.value == 0,
            affinity=sorted(allocation.machine.affinity or ()),
            versions=own_versions(),
        )
        self._meeting = FolderBoard(options.records / name)

    def run(self) -> Report | None:
        """Do this rank's part; return what was found on all hosts if this is rank 0, else None."""
        try:
            self._come()
        except ClusterError as error:
            return self._report_alone(error) if self._rank == 0 else None
        if self._rank != 0:
            self._follow()
            return None
        try:
            return self._lead()
        finally:
            self._meeting.close()
            with suppress(OSError):
                self._options.records.rmdir()

    def _come(self) -> None:
        self._meeting.open()
        try:
            self._meeting.put(Topic.CARD, asdict(self._card), self._rank)
        except OSError as error:
            raise ClusterError(
                f"{self._meeting.path}: cannot be written to: {error.strerror}\n"
                "    choose a folder that all hosts share and you can write to: "
                f"--runs-dir or {RUNS_DIR_VARIABLE}"
            ) from None

    def _lead(self) -> Report:
        """Be rank 0: wait for all, ask for the time, examine this host, gather what the others found."""
        timeout = self._options.timeout
        wait_for(lambda: len(self._meeting.ranks(Topic.CARD)) >= self._num_ranks or None, timeout)
        cards = self._cards()
        others = [card for card in speakers(cards).values() if card.rank != 0]
        with opened_door(self._allocation, self._options) as (plate, findings):
            answers = self._ask(others)
            plates = [plate, *(answer.plate for answer in answers.values())]
            self._meeting.put(Topic.DOORS, [asdict(plate) for plate in plates])
            found = {self._card.host: [*self._examine(cards, plates), *findings]}
            awaited = {card.rank for card in others}
            wait_for(lambda: self._meeting.ranks(Topic.REPORT) >= awaited or None, timeout + EXTRA_SECONDS)
        for card in others:
            found[card.host] = _read_findings(self._meeting.get(Topic.REPORT, card.rank))
        for host, answer in answers.items():
            found[host].append(check_clock(answer.clock))
        return make_report(self._with_comparisons(found, cards))

    def _follow(self) -> None:
        """Be another rank: answer rank 0, examine this host, and keep the door open until rank 0 has all."""
        if not self._card.examines:
            return
        patience = self._options.timeout + EXTRA_SECONDS
        wait_for(lambda: self._is_asked() or not self._meeting.is_open() or None, patience)
        cards = self._cards()
        speaker = speakers(cards).get(self._card.host)
        if not self._is_asked() or speaker is None or speaker.rank != self._rank:
            return
        # Rank 0 removes the folder when it has all, or no more patience.
        with opened_door(self._allocation, self._options) as (plate, findings), suppress(FileNotFoundError):
            self._meeting.put(Topic.ANSWER, {"time": time.time(), "plate": asdict(plate)}, self._rank)
            doors = wait_for(lambda: self._meeting.get(Topic.DOORS), ANSWER_SECONDS + EXTRA_SECONDS) or []
            findings = [*self._examine(cards, [Doorplate(**door) for door in doors]), *findings]
            self._meeting.put(Topic.REPORT, [asdict(finding) for finding in findings], self._rank)
            wait_for(lambda: not self._meeting.is_open() or None, patience)

    def _is_asked(self) -> bool:
        return self._meeting.get(Topic.QUESTION) is not None

    def _ask(self, cards: list[ExaminedRank]) -> dict[str, _Answer]:
        """Ask the other hosts for their time, and note when each answer comes by this host's clock."""
        answers: dict[str, _Answer] = {}
        asked = time.time()
        self._meeting.put(Topic.QUESTION, asked)

        def look() -> bool | None:
            for card in cards:
                said = None if card.host in answers else self._meeting.get(Topic.ANSWER, card.rank)
                if said is not None:
                    clock = ClockReading(asked, said["time"], time.time())
                    answers[card.host] = _Answer(clock, Doorplate(**said["plate"]))
            return len(answers) == len(cards) or None

        wait_for(look, ANSWER_SECONDS)
        return answers

    def _examine(self, cards: list[ExaminedRank], plates: list[Doorplate]) -> list[HostFinding]:
        shared = well(SHARED, f"{self._options.records}: writable" + (", seen by all" if len(cards) > 1 else ""))
        return [shared, *examine_host(self._allocation, self._options, cards, plates)]

    def _report_alone(self, error: ClusterError) -> Report:
        """Report on this host alone where there is no folder to meet in."""
        with opened_door(self._allocation, self._options) as (_, findings):
            findings += examine_host(self._allocation, self._options, [self._card], [])
        return make_report({self._card.host: [explained_problem(SHARED, error), *findings]})

    def _with_comparisons(
        self, found: dict[str, list[HostFinding]], cards: list[ExaminedRank]
    ) -> Mapping[str, list[HostFinding]]:
        for host, finding in check_versions(cards).items():
            found.setdefault(host, []).append(finding)
        hosts = [host.name for host in self._allocation.hosts.value]
        if not self._allocation.in_step and len(hosts) > 1:
            found[self._card.host].append(_others_not_examined(len(hosts)))
            return found
        missing = check_presence(hosts, self._num_ranks, cards, self._meeting.path.parent, self._options.timeout)
        return found | {name: [finding] for name, finding in missing.items()}

    def _cards(self) -> list[ExaminedRank]:
        values = [self._meeting.get(Topic.CARD, rank) for rank in self._meeting.ranks(Topic.CARD)]
        return [ExaminedRank(**value) for value in values if value is not None]


@dataclass(frozen=True)
class _Answer:
    """What a host answered to rank 0's question."""

    clock: ClockReading
    plate: Doorplate


def _expected_ranks(allocation: Allocation) -> int:
    if not allocation.in_step:
        return 1
    if allocation.ranks and allocation.ranks.num_ranks:
        return allocation.ranks.num_ranks.value
    return len(allocation.hosts.value)


def _others_not_examined(num_hosts: int) -> HostFinding:
    return warning(
        PRESENCE,
        f"only this one of {num_hosts} hosts was examined, for nothing started the others",
        "start it on all of them with your site's launcher: LAUNCHER muster doctor",
    )


def _read_findings(written: list[dict[str, Any]] | None) -> list[HostFinding]:
    if written is None:
        message = "came, but did not finish its checks"
        return [problem(PRESENCE, message, "--timeout waits longer; else look on this host what hangs there")]
    return [HostFinding(**{**finding, "verdict": Verdict(finding["verdict"])}) for finding in written]
