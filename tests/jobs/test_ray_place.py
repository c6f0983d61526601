"""The parts of a run on a Ray that need no Ray: what is unpacked here, what is shown, what is packed there."""

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.errors import JobError
from muster.jobs.becoming import with_this_python
from muster.jobs.folder import JobFolder, Order
from muster.jobs.places import ray_agent
from muster.jobs.places.ray import _marks
from muster.jobs.places.ray_jobs import Shown, marked, write_archive
from muster.jobs.places.unpacking import unpack
from muster.jobs.submission_plan import Plan
from muster.simulators import shipped_code


def archive_of(folder: Path, *members: tuple[str, dict[str, Any]]) -> Path:
    path = folder / "archive.tar"
    with tarfile.open(path, "w") as tar:
        for name, values in members:
            member = tarfile.TarInfo(name)
            content = values.get("content", b"")
            member.size = len(content)
            for key in values.keys() - {"content"}:
                setattr(member, key, values[key])
            tar.addfile(member, io.BytesIO(content))
    return path


HOSTILE: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "above": [("../outside", {"content": b"x"})],
    "absolute": [("/tmp/outside-of-a-run", {"content": b"x"})],
    "link out": [("link", {"type": tarfile.SYMTYPE, "linkname": "../.."})],
    "absolute link": [("link", {"type": tarfile.SYMTYPE, "linkname": "/etc"})],
    "through a link": [
        ("inner/keep", {"content": b""}),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "inner"}),
        ("link/file", {"content": b"x"}),
    ],
    "device": [("null", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
    "fifo": [("fifo", {"type": tarfile.FIFOTYPE})],
    "hard link": [("hard", {"type": tarfile.LNKTYPE, "linkname": "elsewhere.json"})],
    "our own record": [("elsewhere.json", {"content": b"{}"})],
    "our own record, spelled otherwise": [("x/../elsewhere.json", {"content": b"{}"})],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_does_not_belong_into_a_run_is_refused(tmp_path: Path, name: str) -> None:
    target = tmp_path / "outer" / "run"
    target.mkdir(parents=True)
    (target / "elsewhere.json").write_text("ours")
    with pytest.raises(JobError, match=r"http://ray.*wants to write"):
        unpack(archive_of(tmp_path, *HOSTILE[name]), target, "http://ray")
    assert (target / "elsewhere.json").read_text() == "ours"
    assert list(target.parent.iterdir()) == [target]
    assert not (target / "inner" / "file").exists()


def test_permissions_that_come_along_are_harmless(tmp_path: Path) -> None:
    unpack(archive_of(tmp_path, ("program", {"content": b"x", "mode": 0o6777})), tmp_path / "run", "http://ray")
    assert (tmp_path / "run" / "program").stat().st_mode & 0o7777 == 0o755


def test_a_pointer_names_only_a_checkpoint_that_is_here(tmp_path: Path) -> None:
    link = {"type": tarfile.SYMTYPE, "linkname": "00000010"}
    target = tmp_path / "run"
    unpack(archive_of(tmp_path, ("checkpoints/latest", dict(link))), target, "http://ray")
    assert not (target / "checkpoints" / "latest").is_symlink()
    unpack(
        archive_of(
            tmp_path, ("checkpoints/00000010/state", {"content": b"x"}), ("checkpoints/latest", dict(link))
        ),
        target,
        "http://ray",
    )
    assert (target / "checkpoints" / "latest" / "state").read_bytes() == b"x"


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    (tmp_path / "archive.tar").write_bytes(b"no archive" * 100)
    with pytest.raises(JobError, match="cannot be read"):
        unpack(tmp_path / "archive.tar", tmp_path / "run", "http://ray")


@pytest.fixture
def agent(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Gives an order to the agent, as a short job does."""

    def give(**order: Any) -> dict[str, Any]:
        (tmp_path / ray_agent.ORDER).write_text(json.dumps(order))
        command = [sys.executable, "-m", ray_agent.__name__]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        answer: dict[str, Any] = json.loads(marked(done.stdout, ray_agent.ANSWER) or "")
        return answer

    return give


def fetch(
    agent: Callable[..., dict[str, Any]], folder: Path, target: Path, *, only: str | None = None
) -> list[str]:
    """Pack and unpack a folder; return the names of what has travelled."""
    length = 10_000
    answer = agent(do="pack", folder=str(folder), here=_marks(target), only=only, length=length)
    content = base64.b64decode(answer["data"])
    while len(content) < answer["size"]:
        part = agent(do="part", file=answer["file"], offset=len(content), length=length)
        content += base64.b64decode(part["data"])
    archive = folder.parent / "fetched.tar"
    archive.write_bytes(content)
    unpack(archive, target, "http://ray")
    with tarfile.open(archive) as tar:
        return tar.getnames()


def test_only_what_is_new_travels(tmp_path: Path, agent: Callable[..., dict[str, Any]]) -> None:
    run, here = tmp_path / "there" / "run", tmp_path / "here"
    (run / "checkpoints" / "00000010").mkdir(parents=True)
    (run / "checkpoints" / "00000010" / "state").write_bytes(os.urandom(30_000))
    (run / "checkpoints" / "latest").symlink_to("00000010")
    (run / "checkpoints" / "best").symlink_to("00000005")
    (run / "metrics.csv").write_text("a")
    (run / "lock").touch()
    (run / ".status.json.17").touch()
    here.mkdir()
    names = fetch(agent, run, here)
    assert names == ["checkpoints/00000010/state", "metrics.csv", "checkpoints/latest"]
    assert (here / "checkpoints" / "latest" / "state").read_bytes() == (
        run / "checkpoints" / "00000010" / "state"
    ).read_bytes()
    (run / "metrics.csv").write_text("ab")
    assert fetch(agent, run, here) == ["metrics.csv", "checkpoints/latest"]
    (run / "tensorboard").mkdir()
    (run / "tensorboard" / "events").write_text("curve")
    (run / "metrics.csv").write_text("abc")
    assert fetch(agent, run, here, only="tensorboard") == ["tensorboard/events"]
    assert not list(run.parent.glob(".fetch-*"))


def test_a_folder_that_is_gone_is_told(tmp_path: Path, agent: Callable[..., dict[str, Any]]) -> None:
    answer = agent(do="pack", folder=str(tmp_path / "none"), here={}, only=None, length=100)
    assert "is gone" in answer["failure"]


def test_only_what_is_missing_is_installed(agent: Callable[..., dict[str, Any]]) -> None:
    lines = [
        "# ours",
        "numpy",
        "numpy==0.1",
        "no-such-thing>=1",
        "ray==1.0",
        "ray[default]",
        "pytest; python_version<'3'",
    ]
    answer = agent(do="look", folder="~/.muster/ray", requirements=lines)
    assert answer["missing"] == ["numpy==0.1", "no-such-thing>=1"]
    assert answer["folder"] == str(Path.home() / ".muster" / "ray")


def test_a_command_s_output_is_shown_between_the_marks() -> None:
    written: list[str] = []
    shown = Shown(written.append)
    for part in ("Ray's own\nmuster:be", "gin\none\ntw", "o\n", "muster:end:3\nafter\n"):
        shown.take(part)
    assert (written, shown.exit_code) == (["one\n", "two\n"], 3)


def test_output_that_was_cut_off_is_read_again() -> None:
    written: list[str] = []
    shown = Shown(written.append)
    shown.take("muster:begin\none\ntw")
    shown.take_all("muster:begin\none\ntwo\nmuster:end:0\n")
    assert (written, shown.exit_code) == (["one\n", "two\n"], 0)


def test_half_an_answer_is_none() -> None:
    assert marked("muster:answer:{}", ray_agent.ANSWER) is None
    assert marked("x\nmuster:answer:{}\ny\n", ray_agent.ANSWER) == "{}"


def test_the_project_is_sent_with_its_permissions_and_below_a_folder_of_its_own(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)
    (project / "data" / "link").symlink_to(project / "run.sh")
    (project / "parcel.json").write_text("theirs")
    files = [Path("run.sh"), Path("data/link"), Path("parcel.json"), Path("removed.py")]
    write_archive(tmp_path / "run.tar.gz", {"parcel.json": "ours"}, ("project", project, files))
    with tarfile.open(tmp_path / "run.tar.gz") as tar:
        assert tar.getnames() == ["parcel.json", "project/run.sh", "project/data/link", "project/parcel.json"]
        assert tar.getmember("project/run.sh").mode == 0o755
        assert tar.getmember("project/data/link").isreg()


def test_a_worker_finds_the_code_in_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, worker = tmp_path / "head" / "code", tmp_path / "worker"
    (head / "src").mkdir(parents=True)
    (head / "slow.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", f"/elsewhere:{head}/src")
    environment = shipped_code.pack_code(head, tmp_path / "code.tar.gz")
    with tarfile.open(environment["working_dir"]) as tar:
        tar.extractall(worker, filter="data")
    for name, value in environment["env_vars"].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(worker)
    monkeypatch.setenv("MUSTER_CODE_COPY", "")
    assert shipped_code.placed(f"{head}/slow.py") == f"{head}/slow.py"
    shipped_code.settle()
    assert shipped_code.placed(f"{head}/slow.py") == f"{worker}/code/slow.py"
    assert shipped_code.placed("/usr/lib/x.py") == "/usr/lib/x.py"
    assert sys.path[0] == f"{worker}/code/src"


def test_a_run_that_is_continued_uses_the_interpreter_of_its_new_job(tmp_path: Path) -> None:
    script = (
        '#!/bin/bash\nexport PATH=/old/bin"${PATH:+:$PATH}"\n\nexec /old/bin/python -P -m muster link /runs/exp\n'
    )
    order = Order("train", "ray", "ray", ["/old/bin/python", "-P", "-m", "muster", "train", "exp.toml"])
    plan = with_this_python(Plan(JobFolder(tmp_path), order, script))
    assert plan.order.command[:2] == [sys.executable, "-P"]
    assert plan.script == script.replace("/old/bin/python", sys.executable).replace(
        "/old/bin", str(Path(sys.executable).parent)
    )
    command = with_this_python(
        Plan(JobFolder(tmp_path), Order("command", "ray", "ray", ["python", "x.py"]), script)
    )
    assert command.order.command == ["python", "x.py"]
