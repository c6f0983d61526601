"""Does the experiment's simulator import and build on this host?"""

from __future__ import annotations

import signal
import subprocess
import sys

from muster.clusters.doctor import simulator_build
from muster.clusters.doctor.findings import HostFinding, problem, well

SIMULATOR = "simulator"
_SHOWN_LINES = 6


def check_simulator(target: str, seconds: float) -> HostFinding:
    """Build the simulator of an experiment file, or of an id, in a process of its own."""
    try:
        tried = subprocess.run(
            [sys.executable, "-m", simulator_build.__name__, target],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return problem(
            SIMULATOR,
            f"{target}: not built after {seconds:g} s",
            "--timeout waits longer; does it wait for a licence server or a file that this host cannot reach?",
        )
    if tried.returncode == 0:
        return well(SIMULATOR, f"{target}: imports, builds and resets")
    if tried.returncode < 0:
        said = f"its process was ended by {signal.Signals(-tried.returncode).name}"
    else:
        said = "\n".join(tried.stderr.strip().splitlines()[-_SHOWN_LINES:])
    return problem(
        SIMULATOR,
        f"{target}: {said}",
        f"put the file and all that it imports where every host sees them, in the same Python environment; "
        f"then try there: muster check {target}",
    )
