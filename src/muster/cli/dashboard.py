"""`muster dashboard`: Ray's dashboard and TensorBoard of a run, in a browser on this machine."""

from __future__ import annotations

import getpass
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import AsJson, Run, RunsDir
from muster.cli.screen import console, print_json, show_notice
from muster.cli.start import EXIT_CODES
from muster.errors import JobError
from muster.runs.folder import runs_dir as folder_of_runs

if TYPE_CHECKING:
    from muster.jobs.dashboard.ray_page import RayPage
    from muster.jobs.places.record import RunElsewhere

LOOK_SECONDS = 1.0
_HIGHEST_PORT = 65535


def dashboard(
    run: Run,
    port: Annotated[
        int | None,
        typer.Option(min=1024, max=_HIGHEST_PORT, help="Port for Ray's dashboard on this machine; default: any."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the addresses.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Open muster's live page instead of TensorBoard (extra serve).")
    ] = False,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Open Ray's dashboard and TensorBoard of a run, wherever it trains, until Ctrl-C.

    --json prints where Ray's dashboard is, and its token, and opens nothing.
    """
    from muster.jobs.dashboard.page import page_shown
    from muster.jobs.places.record import find_elsewhere

    directory = folder_of_runs(runs_dir)
    elsewhere = find_elsewhere(run, directory)
    if as_json:
        _print_where(run, directory, elsewhere)
        return
    try:
        with _signals_end_this(), ExitStack() as held:
            page = _open_ray(held, run, directory, elsewhere, port)
            curves = (_open_live if live else _open_tensorboard)(held, run, directory, elsewhere)
            addresses = [address for address in (page.address if page else None, curves) if address]
            if not addresses:
                raise typer.Exit(1)
            if not no_browser:
                for address in addresses:
                    held.enter_context(page_shown(address))
            show_notice("Ctrl-C closes them; the run continues")
            _stay(page, has_curves=curves is not None)
    except KeyboardInterrupt:
        show_notice("\nclosed; the run continues")


def _open_ray(
    held: ExitStack, run: str, directory: Path, elsewhere: RunElsewhere | None, port: int | None
) -> RayPage | None:
    """Open Ray's dashboard and print how to get in; if that is not possible, say why."""
    from muster.jobs.dashboard.ray_page import open_page_elsewhere

    if elsewhere is not None and elsewhere.record.kind == "ray":
        console().print(f"Ray's dashboard: {elsewhere.record.host}")
        return None
    try:
        if elsewhere is not None:
            page = held.enter_context(open_page_elsewhere(elsewhere, port))
        else:
            page = _open_here(held, run, directory, port)
    except JobError as error:
        show_notice(str(error))
        return None
    _print_page(run, page)
    return page


def _open_here(held: ExitStack, run: str, directory: Path, port: int | None) -> RayPage:
    """Open the dashboard of a run on this file system, perhaps on another host.

    Raises:
        JobError: if there is none, or its host cannot be reached.
    """
    from muster.jobs.dashboard.find_dashboard import find_dashboard, find_folder, why_none
    from muster.jobs.dashboard.ray_page import open_page

    folder = find_folder(run, directory)
    if (found := find_dashboard(folder)) is None:
        raise JobError(why_none(folder))
    page = held.enter_context(open_page(found, port))
    if not found.is_here:
        here = shlex.quote(f"{getpass.getuser()}@{socket.gethostname()}")
        line = f"ssh -N -L 127.0.0.1:{page.port}:127.0.0.1:{page.port} {here}"
        show_notice(f"from a machine with a browser: {line}")
    return page


def _print_page(run: str, page: RayPage) -> None:
    """Print the address; the token only on a terminal, for other output may be kept in a file."""
    console().print(f"Ray's dashboard: {page.address}   (on {page.host})")
    if sys.stdout.isatty():
        console().print(f"  it asks for a token: {page.token}")
    else:
        show_notice(f"it asks for a token, which `muster dashboard {shlex.quote(run)} --json` prints")
    sys.stdout.flush()


def _open_tensorboard(held: ExitStack, run: str, directory: Path, elsewhere: RunElsewhere | None) -> str | None:
    """Open TensorBoard and print its address; not on a login node, where other users could look at it."""
    from muster.jobs.dashboard.find_dashboard import find_dashboard, find_folder, is_by_scheduler
    from muster.jobs.dashboard.tensorboard import kept_up_to_date, open_tensorboard, with_returns_first

    if elsewhere is not None:
        folder = elsewhere.path / elsewhere.member
        folder.mkdir(parents=True, exist_ok=True)
        held.enter_context(kept_up_to_date(elsewhere, folder, show_notice))
    else:
        folder = find_folder(run, directory)
        found = find_dashboard(folder)
        if is_by_scheduler(folder) or (found is not None and not found.is_here):
            show_notice(
                "TensorBoard has no password, so it is not started on a login node that others use\n"
                f"    on a machine of your own: tensorboard --logdir {shlex.quote(str(folder))}"
            )
            return None
    address = held.enter_context(open_tensorboard(folder))
    console().print(f"TensorBoard: {address}")
    sys.stdout.flush()
    return with_returns_first(address)


def _open_live(held: ExitStack, run: str, directory: Path, elsewhere: RunElsewhere | None) -> str:
    """Open the live page and print its address."""
    from muster.cli.live_page import open_live_page, print_address

    address = held.enter_context(open_live_page(run, directory, elsewhere))
    print_address(address, "live page: ")
    return address


def _stay(page: RayPage | None, *, has_curves: bool) -> None:
    """Stay until there is nothing left to look at.

    Raises:
        JobError: if the connection is lost.
    """
    while page is not None or has_curves:
        time.sleep(LOOK_SECONDS)
        if page is not None and not page.is_up():
            show_notice("Ray has ended, and its dashboard with it")
            page = None
        elif page is not None and (reason := page.loss()) is not None:
            raise JobError(reason)


def _print_where(run: str, directory: Path, elsewhere: RunElsewhere | None) -> None:
    """Print where Ray's dashboard listens, for a script."""
    from muster.jobs.commands import UnansweredError
    from muster.jobs.dashboard.find_dashboard import find_dashboard, find_folder, why_none
    from muster.jobs.places.model import find_place
    from muster.jobs.places.record import last_line

    if elsewhere is not None:
        try:
            answer = find_place(elsewhere.record).run(["dashboard", elsewhere.folder, "--json"], may_ask=True)
        except UnansweredError as error:
            raise JobError(str(error)) from None
        print(last_line(answer))
        return
    folder = find_folder(run, directory)
    found = find_dashboard(folder)
    record = found.record if found else None
    print_json(
        {
            "run": str(folder),
            "host": record.host if record else None,
            "port": record.port if record else None,
            "token": record.token if record else None,
            "reason": "" if record else why_none(folder),
        }
    )


@contextmanager
def _signals_end_this() -> Iterator[None]:
    """Let the end of the terminal and SIGTERM close what is open, as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(EXIT_CODES[signal.Signals(number)])

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
