"""Types of keys that are counts and durations, as people write them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from muster.experiment.quantities import LARGEST_COUNT, LONGEST_SECONDS, parse_count, parse_duration

Count = Annotated[int, BeforeValidator(parse_count), Field(gt=0, le=LARGEST_COUNT)]
Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0, le=LONGEST_SECONDS)]
