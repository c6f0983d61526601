"""Check an experiment before training it: its simulator as training will step it, its keys as its engine will."""

from __future__ import annotations

from muster.engines.choosing import make_plan
from muster.engines.engine import Request, rules_of
from muster.errors import ExperimentError
from muster.experiment import LoadedExperiment
from muster.experiment.schema import EnvSection
from muster.simulators.verdict import Verdict
from muster.stepping.apart import ApartProcess, ProcessDiedError
from muster.stepping.checking import Planned, check_simulator
from muster.stepping.findings import Finding, of_failure
from muster.stepping.live import FailedCallError
from muster.stepping.survey import Wanted, survey_apart
from muster.training.fitting_defaults import envs_per_group
from muster.training.memory import available_memory, require_memory
from muster.training.schedule import require_stages, stages_to_come


def check_experiment(loaded: LoadedExperiment) -> list[Finding]:
    """Try the simulator in a process of its own, then let the engine judge the experiment.

    Raises:
        ExperimentError: if there is no such simulator.
    """
    rules, simulator = rules_of(loaded.experiment), loaded.experiment.simulator()
    process = ApartProcess(rules.step_timeout)
    try:
        findings: list[Finding] = process.call(check_simulator, simulator, rules, _planned(loaded))
        if any(finding.verdict is Verdict.PROBLEM for finding in findings):
            return findings
        env, engine = loaded.experiment.env, loaded.experiment.algorithm.engine
        wanted = Wanted(loaded.experiment.seed, mask=engine == "rllib", stages=stages_to_come(env))
        survey = survey_apart(simulator, rules, wanted, process)
    except FailedCallError as error:
        return [of_failure(error.failure)]
    except ProcessDiedError as error:
        return [Finding(Verdict.PROBLEM, "process", str(error))]
    finally:
        process.close()
    try:
        require_stages(loaded, survey)
        require_memory(loaded, survey)
        make_plan(Request(loaded, simulator, survey, 0, False, lambda _: None))
    except ExperimentError as error:
        findings += [
            Finding(Verdict.PROBLEM, problem.place, problem.message, problem.hint) for problem in error.problems
        ]
    return findings + _unknown_scheduled(env)


def _unknown_scheduled(env: EnvSection) -> list[Finding]:
    """Point out scheduled keys that the configuration does not begin with: a simulator may ignore them."""
    hint = "check the name, or give the value to begin with in [env.config]"
    return [
        Finding(Verdict.WARNING, "schedule", f"{key} is not in [env.config]", hint)
        for key in env.schedule
        if key not in env.config
    ]


def _planned(loaded: LoadedExperiment) -> Planned:
    """Return how many simulators there will be; RLlib has a group for each worker."""
    experiment = loaded.experiment
    resources, groups = experiment.resources, experiment.resources.env_groups
    if experiment.algorithm.engine == "rllib":
        groups = max(1, resources.workers) if isinstance(resources.workers, int) else 1
    single, batched = (envs_per_group(loaded, is_batched=is_batched) for is_batched in (False, True))
    return Planned(groups, single, available_memory(), batched)
