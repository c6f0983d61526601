"""A virtual environment for each peer, made on first use in `.bench/`; one that does not install is left out."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".bench"
PINNED = ("torch==", "numpy==", "gymnasium==", "mujoco==")

REQUIREMENTS = {
    "sb3": ["stable-baselines3", "sb3-contrib", "gymnasium[mujoco]"],
    "tianshou": ["tianshou"],
    "torchrl": ["torchrl", "gymnasium"],
    "sample_factory": ["sample-factory>=2.1"],
    "pufferlib": ["pufferlib==3.0.0"],
}
BUILD_TOOLS = {"pufferlib": ["setuptools", "wheel", "Cython", "torch", "numpy"]}
UNPINNED = dict.fromkeys(("sample_factory", "pufferlib"), ("numpy==", "gymnasium=="))
"""Peers that need older versions than ours."""
# PufferLib's set-up reads a name that it only sets with its games; so every Python of that environment has it.
SITE = {"pufferlib": "import builtins\n\nbuiltins.c_extension_paths = []\n"}


def python_of(peer: str) -> Path | None:
    """Return the Python of a peer's environment; this one for RLlib and ourselves; None if it does not install."""
    if peer not in REQUIREMENTS:
        return Path(sys.executable)
    folder = FOLDER / peer
    python = folder / "bin" / "python"
    if (folder / "failed").exists():
        return None
    if not (folder / "made").exists():
        try:
            _make(peer, folder, python)
        except subprocess.CalledProcessError as error:
            (folder / "failed").write_text(error.stderr)
            print(f"{peer} does not install; see {folder / 'failed'}", file=sys.stderr)
            return None
        (folder / "made").touch()
    return python


def _make(peer: str, folder: Path, python: Path) -> None:
    venv.create(folder, with_pip=True, clear=True)
    constraints = folder / "constraints.txt"
    pins = [pin for pin in PINNED if pin not in UNPINNED.get(peer, ())]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    constraints.write_text("\n".join(line for line in lines if line.startswith(tuple(pins))) + "\n")
    install = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints)]
    if peer in SITE:
        [packages] = folder.glob("lib/python*/site-packages")
        (packages / "sitecustomize.py").write_text(SITE[peer])
    if peer in BUILD_TOOLS:
        _run([*install, *BUILD_TOOLS[peer]])
        install.append("--no-build-isolation")
    _run([*install, *REQUIREMENTS[peer]])


def _run(command: list[str]) -> None:
    # Without nvcc on PATH and without its games, PufferLib builds with a plain C compiler.
    path = os.pathsep.join([str(Path(command[0]).parent), "/usr/bin", "/bin"])
    environment = {**os.environ, "PATH": path, "NO_OCEAN": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
