"""What is sent to hosts elsewhere, and what is kept here of runs that live there, without any host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import muster
from muster.clusters.named import FoundCluster, NamedCluster
from muster.errors import InputError, JobError, OwnershipError
from muster.experiment.loading import load_experiment
from muster.jobs.folder import JobFolder
from muster.jobs.places import host_agent, parcel, ray_agent
from muster.jobs.places.asking import read_states_elsewhere
from muster.jobs.places.connection import Connection
from muster.jobs.places.preparing import _leads_out
from muster.jobs.places.record import (
    Elsewhere,
    HostRecord,
    RunElsewhere,
    find_elsewhere,
    read_record,
    write_record,
)
from muster.jobs.places.requirements import extras_of, muster_id, required
from muster.jobs.places.shipment import host_names, plan_shipment
from muster.jobs.places.ssh import ALL_ELSE
from muster.jobs.places.submitting import (
    Departure,
    UncertainError,
    _require_enough,
    _withdrawn_on_failure,
)
from muster.jobs.request import Request, make_plan
from muster.jobs.snapshot import find_project
from muster.jobs.submission_plan import Part, SubmitOptions
from muster.runs import checkpoints
from muster.runs.folder import ELSEWHERE, RunFolder
from muster.runs.reading import read_experiment
from tests.commands import muster_here

SIMULATOR = "import gymnasium\n\n\nclass Env(gymnasium.Wrapper):\n    pass\n"


def cluster(**table: Any) -> FoundCluster:
    return FoundCluster("mine", NamedCluster.model_validate({"scheduler": "ssh", **table}), "muster.toml")


def record(**changes: Any) -> Elsewhere:
    values: dict[str, Any] = {
        "kind": "ssh",
        "cluster": "mine",
        "scheduler": "ssh",
        "hosts": {"me@node1.site": HostRecord("/home/me/.muster/mine/runs/a", "/py", "node1")},
        "table": {"scheduler": "ssh", "hosts": ["me@node1.site"]},
    }
    return Elsewhere(**{**values, **changes})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "sim.py").write_text(SIMULATOR)
    (folder / "exp.toml").write_text('[env]\nid = "sub/sim.py:Env"\n')
    monkeypatch.chdir(folder)
    return folder


def request(project: Path, **options: Any) -> Request:
    return Request(
        SubmitOptions(cluster(hosts=["node1"]), project / "runs", **options),
        target="exp.toml",
        settings=["seed=3"],
    )


def test_requirements_are_those_of_muster_here_and_of_the_project(tmp_path: Path) -> None:
    own = required(set(), None, ()).lines
    assert f"ray=={muster_version('ray')}" in own
    assert not any("torch" in line or "+" in line for line in own)
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["scipy>=1.11"]\n')
    assert required(set(), tmp_path, ()).lines == (*own, "scipy>=1.11")
    (tmp_path / "requirements.txt").write_text("# solver\npyomo\nmuster_rl[torch]>=0.1\n")
    found = required(set(), tmp_path, ()).lines
    assert "pyomo" in found and not any(line.startswith("muster") for line in found)
    assert any(line.startswith("torch==") for line in found)
    assert "scipy>=1.11" not in found
    assert required(set(), tmp_path, ["numba"]).lines == (*own, "numba")


def muster_version(name: str) -> str:
    from importlib.metadata import version

    return version(name)


def test_the_environment_depends_on_the_requirements_alone() -> None:
    assert required(set(), None, ["a"]).id == required(set(), None, ["a"]).id
    assert required(set(), None, ["a"]).id != required(set(), None, ["b"]).id
    assert muster_id().startswith(f"{muster.__version__}-")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("seed=1", set()),
        ("model.class='m.py:Net'", {"torch"}),
        ("algorithm.engine='rllib'", {"rllib"}),
    ],
)
def test_extras_are_those_that_the_experiment_needs(setting: str, expected: set[str]) -> None:
    from muster.experiment.loading import parse_set

    experiment = load_experiment("CartPole-v1", [parse_set(setting)]).experiment
    assert extras_of(experiment, dashboard=False) == expected
    assert extras_of(experiment, dashboard=True) == expected | {"ray"}
    assert extras_of(None, dashboard=False) == set()


def test_a_request_arrives_as_it_was_sent(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request(project, max_jobs=1)
    loaded = asked.load()
    files = find_project(project, project / "runs")
    packed = parcel.packed(asked, "a", loaded, files, "p-1")
    there = tmp_path / "there"
    copied = there / parcel.PROJECTS / "p-1"
    (copied / "sub").mkdir(parents=True)
    (copied / "sub" / "sim.py").write_text(SIMULATOR)
    (copied / "exp.toml").write_text((project / "exp.toml").read_text())
    (copied / "old.py").write_text("")
    (copied / "theirs.txt").write_text("")
    (there / parcel.PROJECTS / "p-1.json").write_text(json.dumps(["old.py", "exp.toml", "../outside"]))
    (there / parcel.PROJECTS / "outside").write_text("")
    part = Part(1, 2, "a-1", "s3cret", "10.0.0.1:4000")
    sent = json.loads(
        json.dumps(parcel.addressed(packed, str(there), f"{there}/runs", asked.options.cluster, part))
    )
    monkeypatch.chdir(tmp_path)
    received = parcel.unpacked(sent)
    assert not (copied / "old.py").exists()
    assert (copied / "theirs.txt").exists() and (there / parcel.PROJECTS / "outside").exists()
    assert received.options.part == part
    plan = make_plan(received)
    assert plan.job.path == there / "runs" / "a"
    assert plan.order.kind == "command"
    assert "s3cret" not in plan.script + json.dumps(plan.order.command) + json.dumps(plan.files)
    assert f"cd {there}/runs/a/code" in plan.script
    assert f'id = "{there}/runs/a/code/sub/sim.py:Env"' in plan.files["submitted.toml"]
    assert "seed = 3" in plan.files["submitted.toml"]


def test_only_the_project_is_sent(project: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(SIMULATOR)
    (project / "exp.toml").write_text('[env]\nid = "../other.py:Env"\n')
    with pytest.raises(InputError, match=r"other\.py: is outside the project"):
        plan_shipment(request(project), print)


@pytest.mark.parametrize("options", [{"snapshot": False}, {"seeds": 2}])
def test_what_cannot_be_sent_is_refused(project: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"--no-snapshot|--seeds 2"):
        plan_shipment(request(project, **options), print)


def test_hosts_are_as_many_as_are_asked_for() -> None:
    assert host_names(cluster(hosts=["a", "b", "c"], nodes=2)) == ["a", "b"]
    assert host_names(cluster(hosts=["a", "b"], remote="me@login")) == ["me@login"]
    with pytest.raises(InputError, match="needs hosts"):
        host_names(cluster())
    with pytest.raises(InputError, match="--nodes 3: mine has 2 hosts"):
        host_names(cluster(hosts=["a", "b"], nodes=3))
    with pytest.raises(InputError, match=r"--nodes 3: mine has 1 host$"):
        host_names(cluster(hosts=["a"], nodes=3))
    with pytest.raises(InputError, match="--min-nodes 3: the run has 2 hosts of mine"):
        host_names(cluster(hosts=["a", "b", "c"], nodes=2, min_nodes=3))


def test_an_agent_that_cannot_import_muster_knows_the_same_pointers() -> None:
    assert ray_agent.POINTERS == checkpoints.POINTERS


def test_a_cluster_to_clean_is_reached_by_ssh_and_its_login_node_is_no_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = muster_here("clusters", "clean", "slurm")
    assert (done.code, "--remote USER@LOGIN names its login node" in done.err) == (2, True)
    done = muster_here("clusters", "clean", "slurm", "--remote", "-oProxyCommand=touch mine")
    assert (done.code, "--remote -oProxyCommand=touch mine: expected a host" in done.err) == (2, True)
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("host", ["-oProxyCommand=touch x", "", "a b", "a\nb"])
def test_a_host_is_never_a_flag_of_ssh(host: str) -> None:
    with pytest.raises(ValueError, match="hosts"):
        NamedCluster.model_validate({"scheduler": "ssh", "hosts": [host]})
    with pytest.raises(ValueError, match="remote"):
        NamedCluster.model_validate({"scheduler": "slurm", "remote": host})


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_record(tmp_path / "a", record())
    assert read_record(tmp_path / "a") == record(submitted=read_record(tmp_path / "a").submitted)
    found = find_elsewhere("a/seed-1", tmp_path)
    assert found is not None and found.folder == "/home/me/.muster/mine/runs/a/seed-1"
    assert found.host_named("node1") == "me@node1.site"
    with pytest.raises(InputError, match=r"--host node9: not a host of this run; there are me@node1\.site"):
        found.host_named("node9")
    assert find_elsewhere("b", tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"kind": "ssh"}', '{"kind": "ftp", "hosts": {}}', "nul\0", "[" * 100_000]
)
def test_a_damaged_record_is_an_error_with_its_place(tmp_path: Path, text: str) -> None:
    write_record(tmp_path / "a", record())
    (tmp_path / "a" / ELSEWHERE).write_text(text)
    with pytest.raises(InputError, match=r"elsewhere\.json: cannot be read"):
        read_record(tmp_path / "a")


def test_a_record_with_a_flag_for_a_host_is_refused(tmp_path: Path) -> None:
    write_record(tmp_path / "a", record(hosts={"-oProxyCommand=x": HostRecord("/a", "/b")}))
    with pytest.raises(InputError, match="begins with -"):
        read_record(tmp_path / "a")


def test_a_record_that_others_can_change_is_refused(tmp_path: Path) -> None:
    write_record(tmp_path / "a", record())
    (tmp_path / "a" / ELSEWHERE).chmod(0o666)
    with pytest.raises(OwnershipError, match=r"elsewhere\.json"):
        read_record(tmp_path / "a")


def test_a_host_that_cannot_be_asked_makes_a_run_unknown(tmp_path: Path) -> None:
    write_record(tmp_path / "a", record(hosts={"nowhere.invalid": HostRecord("/runs/a", "/py")}))
    [state] = read_states_elsewhere([RunElsewhere(tmp_path / "a", read_record(tmp_path / "a"))])
    assert (state.state, state.place) == ("unknown", "nowhere.invalid")
    assert "nowhere.invalid" in state.reason
    done = muster_here("status", "--runs-dir", str(tmp_path))
    assert done.code == 0 and "unknown" in done.out
    done = muster_here("show", "a", "--runs-dir", str(tmp_path))
    assert done.code == 2 and "muster fetch a" in done.err
    done = muster_here("cancel", "a", "--runs-dir", str(tmp_path))
    assert done.code == 1 and "nowhere.invalid" in done.err


def test_a_dry_run_sends_nothing(project: Path) -> None:
    (project / "muster.toml").write_text('[clusters.mine]\nscheduler = "ssh"\nhosts = ["nowhere.invalid"]\n')
    done = muster_here("submit", "exp.toml", "--on", "mine", "--dry-run")
    assert done.code == 0, done.err
    assert "to nowhere.invalid, into ~/.muster/mine" in done.out and "nothing was sent" in done.out
    assert not (project / "runs").exists()
    done = muster_here("submit", "exp.toml", "--on", "mine")
    assert done.code == 1 and "nowhere.invalid" in done.err
    assert not (project / "runs").exists()
    done = muster_here("submit", "exp.toml", "--on", "mine", "--render", "job.sh")
    assert done.code == 2 and "--dry-run" in done.err


def test_a_fetched_run_imports_from_its_own_copy(tmp_path: Path) -> None:
    gone = "/home/me/.muster/mine/runs/a/code"
    run = tmp_path / "a"
    (run / "code" / "sub").mkdir(parents=True)
    (run / "code" / "sub" / "sim.py").write_text(SIMULATOR)
    table = f'[env]\nid = "{gone}/sub/sim.py:Env"\npaths = ["{gone}", "/elsewhere"]\n'
    (run / "experiment.toml").write_text(table)
    found = read_experiment(RunFolder(run), run, print)
    assert found.env.id == f"{run}/code/sub/sim.py:Env"
    assert found.env.paths[:2] == [f"{run}/code", "/elsewhere"]


def test_the_agent_runs_by_itself_and_says_what_is_wrong(tmp_path: Path) -> None:
    program = Path(host_agent.__file__).read_text() + "\nmain(order)\n"
    start = "import json, sys; order = json.loads(sys.stdin.buffer.readline()); exec(order.pop('program'))"

    def ask(**order: Any) -> dict[str, Any]:
        order = {**order, "program": program, "folder": str(tmp_path / "muster")}
        command = [sys.executable, "-I", "-S", "-c", start]
        done = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, check=True)
        answer: dict[str, Any] = json.loads(done.stdout.removeprefix(host_agent.ANSWER))
        return answer

    look = {
        "do": "look",
        "folders": ["projects/p"],
        "nonce": "n",
        "number": "0",
        "environment": None,
        "python": None,
        "minor": "3.11",
        "environment_id": "e",
        "muster_id": "m",
        "port_range": None,
    }
    found = ask(**look)
    assert found["version"].startswith("3.") and not found["has_environment"]
    assert (tmp_path / "muster" / "projects" / "p").stat().st_mode & 0o777 == 0o700
    assert ask(do="sharing", nonce="n") == {"numbers": [0]}
    assert "no Python found" in ask(**{**look, "python": "/nowhere/python"})["failure"]
    assert "no /nowhere/bin/python" in ask(**{**look, "environment": "/nowhere"})["failure"]
    (tmp_path / "muster" / "environments").write_text("in the way")
    failed = ask(
        do="make_environment", environment_id="e", python=sys.executable, requirements="", wheels="", project=None
    )
    assert "environments" in failed["failure"]
    assert ask(do="clean", is_default=False) == {"removed": True}
    assert not (tmp_path / "muster").exists()
    (tmp_path / "muster").mkdir()
    assert ask(do="clean", is_default=False) == {"removed": False}
    (tmp_path / "muster" / "thesis.tex").write_text("")
    assert "holds other files" in ask(**look)["failure"]
    assert ask(do="clean", is_default=False) == {"removed": False}


def test_the_folder_of_connections_is_the_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from muster.jobs.places.connection import sockets_folder

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = sockets_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    with pytest.raises(JobError, match="only you can enter"):
        sockets_folder()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(JobError, match="only you can enter"):
        sockets_folder()


def test_a_connection_of_the_users_own_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection("node1")
    connection.configured = {"controlpath": "/somewhere"}
    assert not any("ControlPath" in word for word in connection.ssh)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    connection = Connection("node1")
    connection.configured = {}
    assert f"ControlPath={tmp_path}" in " ".join(connection.ssh)


def test_a_part_is_for_the_users_eyes_and_gone_when_it_is_taken(tmp_path: Path) -> None:
    from muster.jobs.link import _take_part
    from muster.runs.files import write_text

    job = JobFolder(tmp_path)
    job.folder.mkdir()
    assert _take_part(job) == {}
    write_text(job.part, json.dumps(Part(0, 1, "a", "t", "h:1").variables), private=True)
    assert job.part.stat().st_mode & 0o777 == 0o600
    assert _take_part(job)["MUSTER_LAUNCH_TOKEN"] == "t"
    assert not job.part.exists()


def test_a_host_cannot_write_what_is_not_a_runs(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "job").mkdir(parents=True)
    here.mkdir()
    (there / "metrics.csv").write_text("rows")
    (there / "job" / "part.json").write_text("secret")
    (there / ELSEWHERE).write_text("another host")
    (there / "status.json").symlink_to("/etc/passwd")
    (here / ELSEWHERE).write_text("the host")
    subprocess.run(["rsync", *ALL_ELSE, f"{there}/", f"{here}/"], check=True)
    assert sorted(path.name for path in here.rglob("*")) == [ELSEWHERE, "job", "metrics.csv"]
    assert (here / ELSEWHERE).read_text() == "the host"


def departure(tmp_path: Path, earlier: Elsewhere | None) -> Departure:
    return Departure(tmp_path / "renamed", cluster(hosts=["node1"]), earlier, print)


def test_a_run_that_was_renamed_here_keeps_its_name_there(tmp_path: Path) -> None:
    assert departure(tmp_path, record()).name == "a"
    assert departure(tmp_path, None).name == "renamed"


def test_a_run_that_may_have_started_stays_known(tmp_path: Path) -> None:
    for error, is_known in (
        (JobError("refused"), False),
        (UncertainError("?"), True),
        (KeyboardInterrupt(), True),
    ):
        one = departure(tmp_path, None)
        write_record(one.path, record())
        with pytest.raises(type(error)), _withdrawn_on_failure(one):
            raise error
        assert (one.path / ELSEWHERE).exists() is is_known
    again = departure(tmp_path, record(cluster="before"))
    with pytest.raises(JobError), _withdrawn_on_failure(again):
        write_record(again.path, record(cluster="after"))
        raise JobError("refused")
    assert read_record(again.path).cluster == "before"


def test_a_run_is_not_continued_without_the_host_of_its_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"me@node1\.site is not ready, but has the run's checkpoints"):
        _require_enough(departure(tmp_path, record()), ["me@node1.site"], [])


def test_files_that_requirements_refer_to_are_read(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r more/base.txt\npyomo\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.txt").write_text("scipy\n")
    assert required(set(), tmp_path, ()).lines[-2:] == ("scipy", "pyomo")


def test_a_link_that_leads_out_of_the_project_is_not_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (project / "data").symlink_to(tmp_path / "data")
    (project / "inner").symlink_to(project / "sub")
    found = find_project(project, project / "runs")
    assert _leads_out(found, Path("data"))
    assert not _leads_out(found, Path("inner"))


def test_lines_for_a_host_survive_any_login_shell() -> None:
    connection = Connection("node1", ["export A='x y'", "# what a day!"], is_login=False)
    remote = connection._remote("echo $A")
    assert "\n" not in remote and "!" not in remote
    assert subprocess.run(["sh", "-c", remote], capture_output=True, text=True, check=True).stdout == "x y\n"
