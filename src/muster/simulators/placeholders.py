"""What differs between the simulators of a run: `{index}` and `{folder}` in the values of `[env.config]`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

INDEX = "{index}"
FOLDER = "{folder}"
_NUMBER = re.compile(r"(?:(\d+)\s*\+\s*)?\{index\}")


def filled_in(value: Any, index: int, folder: Path) -> Any:
    """Return a value of the configuration, however nested, for one simulator.

    `"{index}"` alone, or a sum such as `"9000 + {index}"`, becomes a whole number. A folder that is named is made.
    """
    if isinstance(value, dict):
        return {key: filled_in(item, index, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [filled_in(item, index, folder) for item in value]
    if not isinstance(value, str):
        return value
    if number := _NUMBER.fullmatch(value.strip()):
        return int(number[1] or 0) + index
    if FOLDER in value:
        folder.mkdir(parents=True, exist_ok=True)
    return value.replace(INDEX, str(index)).replace(FOLDER, str(folder))
