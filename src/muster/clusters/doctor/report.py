"""What was found on all hosts, as rows: the same finding on several hosts is one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.clusters.doctor.findings import HostFinding
from muster.simulators.verdict import Verdict


@dataclass(frozen=True)
class Row:
    """A finding, and the hosts that it was found on."""

    hosts: tuple[str, ...]
    finding: HostFinding


@dataclass(frozen=True)
class Report:
    """The rows of all hosts, in the order of the checks."""

    hosts: tuple[str, ...]
    rows: tuple[Row, ...]

    def count(self, verdict: Verdict) -> int:
        """Return the number of rows with that verdict."""
        return sum(row.finding.verdict is verdict for row in self.rows)

    @property
    def exit_code(self) -> int:
        """Return 1 if there is any problem."""
        return 1 if self.count(Verdict.PROBLEM) else 0

    def as_table(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "hosts": list(self.hosts),
            "problems": self.count(Verdict.PROBLEM),
            "warnings": self.count(Verdict.WARNING),
            "findings": [
                {
                    "hosts": list(row.hosts),
                    "check": row.finding.check,
                    "verdict": row.finding.verdict.value,
                    "message": row.finding.message,
                    "remedy": row.finding.remedy,
                }
                for row in self.rows
            ],
            "exit_code": self.exit_code,
        }


def make_report(found: Mapping[str, Sequence[HostFinding]]) -> Report:
    """Join the findings of all hosts; rows of one check stand together, as it first came up."""
    hosts_of: dict[HostFinding, list[str]] = {}
    for host, findings in found.items():
        for finding in findings:
            hosts = hosts_of.setdefault(finding, [])
            if host not in hosts:
                hosts.append(host)
    checks = list(dict.fromkeys(finding.check for finding in hosts_of))
    ordered = sorted(hosts_of, key=lambda finding: checks.index(finding.check))
    return Report(tuple(found), tuple(Row(tuple(hosts_of[finding]), finding) for finding in ordered))
