"""`muster check`: is the experiment, and its simulator, fit for training?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer
from rich.text import Text

from muster.cli.options import AsJson, Settings, Target
from muster.cli.screen import between_words, console, print_json
from muster.experiment.loading import load_experiment, parse_set

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def check(
    target: Target,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Check an experiment file and its simulator, and say all that is wrong at once."""
    loaded = load_experiment(target, [parse_set(setting) for setting in settings or []])

    from muster.simulators.verdict import Verdict
    from muster.training.checking import check_experiment

    findings = check_experiment(loaded)
    problems = sum(finding.verdict is Verdict.PROBLEM for finding in findings)
    if as_json:
        print_json({"problems": problems, "findings": [asdict(finding) for finding in findings]})
    else:
        _show(target, findings, problems)
    raise typer.Exit(2 if problems else 0)


def _show(target: str, findings: list[Any], problems: int) -> None:
    screen = console()
    widths = [max(len(text) for text in texts) + 2 for texts in _first_columns(findings)]
    for finding in findings:
        text = finding.message + (f"\n{finding.hint}" if finding.hint else "")
        lines = between_words(text.strip(), screen.width - sum(widths)).splitlines()
        head = Text(f"{finding.verdict:<{widths[0]}}", _STYLES[finding.verdict])
        head.append(f"{finding.subject:<{widths[1]}}", "none")
        screen.print(head + Text(f"\n{'':{sum(widths)}}".join(lines)))
    screen.print(
        f"\n{target}: "
        + ("ready to train" if not problems else "1 problem" if problems == 1 else f"{problems} problems")
    )


def _first_columns(findings: list[Any]) -> tuple[list[str], list[str]]:
    return [finding.verdict for finding in findings], [finding.subject for finding in findings]
