"""`muster play`: watch a policy, or random actions, in a simulator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.options import AsJson, Checkpoint, RunsDir, Trust, writable_file
from muster.cli.screen import console, figure, print_json, show_notice
from muster.errors import InputError
from muster.experiment.loading import load_experiment
from muster.experiment.quantities import LARGEST_SEED, counted
from muster.extras import how_to_install, is_installed
from muster.files.ownership import require_own
from muster.runs.finding import find_checkpoint, is_run, require_own_run
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import read_experiment

if TYPE_CHECKING:
    from muster.experiment.schema import Experiment
    from muster.stepping.live import LiveSimulator

_DEFAULT_FRAMES_PER_SECOND = 30
_EVEN_SIZES = 2


def play(
    target: Annotated[
        str | None, typer.Argument(metavar="RUN|FILE|ID", help="A run, or a simulator for random actions.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 1,
    video: Annotated[Path | None, typer.Option(help="Record the episodes to this file, .mp4 or .gif.")] = None,
    render: Annotated[bool, typer.Option("--render", help="Show the simulator's own window.")] = False,
    checkpoint: Checkpoint = "best",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the episodes.")] = 0,
    replay: Annotated[
        Path | None, typer.Option(help="Repeat a failure: a file such as runs/NAME/failures/0001.json.")
    ] = None,
    runs_dir: RunsDir = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Let a run's policy act, or random actions in a simulator, and print each episode's return.

    With --replay, repeat a failure of the simulator step by step, in this process and so under any debugger.
    """
    if (target is None) == (replay is None):
        raise InputError("give either a run, file or id to play, or --replay FILE")
    if replay is not None:
        _replay(replay, trust=trust)
        return
    assert target is not None
    if video and render:
        raise InputError("--video and --render: give one of them")
    if video:
        writable_file("--video", video, (".mp4", ".gif"))
        if not is_installed("video"):
            raise InputError(f"--video needs an extra{how_to_install('video')}")

    from muster.engines.engine import rules_of
    from muster.simulators.masks import mask_in, random_action
    from muster.stepping.episodes import play
    from muster.stepping.failures import simulator_error
    from muster.stepping.here import called_here
    from muster.stepping.live import FailedCallError, LiveSimulator

    experiment, policy = _find(target, checkpoint, folder_of_runs(runs_dir), trust=trust)
    live = LiveSimulator(experiment.simulator(), rules_of(experiment))
    frames: list[Any] = []
    on_step: Callable[[], None] = (lambda: frames.append(live.render())) if video else (lambda: None)

    def act(observation: Any, info: Any) -> Any:
        if policy is None:
            return random_action(live.env.action_space, observation, info)
        return policy.act(observation, mask=mask_in(info))

    begin_episode = policy.begin_episode if policy else lambda: None
    played = []
    screen = console()
    try:
        with called_here(experiment.env.step_timeout):
            _build(live, experiment.env.id, "rgb_array" if video else "human" if render else None)
            live.env.action_space.seed(seed)
            for number, episode in enumerate(play(live, act, episodes, seed, on_step, begin_episode), start=1):
                played.append(episode)
                if not as_json:
                    screen.print(
                        f"episode {number}: return {figure(episode.total)}, {counted(episode.length, 'step')}"
                    )
            rate = live.env.metadata.get("render_fps", _DEFAULT_FRAMES_PER_SECOND)
            with suppress(FailedCallError):
                live.close()
    except FailedCallError as error:
        if video or render:
            _require_packages_to_draw(error.raised, experiment.env.id)
        raise simulator_error(f"the simulator failed: {error.failure}", error.failure) from None
    if video:
        _write_video(video, frames, rate)
    if as_json:
        print_json({"returns": [e.total for e in played], "lengths": [e.length for e in played]})
    elif video:
        console().print(f"wrote {video}")


def _replay(path: Path, *, trust: bool) -> None:
    from muster.stepping.replay import read_recorded, replay

    require_own([path], f"--replay {path}", trust=trust)
    recorded = read_recorded(path)
    screen = console()
    screen.print(f"recorded: {recorded.error} (in {recorded.call}, seed {recorded.seed}, step {recorded.step})")
    for line in replay(recorded):
        screen.print(line)
        sys.stdout.flush()
    screen.print("it did not fail this time")


def _find(target: str, checkpoint: str, runs: Path, *, trust: bool) -> tuple[Experiment, Any]:
    """Return the experiment, and the policy if the target is a run."""
    from muster.policies import load_policy

    if not is_run(target, runs):
        return load_experiment(target).experiment, None
    folder, path = find_checkpoint(target, checkpoint, runs, show_notice)
    require_own_run(folder, [path], f"play {target}", trust=trust)
    return read_experiment(folder, path, show_notice), load_policy(path, trust=trust)


def _build(live: LiveSimulator, name: str, render_mode: str | None) -> None:
    if render_mode is not None:
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    live.build(render_mode)
    if live.env.render_mode != render_mode and render_mode is not None:
        modes = ", ".join(live.env.metadata.get("render_modes", [])) or "none"
        raise InputError(f"{name}: does not render as {render_mode!r}; it has: {modes}")


def _require_packages_to_draw(error: BaseException | None, name: str) -> None:
    """Say what to install if that is why a simulator cannot be drawn; some import it only when they draw."""
    import gymnasium

    if isinstance(error, gymnasium.error.DependencyNotInstalled | ImportError):
        raise InputError(f"{name}: cannot be drawn: {error}{how_to_install('video')}") from None


def _write_video(path: Path, frames: list[Any], frames_per_second: int) -> None:
    import imageio.v3 as imageio

    options: dict[str, Any] = {"fps": frames_per_second, "macro_block_size": _EVEN_SIZES}
    if path.suffix == ".gif":
        options = {"loop": 0, "duration": 1000 / frames_per_second}
    try:
        imageio.imwrite(path, frames, **options)
    except OSError as error:
        raise InputError(f"--video {path}: cannot be written: {error}") from None
