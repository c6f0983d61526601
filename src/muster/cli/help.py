"""The help texts: commands and options in groups, and no sentence cut off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

EXPERIMENT, RUN, STOP, RESOURCES, OUTPUT = "Experiment", "Run", "When to stop", "Resources", "Output"
_OTHERS = "Options"
_PANELS = (EXPERIMENT, STOP, RESOURCES, RUN, _OTHERS, OUTPUT)
COMMANDS = {
    "Train": ("init", "check", "train", "resume", "sweep", "scale"),
    "Look at runs": (
        "runs",
        "show",
        "report",
        "compare",
        "plot",
        "serve",
        "track",
        "evaluate",
        "play",
        "export",
        "dashboard",
    ),
    "Keep runs": ("copy", "rm", "prune"),
    "Jobs": ("submit", "status", "logs", "attach", "cancel", "fetch", "clusters"),
    "Inside an allocation": ("launch", "doctor", "allocation"),
}
_OTHER_COMMANDS = "More"
_LONGEST_SUMMARY = 1000

Rows = list[tuple[str, str]]


class GroupedOptions(TyperCommand):
    """A command whose options stand in groups, if they have any."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then each group of options, with what all commands have last."""
        arguments: Rows = []
        groups: dict[str, Rows] = {panel: [] for panel in _PANELS}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(record)
            else:
                groups[getattr(parameter, "rich_help_panel", None) or _OTHERS].append(record)
        if not (groups[STOP] or groups[RESOURCES]):
            groups = {_OTHERS: [record for rows in groups.values() for record in rows]}
        elif len(groups[_OTHERS]) == 1:
            # --help alone needs no group of its own.
            groups[OUTPUT] += groups.pop(_OTHERS)
        _write(formatter, [("Arguments", arguments), *groups.items()])


class GroupedCommands(TyperGroup):
    """A command whose own commands stand in groups, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each group of commands."""
        rows = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows[name] = command.get_short_help_str(_LONGEST_SUMMARY)
        groups = {
            title: [(name, rows.pop(name)) for name in names if name in rows] for title, names in COMMANDS.items()
        }
        _write(formatter, [*groups.items(), (_OTHER_COMMANDS, list(rows.items()))])


def _write(formatter: Any, groups: Iterable[tuple[str, Rows]]) -> None:
    """Write groups of rows, all with the same width of the first column."""
    filled = [(title, rows) for title, rows in groups if rows]
    width = max((len(name) for _, rows in filled for name, _ in rows), default=0)
    for title, rows in filled:
        with formatter.section(title):
            formatter.write_dl([(f"{name:<{width}}", text) for name, text in rows], col_max=width)
