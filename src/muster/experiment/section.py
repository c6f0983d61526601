"""What every table of the experiment file is made of."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Section(BaseModel):
    """A table of the experiment file: unknown keys are errors, numbers are finite, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `true` where a number belongs, which Python would read as 1."""
        if isinstance(value, bool):
            types = _types(cls.model_fields[str(info.field_name)].annotation)
            if bool not in types and types & {int, float}:
                raise ValueError("expected a number")
        return value


def _types(annotation: Any) -> set[Any]:
    """Return the types that an annotation is made of, such as those of a union."""
    inner = get_args(annotation)
    return set().union(*map(_types, inner)) if inner else {annotation} if isinstance(annotation, type) else set()
