"""Builds an experiment's simulator once, in a process of its own: there it may crash, hang and print.

Run as `python -m muster.clusters.doctor.trial FILE`; says on standard error what is wrong.
"""

from __future__ import annotations

import sys
import traceback

from muster.errors import MusterError
from muster.experiment.loading import load_experiment
from muster.simulators.building import Simulator


def main() -> int:
    """Load the experiment, build its simulator and reset it; return the exit code."""
    try:
        env = load_experiment(sys.argv[1]).experiment.env
        simulator = Simulator(env.id, env.config, env.wrappers, env.max_episode_steps, env.paths).build()
        simulator.reset(seed=0)
        simulator.close()
    except MusterError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
