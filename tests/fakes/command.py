"""The program behind every fake command: finds the state folder and the scheduler, and does what is asked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes import misbehaviour
from tests.fakes.core import RefusedError, Site
from tests.fakes.runner import run_job
from tests.fakes.schedulers import SCHEDULERS
from tests.fakes.work import serve_rank


def main() -> int:
    """Run `STATE-FOLDER COMMAND ARGUMENTS`."""
    folder, command, arguments = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if command == "rank":
        return serve_rank()
    code = misbehaviour.act(folder / "misbehaviour", command)
    if code is not None:
        return code
    site = Site(folder)
    scheduler = SCHEDULERS.get(site.configuration.scheduler)
    if scheduler is None:
        _become_the_real(command, arguments, site.programs)
    elif command == "run-job":
        return run_job(site, scheduler, *arguments)
    else:
        try:
            site.schedule()
            return scheduler.commands[command](site, arguments)
        except RefusedError as refusal:
            print(refusal, file=sys.stderr)
            return refusal.code
    return 127


def _become_the_real(command: str, arguments: list[str], programs: Path) -> None:
    """Run the machine's own command of that name."""
    path = os.pathsep.join(entry for entry in os.get_exec_path() if Path(entry) != programs)
    os.environ["PATH"] = path
    os.execvp(command, [command, *arguments])


if __name__ == "__main__":
    sys.exit(main())
