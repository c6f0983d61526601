"""Random damage of the files in a run folder."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

CONTENTS = (b"", b"null\n", b"[]\n", b"{}\n", b"\0" * 512, b"[" * 50_000, b'{"iteration": NaN}\n', b"\xff\xfe\x00")
MODES = (0o000, 0o200, 0o400)


def damage(rng: random.Random, run: Path) -> str:
    """Damage a few files of a run, in one checkpoint at most; return what was done."""
    spared = rng.choice(sorted((run / "checkpoints").glob("0*")))
    paths = [path for path in sorted(run.rglob("*")) if spared not in (path, *path.parents)]
    done = []
    for _ in range(rng.randrange(1, 5)):
        path = rng.choice(paths)
        if path.is_symlink() or path.exists():
            done.append(f"{_harm(rng, path)} {path.relative_to(run)}")
    return f"{', '.join(done)} (spared {spared.name})"


def _harm(rng: random.Random, path: Path) -> str:
    kind = rng.choice(("delete", "folder", "fifo", "loop", "dangling", "content", "truncate", "flip", "mode"))
    is_file = path.is_file() and not path.is_symlink()
    if kind in ("truncate", "flip") and is_file and path.stat().st_size:
        content = bytearray(path.read_bytes())
        place = rng.randrange(len(content))
        if kind == "flip":
            content[place] ^= 1 << rng.randrange(8)
        path.write_bytes(content if kind == "flip" else content[:place])
    elif kind == "mode" and is_file:
        path.chmod(rng.choice(MODES))
    else:
        kind = kind if kind not in ("truncate", "flip", "mode") else "content"
        _replace(rng, path, kind)
    return kind


def _replace(rng: random.Random, path: Path, kind: str) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    if kind == "folder":
        (path / "inside").mkdir(parents=True)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind in ("loop", "dangling"):
        path.symlink_to(path.name if kind == "loop" else "nowhere")
    elif kind == "content":
        path.write_bytes(rng.choice(CONTENTS))
