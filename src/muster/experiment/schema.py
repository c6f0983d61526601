"""The experiment as typed, frozen data. A field's description is its CLI help and its reference entry."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from muster.experiment.fields import ColumnName, Count, Duration
from muster.experiment.quantities import LARGEST_COUNT, LARGEST_SEED
from muster.experiment.section import Section
from muster.experiment.sweep import SweepSection
from muster.experiment.tables import leaves
from muster.simulators.simulator import Simulator

MOST_WORKERS = 100_000
MOST_THREADS = 4096
LONGEST_NAME = 100


AUTO: Literal["auto"] = "auto"


class Stage(Section):
    """A value of a scheduled key, and when it is due: at a number of steps, or at a return."""

    value: Any
    steps: Count | None = None
    return_: float | None = Field(default=None, alias="return")

    @model_validator(mode="after")
    def _one_condition(self) -> Stage:
        if (self.steps is None) == (self.return_ is None):
            raise ValueError("expected either steps or return, for example { value = 2, steps = 100_000 }")
        return self

    @field_validator("value")
    @classmethod
    def _is_comparable(cls, value: Any) -> Any:
        if isinstance(value, float) and math.isnan(value):
            raise ValueError("expected a value that equals itself")
        return value


class EnvSection(Section):
    """The simulator: which one, and how it is built."""

    id: str = Field(
        min_length=1,
        description="Simulator: a Gymnasium id, module:Id-v0 of a package, envpool:Id-v0, module:Class, "
        "module:function, or path/to/file.py:Class.",
    )
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="Keyword arguments of the simulator, or the one dict if its constructor takes a single "
        "`config` or `env_config`. In strings, `{index}` is the simulator's number in the run and `{folder}` a "
        'folder of its own; "9000 + {index}" becomes a number.',
    )
    wrappers: list[str | dict[str, Any]] = Field(
        default_factory=list,
        description="Gymnasium wrappers, innermost first: module:Class, or a table with `class` and its "
        "keyword arguments. A batched simulator takes those of gymnasium.wrappers.vector.",
    )
    max_episode_steps: Count | None = Field(
        default=None, description="Cut an episode after this many steps; default: as the simulator says."
    )
    max_failures: int = Field(
        default=100,
        ge=0,
        le=LARGEST_COUNT,
        description="Stop the run when the simulator has failed more often than this.",
    )
    step_timeout: Duration | None = Field(
        default=None,
        description="Time limit of one call of the simulator. A call that exceeds it is a failure; with workers, "
        "its worker is replaced. No limit if not given.",
    )
    restart_every: int = Field(
        default=0,
        ge=0,
        le=LARGEST_COUNT,
        description="Rebuild a simulator after this many episodes, if it leaks; 0: never.",
    )
    check_bounds: bool = Field(
        default=True, description="Whether an observation outside its space's bounds is a failure."
    )
    vectorized: bool | None = Field(
        default=None,
        description="Whether the simulator is batched (a VectorEnv, made with `num_envs`): each group is then one "
        "batch. By default, EnvPool and any class or function that takes `num_envs` are; `true` batches a "
        "registered id by gymnasium.make_vec.",
    )
    cpus: Count | None = Field(
        default=None,
        le=MOST_THREADS,
        description="CPUs that one simulator, or one batch, uses, if it has threads or starts processes: each "
        "worker reserves as many, and OMP_NUM_THREADS and its like are set to it.",
    )
    schedule: dict[ColumnName, list[Stage]] = Field(
        default_factory=dict,
        description="A curriculum: keys of env.config that change during the run, each with its values in order, "
        "such as `wind = [{ value = 5, steps = 100_000 }, { value = 10, return = 50 }]`. A value is used by the "
        "episodes that begin after so many steps, or once the episodes since the last change (at least 20, and "
        "the last 100 of them) have this mean return.",
    )
    schedule_method: str | None = Field(
        default=None,
        description="Method of the simulator that takes new values of env.schedule as keyword arguments, before a "
        "reset; without it, the simulator is rebuilt.",
    )
    import_: list[str] = Field(
        default_factory=list,
        alias="import",
        description="Modules to import first, because they register the simulator with Gymnasium.",
    )
    paths: list[str] = Field(
        default_factory=list,
        description="Folders to import the simulator from, besides the experiment's own and the current one.",
    )

    def simulator(self, folder: Path = Path("simulators"), spare_index: int = 0) -> Simulator:
        """Return how to build the simulator; `folder` holds the folders of those that ask for one."""
        return Simulator(
            id=self.id,
            config=self.config,
            wrappers=self.wrappers,
            max_episode_steps=self.max_episode_steps,
            paths=self.paths,
            folder=str(folder.absolute()),
            spare_index=spare_index,
            vectorized=self.vectorized,
            imports=self.import_,
            cpus=self.cpus,
            schedule_method=self.schedule_method,
        )

    @field_validator("schedule")
    @classmethod
    def _in_order(cls, schedule: dict[str, list[Stage]]) -> dict[str, list[Stage]]:
        for key, stages in schedule.items():
            steps = [stage.steps for stage in stages if stage.steps is not None]
            if steps != sorted(set(steps)):
                raise ValueError(f"{key}: expected steps that increase from stage to stage, not {steps}")
        return schedule

    @property
    def last_scheduled(self) -> dict[str, Any]:
        """The last values of the schedule: what a policy is trained for, and evaluated with."""
        return {key: stages[-1].value for key, stages in self.schedule.items() if stages}


BUILTIN_ALGORITHMS = ("PPO", "TRPO", "A2C")
RLlibOnly = Literal["DQN", "SAC", "APPO", "IMPALA", "DreamerV3", "TQC"]
RLLIB_ALGORITHMS = ("PPO", *get_args(RLlibOnly))


def _listed(names: tuple[str, ...], conjunction: str) -> str:
    return f"{', '.join(names[:-1])} {conjunction} {names[-1]}"


_NAME = f"Algorithm: {_listed(BUILTIN_ALGORITHMS, 'or')}; on RLlib: {_listed(RLLIB_ALGORITHMS, 'or')}."
_ENGINE = f"What trains: builtin ({', '.join(BUILTIN_ALGORITHMS)}) or rllib (PPO, and all others)."

# Settings that several algorithms have, with defaults of their own.
BatchSize = Annotated[
    Count,
    Field(
        description="Steps per iteration; rounded up to whole fragments of all simulators. The default is smaller "
        "where stop.steps is below 16 such batches: a sixteenth of it, but at least 256."
    ),
]
MinibatchSize = Annotated[Count, Field(description="Steps per gradient step.")]
LearningRate = Annotated[float, Field(gt=0, description="Learning rate of Adam.")]
LearningRateSchedule = Annotated[
    Literal["constant", "linear"],
    Field(
        description="`linear` lowers the learning rate to zero at stop.steps or stop.iterations; where neither is "
        "given, it is constant."
    ),
]
EntropyCoeff = Annotated[float, Field(ge=0, description="Weight of the entropy bonus.")]
ValueLossCoeff = Annotated[float, Field(ge=0, description="Weight of the value loss.")]
GradClip = Annotated[float | None, Field(gt=0, description="Largest norm of a gradient.")]


class AlgorithmSection(Section):
    """What all algorithms of the built-in engine have in common."""

    engine: Literal["builtin", "rllib"] = Field(default="builtin", description=_ENGINE)
    gamma: float = Field(default=0.99, ge=0, le=1, description="Discount per step.")
    lambda_: float = Field(default=0.95, ge=0, le=1, description="Decay of the advantage estimate (GAE).")
    train_batch_size: BatchSize = 2048
    action_bounds: Literal["clip", "squash"] = Field(
        default="clip",
        description="How Box actions keep to their bounds: `clip`, or `squash` through tanh. Built-in engine.",
    )
    log_std_init: float | None = Field(
        default=None,
        description="Initial log standard deviation of continuous actions; default -0.5, with use_sde -2. "
        "Built-in engine.",
    )
    use_sde: bool = Field(
        default=False,
        description="State-dependent exploration (gSDE) of Box actions. Built-in engine, built-in network.",
    )
    sde_sample_freq: Count | None = Field(
        default=None,
        description="With use_sde: draw new noise every so many steps; default: once for each iteration.",
    )


class PPOSection(AlgorithmSection):
    """Proximal policy optimisation."""

    name: Literal["PPO"] = Field(default="PPO", description=_NAME)
    lr: LearningRate = 3e-4
    lr_schedule: LearningRateSchedule = "linear"
    minibatch_size: MinibatchSize = 64
    num_epochs: Count = Field(default=10, description="Passes over each batch.")
    clip_param: float = Field(default=0.2, gt=0, description="How far the probability ratio may leave 1.")
    entropy_coeff: EntropyCoeff = 0.0
    vf_loss_coeff: ValueLossCoeff = 0.5
    vf_clip_param: float | None = Field(
        default=None,
        gt=0,
        description="Clip the change of a value to this (in scaled reward); off if not given.",
    )
    grad_clip: GradClip = 0.5
    target_kl: float | None = Field(
        default=None, gt=0, description="End an iteration's epochs early above this KL; off if not given."
    )


class BuiltinSection(AlgorithmSection):
    """An algorithm that only the built-in engine has."""

    @field_validator("engine")
    @classmethod
    def _only_builtin(cls, engine: str) -> str:
        if engine != "builtin":
            (name,) = get_args(cls.model_fields["name"].annotation)
            raise ValueError(f"there is no {name} in RLlib; expected builtin")
        return engine


class TRPOSection(BuiltinSection):
    """Trust-region policy optimisation."""

    name: Literal["TRPO"] = Field(description=_NAME)
    target_kl: float = Field(default=0.01, gt=0, description="Size of the trust region: mean KL per update.")
    cg_iterations: Count = Field(default=10, description="Conjugate-gradient iterations.")
    cg_damping: float = Field(default=0.1, ge=0, description="Added to the Fisher matrix's diagonal.")
    line_search_steps: Count = Field(default=10, description="How often a step is halved before giving up.")
    lr: float = Field(default=1e-3, gt=0, description="Learning rate of the value function's Adam.")
    minibatch_size: MinibatchSize = 128
    num_epochs: Count = Field(default=10, description="Passes over each batch when fitting the value function.")


class A2CSection(BuiltinSection):
    """Advantage actor-critic, synchronous: one gradient step on each batch."""

    name: Literal["A2C"] = Field(description=_NAME)
    train_batch_size: BatchSize = 320
    lr: LearningRate = 2e-3
    lr_schedule: LearningRateSchedule = "constant"
    entropy_coeff: EntropyCoeff = 0.0
    vf_loss_coeff: ValueLossCoeff = 0.5
    grad_clip: GradClip = 0.5


_RLLIB = "Any other setting of RLlib's AlgorithmConfig, by its name there."


class RLlibPPOSection(PPOSection):
    """RLlib's PPO: the keys of PPO, and those that RLlib has besides."""

    model_config = ConfigDict(extra="allow")

    rllib: dict[str, Any] = Field(default_factory=dict, description=_RLLIB)


class RLlibSection(Section):
    """An algorithm of RLlib's: its hyperparameters by RLlib's own names and with RLlib's defaults."""

    model_config = ConfigDict(extra="allow")

    name: RLlibOnly = Field(description=_NAME)
    engine: Literal["builtin", "rllib"] = Field(default="rllib", description=_ENGINE)
    rllib: dict[str, Any] = Field(default_factory=dict, description=_RLLIB)

    @field_validator("engine")
    @classmethod
    def _only_rllib(cls, engine: str) -> str:
        if engine != "rllib":
            names = _listed(BUILTIN_ALGORITHMS, "and")
            raise ValueError(f"the built-in engine has only {names}; expected rllib")
        return engine

    @model_validator(mode="after")
    def _numbers_are_numbers(self) -> RLlibSection:
        """Refuse what no algorithm can learn with; what else the keys may hold, RLlib knows."""
        for key, value in self.hyperparameters.items():
            is_rate = key == "lr" or key.endswith("_lr")
            if (isinstance(value, float) and math.isnan(value)) or (is_rate and value in (math.inf, -math.inf)):
                raise ValueError(f"{key} is {value}; expected a finite number")
            if is_rate and isinstance(value, bool):
                raise ValueError(f"{key} is {value}; expected a number")
        return self

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The keys that are RLlib's."""
        return dict(self.model_extra or {})


_PPO_ON_RLLIB, _OTHERS_ON_RLLIB = "PPO on RLlib", "RLlib"


def _kind_of_algorithm(section: Any) -> str | None:
    """Return the tag of the section that a table, or a section that is made already, is to be read as."""
    table = section if isinstance(section, dict) else getattr(section, "__dict__", {})
    name, engine = table.get("name"), table.get("engine")
    if not isinstance(name, str) or name not in ALGORITHMS:
        return None
    if name in BUILTIN_ALGORITHMS:
        return _PPO_ON_RLLIB if (name, engine) == ("PPO", "rllib") else name
    return _OTHERS_ON_RLLIB


Algorithm = Annotated[
    Annotated[PPOSection, Tag("PPO")]
    | Annotated[TRPOSection, Tag("TRPO")]
    | Annotated[A2CSection, Tag("A2C")]
    | Annotated[RLlibPPOSection, Tag(_PPO_ON_RLLIB)]
    | Annotated[RLlibSection, Tag(_OTHERS_ON_RLLIB)],
    Discriminator(_kind_of_algorithm),
]
_SECTIONS = {tag.tag: section for section, tag in map(get_args, get_args(get_args(Algorithm)[0]))}
ALGORITHM_TAGS = tuple(_SECTIONS)
ALGORITHMS: dict[str, type[AlgorithmSection] | type[RLlibSection]] = {
    **{name: _SECTIONS[name] for name in BUILTIN_ALGORITHMS},
    **dict.fromkeys(get_args(RLlibOnly), RLlibSection),
}
_CANONICAL_NAMES = {name.upper(): name for name in ALGORITHMS}


class ModelSection(Section):
    """The network: a policy and a value net of the same shape."""

    hidden: list[Count] = Field(default=[64, 64], description="Sizes of the hidden layers.")
    activation: Literal["tanh", "relu"] = Field(default="tanh", description="tanh or relu.")
    images: bool = Field(
        default=True,
        description="Read uint8 boxes with 2 or 3 dimensions (RLlib: 3) as images, with a convolutional network "
        "(extra `torch`); false: as plain numbers.",
    )
    class_: str | None = Field(
        default=None,
        alias="class",
        description="A network of your own instead, module:Class or path/to/file.py:Class: a torch.nn.Module "
        "(extra `torch`); with RLlib an RLModule.",
    )
    config: dict[str, Any] = Field(default_factory=dict, description="Settings of your own network.")


class NormalizeSection(Section):
    """Running scales, kept in the policy; off with DQN, SAC, TQC and DreamerV3, which replay old observations."""

    observations: bool = Field(default=True, description="Scale Box observations to mean 0, deviation 1.")
    rewards: bool = Field(default=True, description="Scale rewards by the deviation of the discounted return.")


class ResourcesSection(Section):
    """On what. The number of workers never changes what is learned; the groups do."""

    workers: Annotated[int, Field(ge=0, le=MOST_WORKERS)] | Literal["auto"] = Field(
        default="auto",
        description="Processes that step simulators; 0 runs all in this one, without Ray (RLlib needs a small one "
        "still); auto decides by the simulator's speed and the CPUs there are.",
    )
    gpus: float = Field(
        default=0,
        ge=0,
        le=MOST_WORKERS,
        description="GPUs of RLlib's learner, such as 0.5; the built-in network needs none.",
    )
    env_groups: Count = Field(
        default=8,
        le=MOST_WORKERS,
        description="Groups of simulators, dealt out to the workers; at least one for each. RLlib: one for each.",
    )
    envs_per_group: Count = Field(
        default=1,
        le=MOST_WORKERS,
        description="Simulators in a group, or in a worker of RLlib's. The default is 8 where they step "
        "together: if the simulator is batched, and with RLlib.",
    )
    overlap: bool = Field(
        default=False,
        description="Let workers sample the next batch while the learner learns: faster, but no longer the same "
        "to the bit. Needs workers.",
    )
    learner_threads: Count = Field(
        default=1, le=MOST_THREADS, description="Threads of the learner's linear algebra."
    )


class StopSection(Section):
    """When to stop: whichever comes first."""

    steps: Count | None = Field(default=None, description="Stop after this many simulator steps.")
    iterations: Count | None = Field(default=None, description="Stop after this many iterations.")
    time: Duration | None = Field(default=None, description="Stop after this much training time, e.g. 30m.")
    return_: float | None = Field(
        default=None,
        alias="return",
        allow_inf_nan=False,
        description="Stop when the mean return of the last 100 episodes gets here.",
    )


class EvaluationSection(Section):
    """Deterministic episodes in between, on a simulator of their own, always with the same seeds."""

    every: Annotated[int, Field(ge=0, le=LARGEST_COUNT)] | Literal["auto"] = Field(
        default=AUTO,
        description="Evaluate every so many iterations; 0: never; auto: so seldom that it takes about a twentieth "
        "of the steps, and at the end; never if the run has a single simulator.",
    )
    episodes: Count = Field(default=10, description="Episodes per evaluation.")


class CheckpointSection(Section):
    """What is saved, and how often."""

    every: Count = Field(default=10, description="Save every so many iterations ...")
    every_time: Duration = Field(default=600.0, description="... or after this much time, whichever is first.")
    keep: Count = Field(default=3, description="Keep this many of the newest checkpoints, and the best.")
    simulators: bool = Field(
        default=True,
        description="Save the simulators' own state where it pickles, so that resuming is exact; not with RLlib.",
    )
    replay_buffer: bool = Field(
        default=False, description="With DQN, SAC, TQC and DreamerV3: save what was experienced, too."
    )


class Experiment(Section):
    """Which simulator, which algorithm, how long, on what."""

    name: str | None = Field(
        default=None,
        max_length=LONGEST_NAME,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Name of the run and its folder; default: made from simulator and algorithm.",
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="Seed of everything random.")
    env: EnvSection
    algorithm: Algorithm = Field(default_factory=PPOSection)
    model: ModelSection = Field(default_factory=ModelSection)
    normalize: NormalizeSection = Field(default_factory=NormalizeSection)
    metrics: dict[ColumnName, Literal["sum", "mean", "last", "min", "max"]] = Field(
        default_factory=dict,
        description="Numbers in the simulator's `info` to record, and how those of an episode's steps become one: "
        '`energy = "sum"`, or mean, last, min, max. In nested dictionaries: `"building.energy" = "sum"`. They '
        "become the columns `metrics/NAME` of metrics.csv.",
    )
    resources: ResourcesSection = Field(default_factory=ResourcesSection)
    stop: StopSection = Field(default_factory=StopSection)
    evaluation: EvaluationSection = Field(default_factory=EvaluationSection)
    checkpoint: CheckpointSection = Field(default_factory=CheckpointSection)
    sweep: SweepSection | None = Field(default=None, description="What `muster sweep` varies over its trials.")

    @model_validator(mode="before")
    @classmethod
    def _name_the_algorithm(cls, data: Any) -> Any:
        """Give `[algorithm]` its default name, by which its other keys are then checked."""
        if isinstance(data, dict) and isinstance(section := data.get("algorithm", {}), dict):
            name = section.get("name", "PPO")
            section = {**section, "name": _CANONICAL_NAMES.get(str(name).upper(), name)}
            return {**data, "algorithm": section}
        return data

    def as_table(self) -> dict[str, Any]:
        """Return the experiment as TOML has it: keys by their file names, what is not given left out."""
        return self.model_dump(by_alias=True, exclude_none=True)

    @field_validator("metrics", mode="before")
    @classmethod
    def _flat_metrics(cls, metrics: Any) -> Any:
        """Read `building.energy = "sum"` like its quoted form."""
        return dict(leaves(metrics)) if isinstance(metrics, dict) else metrics

    def simulator(self, folder: Path = Path("simulators")) -> Simulator:
        """Return how to build the simulator, in a run or on its own.

        One beside those that are trained in, such as for evaluation, has the next index after theirs.
        """
        return self.env.simulator(folder, self.resources.env_groups * self.resources.envs_per_group)


def section_model(name: str, algorithm: str = "PPO") -> type[BaseModel] | None:
    """Return the model of a table of the file, or None if the name is a plain key or unknown."""
    if name == "algorithm":
        return ALGORITHMS.get(algorithm)
    if name == "sweep":
        return SweepSection
    field = Experiment.model_fields.get(name)
    annotation = field.annotation if field else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def describe(key: str, algorithm: str = "PPO") -> str:
    """Return the description of a dotted key, such as `resources.workers`."""
    *section, name = key.split(".")
    model = section_model(section[0], algorithm) if section else Experiment
    assert model is not None, key
    field = next(f for n, f in model.model_fields.items() if name in (n, f.alias))
    return field.description or ""
