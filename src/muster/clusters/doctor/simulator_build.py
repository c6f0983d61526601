"""Builds an experiment's simulator once, in a process of its own: there it may crash, hang and print.

Run as `python -m muster.clusters.doctor.simulator_build FILE`; says on standard error what is wrong.
"""

from __future__ import annotations

import sys

from muster.errors import MusterError
from muster.experiment.loading import load_experiment
from muster.stepping.live import FailedCallError, LiveSimulator
from muster.stepping.rules import Rules


def main() -> int:
    """Load the experiment, build its simulator and reset it; return the exit code."""
    try:
        env = load_experiment(sys.argv[1]).experiment.env
        live = LiveSimulator(env.simulator(), Rules())
        live.build()
        live.reset()
        live.close()
    except MusterError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except FailedCallError as error:
        print(error.failure.traceback or error.failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
