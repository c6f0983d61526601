"""Files that start a Ray on a cloud: for `ray up` on AWS and Google Cloud, and a RayJob for KubeRay."""

from __future__ import annotations

import shlex
from importlib.metadata import requires, version
from pathlib import Path
from string import Template

CLOUDS = ("aws", "gcp", "kuberay")
PYTHON = "3.11"
"""The version that Debian 12 has, the image of the files for `ray up`."""
_FOLDER = Path(__file__).parent / "clouds"


class _CloudFile(Template):
    """A file whose `@{name}` are filled in: the shell's own `$` stay."""

    delimiter = "@"


def cloud_file(cloud: str, file: str | None = None) -> str:
    """Return the file of a cloud, with the versions of this installation; its comments name the file itself."""
    text = (_FOLDER / f"{cloud}.yaml").read_text(encoding="utf-8")
    return _CloudFile(text).substitute(
        file=shlex.quote(file or f"{cloud}.yaml"),
        ray=version("ray"),
        python=PYTHON,
        python_tag=PYTHON.replace(".", ""),
        requirements=shlex.join(_requirements()),
    )


def _requirements() -> list[str]:
    """Return what muster needs besides Ray, without its extras."""
    needed = [requirement for requirement in requires("muster-rl") or [] if ";" not in requirement]
    return [requirement for requirement in needed if not requirement.startswith("ray")]
