"""What every table of the experiment file is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the experiment file: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
