"""On what kind of file system a path lies."""

from __future__ import annotations

from pathlib import Path

NETWORK_TYPES = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "gfs2"),
    *("lustre", "gpfs", "beegfs", "panfs", "pvfs2", "orangefs", "wekafs"),
    *("fuse.beegfs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs"),
}


def mount_type(path: Path, mounts: str) -> str | None:
    """Return the file system's type of a path, by the lines of /proc/mounts; None if they do not tell."""
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if path.is_relative_to(point) and (best is None or len(point) >= best[0]):
            best = len(point), kind
    return best[1] if best else None


def read_mounts() -> str:
    """Return the lines of /proc/mounts; none where there is no such file."""
    try:
        return Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
