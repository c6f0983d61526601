"""Which values of an `info` are numbers, and what becomes of those that are not finite."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from muster.stepping.info_metrics import mean_of, number_in, numbers_of


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.array(2), 2.0),
        (Decimal("1.5"), 1.5),
        ("3", None),
        (np.str_("abc"), None),
        (np.array("3"), None),
        (np.datetime64("2026-01-01"), None),
        (datetime.timedelta(1), None),
        (10**400, None),
        (1j, None),
        (np.zeros(3), None),
        (None, None),
    ],
)
def test_only_numbers_are_numbers(value: Any, number: float | None) -> None:
    assert number_in({"it": value}, "it") == number
    assert dict(numbers_of({"it": value})) == ({} if number is None else {"it": number})


def test_a_mean_is_finite_or_none() -> None:
    assert mean_of([1.0, None, 2.0]) == 1.5
    assert [mean_of(values) for values in ([], [None], [1.0, math.nan], [math.inf])] == [None] * 4
