"""The rooms of the package, and what each imports: the rules, and a drawing of what is really there.

`python -m tests.rooms` prints the drawing, which docs/design.md holds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "muster"
RANKS = {
    "errors": 0,
    "statistics": 0,
    "environment_variables": 0,
    "extras": 0,
    "ray_private": 0,
    "files": 1,
    "experiment": 2,
    "simulators": 2,
    "policies": 2,
    "stepping": 3,
    "engines": 4,
    "clusters": 4,
    "runs": 4,
    "training": 5,
    "jobs": 6,
    "sweeps": 6,
    "reports": 7,
    "serving": 8,
    "tracking": 8,
    "cli": 9,
    "api": 10,
}
NEIGHBOURS = {
    ("experiment", "simulators"),
    ("policies", "simulators"),
    ("clusters", "runs"),
}
ENGINE_RANKS = {"networks": 0, "sampling": 1, "learning": 2}
"""Within the built-in engine; its other files may import all of them."""
_LEAVES = ("errors", "extras", "statistics", "environment_variables", "ray_private", "files")
"""What every room may import; left out of the drawing."""


def imports_of(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def own_files() -> list[Path]:
    """Return the files of all rooms."""
    return [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE]


def room_of(path: Path) -> str:
    """Return the room that a file is in."""
    return path.relative_to(PACKAGE).parts[0]


def drawing() -> str:
    """Return the rooms and their imports as a Mermaid diagram, the highest room first."""
    edges = {
        (room_of(path), parts[1])
        for path in own_files()
        for module in imports_of(path)
        if (parts := module.split("."))[0] == "muster" and len(parts) > 1 and parts[1] in RANKS
    }
    rooms = sorted((room for room in RANKS if room not in _LEAVES), key=lambda room: (-RANKS[room], room))
    lines = ["```mermaid", "flowchart TD"]
    lines += [f"  {room}" for room in rooms]
    lines += [
        f"  {room} --> {other}" for room in rooms for other in rooms if room != other and (room, other) in edges
    ]
    return "\n".join([*lines, "```"])


if __name__ == "__main__":
    print(drawing())
