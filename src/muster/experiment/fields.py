"""Types of keys that are counts and durations, as people write them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from muster.experiment.quantities import LARGEST_COUNT, LONGEST_SECONDS, parse_count, parse_duration

Count = Annotated[int, BeforeValidator(parse_count), Field(gt=0, le=LARGEST_COUNT)]
Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0, le=LONGEST_SECONDS)]


def _on_one_line(name: str) -> str:
    if not name.isprintable():
        raise ValueError(f"{name!r}: expected a name without line breaks and other control characters")
    return name


ColumnName = Annotated[str, AfterValidator(_on_one_line)]
"""A name of the user's own that heads a column of metrics.csv."""
