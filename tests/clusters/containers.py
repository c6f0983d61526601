"""An image for Charliecloud that has nothing of its own: this machine's folders are bound into it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.commands import environment


def charliecloud_flags(folder: Path) -> list[str]:
    """Make an image in a folder; return the flags of a launch in it, which has that folder and this Python."""
    image, python = folder / "image", Path(sys.executable)
    _make_root(image)
    sources = map(Path, environment()["PYTHONPATH"].split(":"))
    seen = {Path("/usr"), Path(sys.base_prefix), python.parents[1], folder, *sources}
    for each in seen:
        (image / each.relative_to("/")).mkdir(parents=True, exist_ok=True)
    runtime = " ".join(["charliecloud", *(f"--bind={each}" for each in sorted(seen))])
    return ["--container", str(image), "--runtime", runtime, "--python", str(python)]


def _make_root(image: Path) -> None:
    for name in ("dev", "etc", "proc", "root", "sys", "tmp", "usr", "home", "run", "var"):
        (image / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        if Path("/", name).is_symlink():
            (image / name).symlink_to(f"usr/{name}")
    for name in ("passwd", "group", "hosts", "resolv.conf"):
        (image / "etc" / name).touch()
