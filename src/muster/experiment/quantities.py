"""Counts and durations as people write them: "1_000_000", "1e6", "30m", "1h30m", "02:00:00"."""

from __future__ import annotations

import re

_COUNT_SUFFIXES = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([dhms])")
_LONGEST_DURATION = 100
LARGEST_COUNT = 2**63 - 1
LONGEST_SECONDS = 100 * 365 * 86_400.0
LARGEST_SEED = 2**32 - 1
"""NumPy's own `random.seed`, which simulators use, takes no larger one."""
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d{2}):(\d{2})")


def parse_count(value: object) -> object:
    """Turn "1_000_000", "1e6", "500k" or 1e6 into a whole number; leave the rest for the type check."""
    if isinstance(value, bool):
        raise ValueError("expected a whole number")
    if isinstance(value, str):
        text = value.strip().replace("_", "").replace(",", "")
        factor = _COUNT_SUFFIXES.get(text[-1:], 1)
        try:
            value = float(text[:-1] if factor > 1 else text) * factor
        except ValueError:
            raise ValueError('expected a count such as 50000, "1_000_000", "1e6" or "500k"') from None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def parse_duration(value: object) -> object:
    """Turn "30m", "1h30m", "02:00:00" or "1-12:00:00" into seconds; a bare number is seconds already."""
    if isinstance(value, bool):
        raise ValueError("expected a duration in seconds, or text such as 30m")
    if not isinstance(value, str):
        return value
    text = value.strip()
    if len(text) > _LONGEST_DURATION:
        raise ValueError("expected a shorter text")
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return float(days * 86_400 + hours * 3_600 + minutes * 60 + seconds)
    parts = _DURATION.findall(text)
    if parts and not _DURATION.sub("", text).strip():
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    try:
        return float(text)
    except ValueError:
        raise ValueError('expected a duration such as "90s", "30m", "1h30m" or "02:00:00"') from None


def format_duration(seconds: float) -> str:
    """Write seconds the way `parse_duration` reads them, to the precision a person wants; "-" if it is none."""
    if not abs(seconds) <= LONGEST_SECONDS:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    days, hours, minutes = whole // 86_400, whole // 3_600 % 24, whole // 60 % 60
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{whole % 60:02d}s"


def counted(number: float, noun: str) -> str:
    """Write a number of things: `1 worker`, `2 workers`."""
    return f"{number:g} {noun}" if number == 1 else f"{number:,.15g} {noun}s"
