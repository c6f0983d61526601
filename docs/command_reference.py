"""Prints docs/reference/command-line.md: every command and option, as the code has them. Part of `make docs`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from muster.cli.command_table import HIDDEN
from muster.cli.help import COMMANDS
from muster.cli.main import app

TYPE = re.compile(r" <([^>]+)>$")
HEAD = """# Command line

Every command with its arguments and options, as `muster COMMAND --help` shows them.
[The commands](../commands.md) says more about each: what it does, what its JSON holds, examples.
`make docs` writes this page from the code.

`muster --version` prints the version; `muster --install-completion` makes the shell complete commands, flags,
runs and keys.
"""


def main() -> None:
    """Print the page."""
    print(HEAD)
    group: Any = get_command(app)
    context = group.make_context("muster", [], resilient_parsing=True)
    shown = [name for name in group.list_commands(context) if name not in HIDDEN]
    sections = {title: [name for name in names if name in shown] for title, names in COMMANDS.items()}
    grouped = {name for names in sections.values() for name in names}
    sections["More"] = [name for name in shown if name not in grouped]
    for title, names in sections.items():
        if not names:
            continue
        print(f"## {title}\n")
        for name in names:
            for line in described(group.get_command(context, name), f"muster {name}", context):
                print(line)


def described(command: Any, name: str, parent: Any) -> Iterator[str]:
    """Yield the lines about a command and the commands below it."""
    context = command.make_context(name.rpartition(" ")[2], [], parent=parent, resilient_parsing=True)
    yield f"### `{name}`\n"
    yield f"`{name} {' '.join(command.collect_usage_pieces(context))}`\n"
    yield " ".join((command.help or "").split()) + "\n"
    rows = [row for parameter in command.params if (row := _row(parameter, context)) is not None]
    if rows:
        yield "| argument or option | meaning |"
        yield "|---|---|"
        yield from (f"| {first} | {second} |" for first, second in rows)
        yield ""
    for below in getattr(command, "commands", {}):
        yield from described(command.commands[below], f"{name} {below}", context)


def _row(parameter: Any, context: Any) -> tuple[str, str] | None:
    """Return what the table says about a parameter, or None if it is on every command or hidden."""
    record = parameter.get_help_record(context)
    if parameter.name == "help" or record is None:
        return None
    # `[default: 10; 1<=x<=1000]` or `[env var: NAME]`, two spaces behind the sentence.
    sentence, _, notes = " ".join(record[1].splitlines()).partition("  [")
    kept = [note for note in notes.removesuffix("]").split("; ") if note.startswith(("default", "env var"))]
    if kept:
        sentence += " " + " ".join(f"{note[0].upper()}{note[1:].replace(': ', ': `', 1)}`." for note in kept)
    value = _value if parameter.param_type_name == "option" else ""
    return f"`{_cell(TYPE.sub(value, record[0]))}`", _cell(" ".join(sentence.split()))


def _value(match: re.Match[str]) -> str:
    """Return how the value of an option is shown."""
    words = {"int": "NUMBER", "float": "NUMBER", "path": "PATH", "list": "TEXT"}
    return " " + next((word for name, word in words.items() if match[1].startswith(name)), "TEXT")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
