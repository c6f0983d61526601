"""How an extra of muster's is installed: the one place that says it."""

from __future__ import annotations

from importlib.util import find_spec

_WITH_TORCH = ("all", "onnx", "rllib", "torch")
_MODULES = {"report": "plotly", "video": "imageio_ffmpeg"}


def is_installed(extra: str) -> bool:
    """Return whether the packages of the extra `report` or `video` are there."""
    return find_spec(_MODULES[extra]) is not None


def how_to_install(extra: str) -> str:
    """Return the lines that follow an error's message where the packages of an extra are missing."""
    lines = [f"in the folder of muster's source: pip install '.[{extra}]'"]
    if extra in _WITH_TORCH:
        lines.append("the CPU build of torch is enough; install it first, as pytorch.org says")
    return "".join(f"\n    {line}" for line in lines)
