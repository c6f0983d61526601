"""Where Ray's dashboard of a launch is: the host, the port on its loopback, and the token that lets one in.

The file is for its owner's eyes alone, and is removed when the launch ends. The token is worth nothing after that.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from muster.clusters.named import DESTINATION
from muster.files.ownership import require_own
from muster.files.regular import read_bytes
from muster.runs.files import write_text

FOLDER = "dashboard"
"""In the folder of a launch."""
_FILE = "where.json"
_LARGEST = 4096


@dataclass(frozen=True)
class DashboardRecord:
    """A dashboard that listens on a host's loopback."""

    host: str
    """The host as its allocation names it, which ssh knows."""
    hostname: str
    """What the host calls itself."""
    port: int
    token: str


def write_dashboard(launch: Path, record: DashboardRecord) -> None:
    """Write where the dashboard of a launch is, into the launch's folder."""
    folder = launch / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    write_text(folder / _FILE, json.dumps(asdict(record)), durable=False, private=True)


def read_dashboard(launch: Path) -> DashboardRecord | None:
    """Return where the dashboard of a launch is; None if there is none, or the launch has ended.

    Raises:
        OwnershipError: if another user could have written it: its host is given to ssh, and its page a token.
    """
    file = launch / FOLDER / _FILE
    require_own([launch, file.parent, file], f"{launch.name}: opening its dashboard", trust=False)
    try:
        record = DashboardRecord(**json.loads(read_bytes(file, _LARGEST)))
        if not DESTINATION.fullmatch(record.host) or not 0 < record.port < 65536:
            return None
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return record
