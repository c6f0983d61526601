"""`[sweep]`: which keys of the experiment vary over trials, how, and how trials are compared."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from muster.experiment.fields import Count
from muster.experiment.section import Section

KINDS = ("grid", "choice", "uniform", "loguniform")
DEFAULT_DRAWS = 10
_SPELLINGS = "{ grid = [...] }, { choice = [...] }, { uniform = [low, high] }, { loguniform = [low, high] }"

Number = int | float


class Parameter(Section):
    """How one key varies: exactly one of the four is given."""

    grid: list[Any] | None = Field(default=None, min_length=1, description="Each of these values.")
    choice: list[Any] | None = Field(default=None, min_length=1, description="One of these values, drawn.")
    uniform: tuple[Number, Number] | None = Field(default=None, description="A number between two, drawn.")
    loguniform: tuple[Number, Number] | None = Field(
        default=None, description="A number between two above 0, drawn so that each power of ten is as likely."
    )

    @model_validator(mode="before")
    @classmethod
    def _one_kind(cls, given: Any) -> Any:
        names = list(given) if isinstance(given, dict) else []
        if len(names) == 1 and names[0] in KINDS:
            return given
        near = difflib.get_close_matches(str(names[0]), KINDS, n=1) if names else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"expected one of {_SPELLINGS}{hint}")

    @model_validator(mode="after")
    def _bounds(self) -> Parameter:
        if (bounds := self.bounds) is None:
            return self
        low, high = bounds
        if isinstance(low, bool) or isinstance(high, bool):
            raise ValueError("expected two numbers")
        if not low < high:
            raise ValueError(f"expected [low, high] with low below high, got [{low}, {high}]")
        if self.loguniform and low <= 0:
            raise ValueError(f"expected a low end above 0, got {low}")
        return self

    @property
    def bounds(self) -> tuple[Number, Number] | None:
        """The two ends of a range; None for a list of values."""
        return self.uniform or self.loguniform

    @property
    def values(self) -> list[Any]:
        """The values of a list; the two ends of a range."""
        return list(self.grid or self.choice or self.bounds or ())


def flat_parameters(given: Any) -> Any:
    """Join nested tables to dotted keys, so that `"algorithm.lr"` and `algorithm.lr` are the same."""
    return dict(_parameters(given)) if isinstance(given, Mapping) else given


def _parameters(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value and all(isinstance(inner, Mapping) for inner in value.values()):
            yield from _parameters(value, f"{key}.")
        else:
            yield key, value


class SweepSection(Section):
    """Trials of the same experiment with other values: `muster sweep`."""

    parameters: Annotated[dict[str, Parameter], BeforeValidator(flat_parameters)] = Field(
        default_factory=dict,
        description="What varies: a dotted key of this file, and `grid`, `choice`, `uniform` or `loguniform`.",
    )
    trials: Count | None = Field(
        default=None,
        description="How often values are drawn, each time for every point of the grids; default: 10, or 1 if "
        "there are only grids.",
    )
    concurrent: Count | None = Field(
        default=None, description="Trials at the same time; default: as many as there are CPUs for."
    )
    metric: str = Field(default="return/mean", description="Column of metrics.csv by which trials are compared.")
    mode: Literal["max", "min"] = Field(default="max", description="max or min: which metric is better.")
    search: Literal["random", "optuna"] = Field(
        default="random", description="How values are drawn: random, or by Optuna from the trials so far."
    )
    scheduler: Literal["none", "asha", "pbt"] = Field(
        default="none",
        description="asha stops trials early that fall behind; pbt lets them continue from better ones with "
        "changed values.",
    )
    grace_period: Count = Field(default=5, description="asha: iterations before a trial may be stopped.")
    reduction_factor: Annotated[int, Field(ge=2)] = Field(
        default=3,
        description="asha: only the top 1/reduction_factor of the trials that reached a comparison continue.",
    )
    perturbation_interval: Count = Field(default=5, description="pbt: iterations between comparisons.")

    @property
    def grids(self) -> dict[str, list[Any]]:
        """The parameters of which every value is tried."""
        return {key: parameter.grid for key, parameter in self.parameters.items() if parameter.grid}

    @property
    def num_draws(self) -> int:
        """How often values are drawn for each point of the grids."""
        return self.trials or (1 if len(self.grids) == len(self.parameters) else DEFAULT_DRAWS)
