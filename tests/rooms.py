"""The rooms of the package, and what each imports: the rules, and a table and a drawing of what is really there.

`python -m tests.rooms` prints the table that docs/design.md holds, and writes the drawing docs/pictures/rooms.svg.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "muster"
PICTURE = PACKAGE.parents[1] / "docs" / "pictures" / "rooms.svg"
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


def table() -> str:
    """Return which rooms each room imports as a Markdown table, the highest room first."""
    edges = {
        (room_of(path), parts[1])
        for path in own_files()
        for module in imports_of(path)
        if (parts := module.split("."))[0] == "muster" and len(parts) > 1 and parts[1] in RANKS
    }
    rooms = _by_rank()
    lines = ["| room | imports |", "|---|---|"]
    for room in rooms:
        below = ", ".join(other for other in rooms if room != other and (room, other) in edges)
        lines.append(f"| {room} | {below or 'none of these'} |")
    return "\n".join(lines)


def drawing() -> str:
    """Return the rooms as an SVG picture, in the order in which they may import each other."""
    width, height, gap = 760, 58, 14
    rows = [
        [room for room in _by_rank() if RANKS[room] == rank] for rank in sorted(set(RANKS.values()), reverse=True)
    ]
    rows = [row for row in rows if row] + [list(_LEAVES)]
    lines = []
    for number, row in enumerate(rows):
        y, box = 16 + number * (height + gap), (width - 40 - gap * (len(row) - 1)) / len(row)
        leaf = row == list(_LEAVES)
        for place, room in enumerate(row):
            x = 20 + place * (box + gap)
            about = "" if leaf else _ABOUT.get(room, "")
            lines += [
                f'<rect x="{x:.0f}" y="{y}" width="{box:.0f}" height="{height}" rx="6" fill="{_FILL[leaf]}" '
                'stroke="#57606a"/>',
                f'<text x="{x + box / 2:.0f}" y="{y + (24 if about else 34)}" '
                f'font-weight="{400 if leaf else 600}" font-size="{11 if leaf else 15}">{room}</text>',
            ]
            if about:
                lines.append(f'<text x="{x + box / 2:.0f}" y="{y + 44}" font-size="12">{about}</text>')
    tall = 16 + len(rows) * (height + gap)
    lines.append(f'<text x="{width / 2:.0f}" y="{tall + 10}" font-size="12">imports point downwards</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {tall + 24}" '
            'font-family="sans-serif" text-anchor="middle" fill="#1f2328">',
            f'<rect width="{width}" height="{tall + 24}" fill="#ffffff"/>',
            *lines,
            "</svg>\n",
        ]
    )


_FILL = {False: "#ddf4ff", True: "#f6f8fa"}
_ABOUT = {
    "api": "what import muster offers",
    "cli": "one command per file",
    "serving": "the live page",
    "tracking": "MLflow, W&B, Trackio, TensorBoard",
    "reports": "pages, pictures, tables made from run folders",
    "jobs": "scripts, submit, status, chains, ssh",
    "sweeps": "trials on Ray Tune",
    "training": "one run: iterate, record, checkpoint, stop",
    "clusters": "allocations, Ray, doctor",
    "engines": "what trains: builtin, rllib",
    "runs": "the run folder",
    "stepping": "the only room that calls a simulator",
    "experiment": "the file, its keys",
    "policies": "the saved policy",
    "simulators": "names, spaces, seeds",
}


def _by_rank() -> list[str]:
    """Return the rooms of the drawing, the highest first."""
    return sorted((room for room in RANKS if room not in _LEAVES), key=lambda room: (-RANKS[room], room))


if __name__ == "__main__":
    PICTURE.write_text(drawing())
    print(table())
