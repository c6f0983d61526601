"""The subcommands, each imported only when it is asked for: most of a short command's time is imports."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.main import get_command

from muster.cli.help import GroupedCommands, GroupedOptions

SHOWN = (
    "train",
    "resume",
    "sweep",
    "init",
    "check",
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
    "copy",
    "rm",
    "prune",
    "scale",
    "schema",
    "allocation",
    "doctor",
    "launch",
    "status",
    "logs",
    "attach",
    "cancel",
    "fetch",
    "dashboard",
    "submit",
    "clusters",
)
"""In the order of the help; each is a function, or an app of further commands, of `muster.cli.NAME`."""
HIDDEN = ("link", "receive", "relay")
"""What muster runs itself."""


class CommandTable(MutableMapping[str, Any]):
    """Commands by name, loaded at the first look at each."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = dict.fromkeys((*SHOWN, *HIDDEN))

    def __getitem__(self, name: str) -> Any:
        if self._loaded[name] is None:
            self._loaded[name] = _load(name)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)


class Commands(GroupedCommands):
    """The group of all subcommands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = CommandTable()


def _load(name: str) -> Any:
    module = import_module(f"muster.cli.{name}")
    found = getattr(module, name)
    if isinstance(found, typer.Typer):
        command = get_command(found)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, cls=getattr(module, "COMMAND_CLASS", GroupedOptions), hidden=name in HIDDEN)(found)
        command = get_command(alone)
    command.name = name
    return command
