"""The environment that a site's shell lines make: `module load`, `conda activate`, exports."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from muster.errors import ClusterError

SETUP_SECONDS = 120.0


def environment_after(lines: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that shell lines leave behind; they run in a login shell, as a job script's would.

    Raises:
        ClusterError: if one of them fails, with what it said.
    """
    if not lines:
        return dict(environ)
    script = "\n".join(["set -e", "exec 3>&1 >&2", *lines, "env -0 >&3"])
    try:
        done = subprocess.run(
            ["bash", "--login", "-c", script],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SETUP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"setup: {'; '.join(lines)}: not done after {SETUP_SECONDS:g} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise ClusterError(f"setup: {'; '.join(lines)}: ended with code {done.returncode}\n    {said}")
    pairs = (entry.partition("=") for entry in done.stdout.decode(errors="surrogateescape").split("\0") if entry)
    return {name: value for name, _, value in pairs}
