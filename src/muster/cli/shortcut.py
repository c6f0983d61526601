"""`muster runs` and `muster show RUN` without the parser of command lines, whose import takes longer than they do.

Whatever is not as plain as that goes the usual way, and has the same effect there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.cli.start import give_signals_back

AS_JSON, RUNS_DIR = "--json", "--runs-dir"


def shortcut(arguments: Sequence[str]) -> Callable[[], None] | None:
    """Return what a command line asks for, if it is one of these; None if it has to be parsed."""
    if not arguments or arguments[0] not in ("runs", "show"):
        return None
    command, *rest = arguments
    names = []
    flags: dict[str, str] = {}
    while rest:
        word = rest.pop(0)
        if word == AS_JSON:
            flags[AS_JSON] = word
        elif word == RUNS_DIR and rest and _is_plain(rest[0]):
            flags[RUNS_DIR] = rest.pop(0)
        elif _is_plain(word):
            names.append(word)
        else:
            return None
    if len(names) != (command == "show"):
        return None
    return _runs(flags) if command == "runs" else _show(names[0], flags)


def _is_plain(word: str) -> bool:
    return bool(word.strip()) and not word.startswith("-")


def _runs(flags: dict[str, str]) -> Callable[[], None]:
    def run() -> None:
        from muster.cli.run_list import Choice, show_list
        from muster.runs.folder import runs_dir

        give_signals_back()
        show_list(runs_dir(flags.get(RUNS_DIR)), Choice(), as_json=AS_JSON in flags)

    return run


def _show(name: str, flags: dict[str, str]) -> Callable[[], None]:
    def run() -> None:
        from muster.cli.run_view import show_named
        from muster.runs.folder import runs_dir

        give_signals_back()
        show_named(name, runs_dir(flags.get(RUNS_DIR)), as_json=AS_JSON in flags)

    return run
