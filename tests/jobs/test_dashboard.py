"""Ray's dashboard of a run: where it is recorded and found, the way to it, and what the command says."""

from __future__ import annotations

import http.server
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import webbrowser
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from muster.clusters.launching.dashboard_record import DashboardRecord, read_dashboard, write_dashboard
from muster.clusters.named import FoundCluster, NamedCluster
from muster.errors import InputError, JobError, OwnershipError
from muster.jobs.dashboard import tensorboard
from muster.jobs.dashboard.find_dashboard import find_dashboard, find_folder, why_none
from muster.jobs.dashboard.hop import hop
from muster.jobs.dashboard.page import await_page, free_port, page_shown
from muster.jobs.dashboard.tensorboard import open_tensorboard
from muster.jobs.delivery import carry_out
from muster.jobs.folder import JobFolder
from muster.jobs.places.record import Elsewhere, HostRecord, RunElsewhere, write_record
from muster.jobs.places.ssh import _only
from muster.jobs.schedulers.local import directives
from muster.jobs.schedulers.model import Job
from muster.jobs.submission import plan_command
from muster.jobs.submission_plan import SubmitOptions
from muster.runs.folder import RunFolder
from muster.runs.status import StatusFile
from tests.commands import MUSTER, environment, muster, start_muster, wait_until
from tests.jobs.conftest import Program

HERE = socket.gethostname()
TOKEN = "0123456789abcdef" * 4
SSH_THAT_REFUSES = "#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n"
SSH_THAT_IS_LOST = "#!/bin/sh\necho muster-ready\necho 'Connection to node7 closed.' >&2\nsleep 0.3\nexit 255\n"
SSH_THAT_LETS_IN = "#!/bin/sh\necho welcome\necho muster-ready\nexec cat >/dev/null\n"


def record(port: int = 8265, host: str = HERE, hostname: str = HERE) -> DashboardRecord:
    return DashboardRecord(host, hostname, port, TOKEN)


def launched(run: Path, name: str = "one") -> Path:
    folder = run / "launches" / name
    folder.mkdir(parents=True)
    return folder


def trained(run: Path, **status: object) -> RunFolder:
    """Make the folder of a run whose heartbeat is fresh."""
    run.mkdir(parents=True)
    (run / "experiment.toml").write_text('[env]\nid = "CartPole-v1"\n')
    StatusFile(RunFolder(run).status, run.name).close(state="running", **status)
    return RunFolder(run)


def submitted(*, dashboard: bool) -> JobFolder:
    cluster = NamedCluster.model_validate({"scheduler": "slurm", "dashboard": dashboard})
    plan = plan_command(["true"], SubmitOptions(FoundCluster("slurm", cluster, "test"), Path.cwd() / "runs"))
    carry_out(plan)
    return plan.job


class Page(http.server.BaseHTTPRequestHandler):
    """Answers anything with 401, as Ray's dashboard does without a token."""

    def do_GET(self) -> None:
        """Refuse."""
        self.send_response(401)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


class Browser:
    """Notes what it is to open."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def open(self, address: str) -> None:
        """Note it."""
        self.shown.append(address)


@pytest.fixture
def page() -> Iterator[int]:
    """The port of a page on the loopback."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def put_ssh(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put another ssh on PATH, which notes its arguments."""
    program = folder / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(script.replace("\n", f'\necho "$@" >> {folder}/arguments\n', 1))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_where_it_is_is_for_its_owner_s_eyes_alone(tmp_path: Path) -> None:
    write_dashboard(launch := launched(tmp_path), record())
    assert read_dashboard(launch) == record()
    assert oct((launch / "dashboard").stat().st_mode)[-3:] == "700"
    assert {oct(path.stat().st_mode)[-3:] for path in (launch / "dashboard").iterdir()} == {"600"}


def test_a_record_that_others_can_write_is_refused(tmp_path: Path) -> None:
    write_dashboard(launch := launched(tmp_path), record())
    launch.chmod(0o777)
    with pytest.raises(OwnershipError, match="can be changed by others"):
        read_dashboard(launch)


@pytest.mark.parametrize("change", [{"host": "-oProxyCommand=true"}, {"port": 0}, {"port": 70000}, {"host": ""}])
def test_a_damaged_record_is_none(change: dict[str, object], tmp_path: Path) -> None:
    write_dashboard(launch := launched(tmp_path), replace(record(), **change))  # type: ignore[arg-type]
    assert read_dashboard(launch) is None


def test_the_newest_launch_is_found_until_it_ends(tmp_path: Path) -> None:
    write_dashboard(old := launched(tmp_path, "old"), record(1111))
    write_dashboard(new := launched(tmp_path, "new"), record(2222))
    os.utime(old / "dashboard", (1, 1))
    found = find_dashboard(tmp_path)
    assert found is not None and found.record.port == 2222 and found.is_here and found.is_up()
    (new / "dashboard" / "where.json").unlink()
    assert not found.is_up()


def test_a_launch_by_hand_is_found_by_the_run_s_status(tmp_path: Path) -> None:
    run = trained(tmp_path / "runs" / "a", launch="alone-1")
    write_dashboard(launched(tmp_path / "runs", "alone-1"), record(3333))
    found = find_dashboard(run.path)
    assert found is not None and found.record.port == 3333
    StatusFile(run.status, "a").close(state="finished", launch="alone-1")
    assert find_dashboard(run.path) is None


def test_why_there_is_none(project: Path, program: Program) -> None:
    program("sbatch", "echo 7")
    program("squeue", "exit 1")
    assert "--dashboard" in why_none(submitted(dashboard=False).path)
    assert "not up: the run is unknown" in why_none(submitted(dashboard=True).path)
    assert "muster launch --dashboard" in why_none(trained(project / "runs" / "plain").path)
    muster("submit", "exp.toml", "--on", "slurm", "--seeds", "2", "--dashboard", "--name", "s", cwd=project)
    assert "which one? s/seed-0, s/seed-1" in why_none(project / "runs" / "s")


def test_submit_has_a_flag_for_it(project: Path) -> None:
    done = muster("submit", "--on", "local", "--dashboard", "--dry-run", "--", "true", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "muster launch --cluster" in done.stdout
    again = muster("submit", "--on", "local", "--dry-run", "--", "true", cwd=project)
    assert "muster launch" not in again.stdout


@pytest.mark.long
def test_a_launch_says_where_its_dashboard_is_while_it_lives(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp_cors")
    look = "cat runs/launches/*/dashboard/where.json; ls -l runs/launches/*/dashboard"
    done = muster("launch", "--dashboard", "--cpus", "1", "--", "sh", "-c", look, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout[: done.stdout.index("}") + 1])
    assert (told["hostname"], len(told["token"])) == (HERE, 64)
    assert "-rw-------" in done.stdout
    assert f"dashboard: address 127.0.0.1:{told['port']} on {HERE}" in done.stderr
    assert told["token"] not in done.stderr
    assert not list(tmp_path.rglob("where.json"))


def test_on_another_system_than_linux_it_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("a", NamedCluster.model_validate({"scheduler": "local", "dashboard": True}))
    assert directives(job) == []
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(InputError, match="needs Linux"):
        directives(job)


@pytest.mark.long
def test_a_job_on_this_machine_can_be_looked_at(project: Path) -> None:
    done = muster(
        "submit",
        "exp.toml",
        "--on",
        "local",
        "--dashboard",
        "--name",
        "a",
        "--set",
        "stop.iterations=99999",
        cwd=project,
    )
    assert done.returncode == 0, done.stderr
    try:
        wait_until(lambda: find_dashboard(project / "runs" / "a") is not None, "the dashboard", seconds=90)
        process = start_muster("dashboard", "a", cwd=project, new_session=True)
        assert process.stdout is not None
        address = process.stdout.readline().split()[2]
        told = json.loads(muster("dashboard", "a", "--json", cwd=project).stdout)
        assert address == f"http://127.0.0.1:{told['port']}"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{address}/api/version")
        request = urllib.request.Request(
            f"{address}/api/version", headers={"Authorization": f"Bearer {told['token']}"}
        )
        assert urllib.request.urlopen(request).status == 200
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 0
    finally:
        muster("cancel", "a", cwd=project)


def test_missing_packages_are_named_without_importing_ray() -> None:
    code = (
        "import sys\nfrom muster.clusters.launching.launch import require_dashboard\n"
        "require_dashboard()\nassert 'ray' not in sys.modules\n"
        "sys.modules['aiohttp_cors'] = None\nrequire_dashboard()\n"
    )
    pytest.importorskip("aiohttp_cors")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "InputError: --dashboard: the packages of Ray's dashboard are not installed" in done.stderr
    assert "pip install '.[ray]'" in done.stderr


def test_a_port_that_is_taken_is_refused(page: int) -> None:
    with pytest.raises(InputError, match=f"--port {page}: cannot be used"):
        free_port(page)
    assert free_port(wanted := free_port()) == wanted


def test_a_page_is_waited_for_and_a_loss_ends_the_waiting(page: int) -> None:
    await_page(page, "/", lambda: None)
    with pytest.raises(JobError, match="lost it"):
        await_page(free_port(), "/", lambda: "lost it")
    with pytest.raises(JobError, match="did not answer within"):
        await_page(free_port(), "/", lambda: None, seconds=0.5)


@pytest.mark.parametrize(
    ("environ", "is_shown"),
    [
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "w"}, True),
        ({}, False),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "x"}, False),
    ],
)
def test_a_browser_is_opened_only_at_a_screen(
    environ: dict[str, str], is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, terminal_browser = Browser(), webbrowser.GenericBrowser("lynx")
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    monkeypatch.setattr(sys, "platform", "linux")
    with page_shown("http://127.0.0.1:1", environ):
        assert [_leads_to(file) for file in browser.shown] == (["http://127.0.0.1:1"] if is_shown else [])
    shown = list(browser.shown)
    monkeypatch.setattr(terminal_browser, "open", browser.open)
    monkeypatch.setattr(webbrowser, "get", lambda: terminal_browser)
    with page_shown("http://127.0.0.1:2", environ):
        assert browser.shown == shown


def _leads_to(file: str) -> str:
    found = re.search(r"url=([^\"]+)", Path(urlsplit(file).path).read_text())
    return found[1] if found else ""


def test_ssh_that_is_refused_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_ssh(tmp_path, SSH_THAT_REFUSES, monkeypatch)
    with (
        pytest.raises(JobError, match=r"node7: ssh to it is refused .*Permission denied") as error,
        hop("node7", 8265, "127.0.0.1:1234", may_ask=False),
    ):
        pass
    assert "try: ssh node7 true" in str(error.value)


def test_a_hop_ends_with_its_caller_and_its_loss_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_ssh(tmp_path, SSH_THAT_IS_LOST, monkeypatch)
    with hop("node7", 8265, "127.0.0.1:1234", may_ask=False) as way:
        wait_until(lambda: way.loss() is not None, "the loss", seconds=10)
        assert way.loss() == "node7: the connection was lost: Connection to node7 closed."
    words = (tmp_path / "arguments").read_text()
    assert "-L 127.0.0.1:1234:127.0.0.1:8265 node7" in words
    assert "-S none" in words, "a shared connection would keep the port"


def test_a_hop_is_left_by_a_caller_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_ssh(tmp_path, SSH_THAT_LETS_IN.replace("welcome", f"welcome; echo $$ > {tmp_path}/pid"), monkeypatch)
    code = (
        "import time\nfrom muster.jobs.dashboard.hop import hop\n"
        "with hop('node7', 1, '127.0.0.1:2', may_ask=False): print('in', flush=True); time.sleep(60)\n"
    )
    ours, theirs = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", code], stdin=ours, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    assert is_alive(int((tmp_path / "pid").read_text()))
    process.kill()
    process.communicate()
    wait_until(lambda: not is_alive(int((tmp_path / "pid").read_text())), "the end of ssh", seconds=10)
    os.close(theirs)
    os.close(ours)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _write_curve(run: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(run / "tensorboard"))
    writer.add_event(Event(step=1, summary=Summary(value=[Summary.Value(tag="return/mean", simple_value=1.0)])))
    writer.close()


def _curves(address: str, count: int) -> list[str]:
    """Return the names of the curves, once there are so many."""
    found: list[str] = []

    def are_there() -> bool:
        with urllib.request.urlopen(f"{address}/data/runs") as answer:
            found[:] = json.load(answer)
        return len(found) == count

    wait_until(are_there, f"{count} curves, not {found}")
    return sorted(found)


def test_curves_have_the_names_of_their_runs_and_returns_come_first(tmp_path: Path) -> None:
    _write_curve(tmp_path / "alone")
    _write_curve(tmp_path / "house" / "seed-0")
    with open_tensorboard(tmp_path / "alone") as address:
        assert _curves(address, 1) == ["alone"]
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(tensorboard.with_returns_first(address)).query)
        assert json.loads(query["pinnedCards"][0])[0] == {"plugin": "scalars", "tag": "return/mean"}
    with open_tensorboard(tmp_path) as address:
        assert _curves(address, 2) == ["alone", "house/seed-0"]
        _write_curve(tmp_path / "house" / "seed-1")  # begins while TensorBoard is open
        assert _curves(address, 3) == ["alone", "house/seed-0", "house/seed-1"]


def test_the_folder_of_several_runs_is_found(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name in ("seed-0", "seed-1"):
        folder = runs / "house" / name
        folder.mkdir(parents=True)
        for file in ("experiment.toml", "status.json"):
            (folder / file).write_text("{}")
    assert find_folder("house", runs) == runs / "house"
    assert find_folder(str(runs), runs) == runs
    with pytest.raises(InputError, match="no run 'nothing'"):
        find_folder("nothing", runs)


def test_tensorboard_listens_here_alone_and_ends_with_its_caller(tmp_path: Path) -> None:
    with open_tensorboard(tmp_path) as address:
        assert address.startswith("http://127.0.0.1:")
        port = int(address.rpartition(":")[2])
        await_page(port, "/data/runs", lambda: None)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_only_curves_are_fetched_and_they_grow_in_place(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    files = [
        "tensorboard/events",
        "seed-1/tensorboard/events",
        "metrics.csv",
        "code/tensorboard/x",
        "checkpoints/1/p",
    ]
    for name in files:
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text("one")
    command = ["rsync", *_only("tensorboard"), f"{there}/", f"{here}/"]
    subprocess.run(command, check=True)
    assert {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()} == set(files[:2])
    before = (here / files[0]).stat().st_ino
    (there / files[0]).write_text("one two")
    subprocess.run(command, check=True)
    assert (here / files[0]).read_text() == "one two"
    assert (here / files[0]).stat().st_ino == before, "TensorBoard has the file open"


def test_a_fetch_that_fails_is_said_once_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[str] = []
    turns = iter([JobError("node1: lost"), JobError("node1: lost"), None])

    class Failing:
        def fetch(self, run: RunElsewhere, target: Path, *, only: str | None = None) -> None:
            assert only == "tensorboard"
            if (error := next(turns, None)) is not None:
                raise error

    monkeypatch.setattr(tensorboard, "find_place", lambda record: Failing())
    monkeypatch.setattr(tensorboard, "FIRST_FETCH_SECONDS", 0.05)
    host = {"node1": HostRecord("/there/a", "python3")}
    run = RunElsewhere(tmp_path, Elsewhere("ssh", "mine", "ssh", host, {"scheduler": "ssh", "hosts": ["node1"]}))
    with tensorboard.kept_up_to_date(run, tmp_path, notices.append):
        wait_until(lambda: len(notices) == 2, "both notices", seconds=10)
    assert notices == ["curves cannot be fetched now: node1: lost", "fetching new curves again"]


def test_a_host_that_does_not_let_in_is_said_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_ssh(tmp_path, SSH_THAT_REFUSES, monkeypatch)
    write_dashboard(launched(trained(tmp_path / "runs" / "a", launch="x").path), record(1, "node7", "node7"))
    done = muster("dashboard", "a", cwd=tmp_path)
    assert done.returncode == 1
    assert "node7: ssh to it is refused from this machine: Permission denied" in done.stderr
    assert "TensorBoard has no password" in done.stderr


def test_a_run_here_needs_no_tunnel_and_ctrl_c_ends_all(page: int, tmp_path: Path) -> None:
    run = trained(tmp_path / "runs" / "a")
    write_dashboard(launch := launched(run.path), record(page))
    process = start_muster("dashboard", "a", cwd=tmp_path, new_session=True)
    assert process.stdout is not None
    lines = [process.stdout.readline(), process.stdout.readline()]
    assert lines[0].startswith(f"Ray's dashboard: http://127.0.0.1:{page} ")
    assert lines[1].startswith("TensorBoard: http://127.0.0.1:")
    (launch / "dashboard" / "where.json").unlink()
    time.sleep(2.5)
    process.send_signal(signal.SIGINT)
    rest, notices = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Ray has ended, and its dashboard with it" in notices
    assert "closed; the run continues" in notices
    assert TOKEN not in "".join([*lines, rest, notices])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(lines[1].rpartition(":")[2]))) != 0


def test_the_token_is_shown_on_a_terminal(page: int, tmp_path: Path) -> None:
    write_dashboard(launched(trained(tmp_path / "runs" / "a").path), record(page))
    ours, theirs = pty.openpty()
    command = [str(MUSTER), "dashboard", "a", "--no-browser"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"Ctrl-C" not in shown:
        shown += os.read(ours, 4096)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 143
    os.close(ours)
    assert f"it asks for a token: {TOKEN}" in shown.decode()


def test_json_says_where_it_is(tmp_path: Path) -> None:
    run = trained(tmp_path / "runs" / "a")
    nothing = json.loads(muster("dashboard", "a", "--json", cwd=tmp_path).stdout)
    assert list(nothing) == ["run", "host", "port", "token", "reason"]
    assert nothing["token"] is None and "was not started with this run" in nothing["reason"]
    write_dashboard(launched(run.path), record(4444, "user@node9", "node9"))
    told = json.loads(muster("dashboard", "a", "--json", cwd=tmp_path).stdout)
    assert (told["host"], told["port"], told["token"], told["reason"]) == ("user@node9", 4444, TOKEN, "")


def test_another_port_than_that_of_a_dashboard_here_is_refused(page: int, tmp_path: Path) -> None:
    write_dashboard(launched(trained(tmp_path / "runs" / "a").path), record(page))
    done = muster("dashboard", "a", "--port", str(free_port()), cwd=tmp_path)
    assert done.returncode == 2
    assert f"is on this machine already, at port {page}" in done.stderr


def test_of_a_ray_that_exists_the_address_is_its_own(tmp_path: Path) -> None:
    host = {"http://127.0.0.1:8265": HostRecord("/there/a", "python3")}
    write_record(tmp_path / "runs" / "a", Elsewhere("ray", "cloud", "ray", host, {"scheduler": "ray"}))
    process = start_muster("dashboard", "a", cwd=tmp_path, new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "Ray's dashboard: http://127.0.0.1:8265\n"
    process.kill()
    process.communicate()
