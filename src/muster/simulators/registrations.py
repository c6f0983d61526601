"""Which installed package registers a simulator with Gymnasium, found without importing any."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

_KNOWN = {
    r"ALE/.+": "ale_py",
    r"\w+(NoFrameskip|Deterministic)(-ram)?-v\d+|\w+-ram(NoFrameskip|Deterministic)?-v\d+": "ale_py",
    r"mobile-.+": "mobile_env",
}
"""Packages that put the names of their simulators together when they are imported."""
_VERSIONED = re.compile(r"-v\d+$")
"""Any other word may stand in any source for anything."""
_LARGEST_FILE = 1_000_000
_MOST_FILES = 300
_INTERFACES = re.compile(r"(?i)(gym|gymnasium)\b")
_NO_SIMULATORS = {"test", "tests", "docs", "examples", "scripts", "muster"}


def registering_module(identifier: str) -> str | None:
    """Return the module to import for an id, if an installed package has it in its source."""
    candidates = list(_candidates())
    for pattern, module in _KNOWN.items():
        if re.fullmatch(pattern, identifier) and any(module in _modules(package) for package in candidates):
            return module
    if not _VERSIONED.search(identifier):
        return None
    wanted = re.compile("|".join(rf"[\"']{re.escape(name)}[\"']" for name in _names(identifier)))
    for package in candidates:
        for path in _sources(package):
            text = path.read_text(encoding="utf-8", errors="replace")
            if "register" in text and wanted.search(text):
                return path.relative_to(str(package.locate_file(""))).parts[0]
    return None


def _names(identifier: str) -> set[str]:
    """Return how source may name an id: as a whole, or without the version, which is then added to it."""
    return {identifier, identifier.rpartition("-v")[0]} - {""}


def _candidates() -> Iterator[Distribution]:
    """Yield the packages that need Gymnasium, or the old Gym."""
    for package in distributions():
        if any(_INTERFACES.match(need) for need in package.requires or []):
            yield package


def _modules(package: Distribution) -> set[str]:
    return {file.parts[0] for file in package.files or [] if file.suffix == ".py" and len(file.parts) > 1}


def _sources(package: Distribution) -> Iterator[Path]:
    files = [
        file
        for file in package.files or []
        if file.suffix == ".py" and len(file.parts) > 1 and file.parts[0] not in _NO_SIMULATORS
    ]
    for file in sorted(files, key=lambda file: (len(file.parts), file.name != "__init__.py"))[:_MOST_FILES]:
        path = Path(str(package.locate_file(file)))
        try:
            if path.stat().st_size <= _LARGEST_FILE:
                yield path
        except OSError:
            continue
