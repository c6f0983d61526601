"""A run's own Ray: nobody else reaches its ports, files or token; settings for another Ray do not disturb it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from muster.clusters.local import ray_for
from muster.stepping.worker_signals import outlive_signals
from tests.commands import MUSTER, environment

NOBODY = 65534
LOOPBACK = ("127.0.0.1", "::ffff:127.0.0.1", "::1")
REACH = """
import os, socket, sys
os.setgroups([])
os.setgid({nobody})
os.setuid({nobody})
for place, folders, files in os.walk(sys.argv[1]):
    print("reached", place, folders, files)
for name in sys.argv[2:]:
    try:
        open(name).close()
    except IsADirectoryError:
        print("reached", name)
    except OSError as error:
        assert error.errno == 13, error
        continue
    print("reached", name)
"""


@pytest.fixture(scope="module")
def own_ray() -> Iterator[Path]:
    """A Ray of our own with an actor; gives its temporary folder."""
    import ray

    with ray_for(2, show_worker_output=False):
        actor = ray.remote(num_cpus=1)(_Actor).remote()
        ray.get(actor.answer.remote())
        yield Path(ray._private.worker._global_node.get_session_dir_path()).parents[1]


class _Actor:
    def answer(self) -> int:
        return 1

    def end_a_program(self) -> int:
        """Outlive signals as a worker does; return how a program ended that is terminated, as simulators do."""
        outlive_signals()
        signal.raise_signal(signal.SIGTERM)
        program = subprocess.Popen(["sleep", "60"])
        program.terminate()
        return program.wait(timeout=10)


def _of_ray() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [psutil.Process(), *children]


def test_a_worker_outlives_signals_and_ends_programs_of_its_simulators(own_ray: Path) -> None:
    import ray

    actor = ray.remote(num_cpus=0)(_Actor).remote()
    assert ray.get(actor.end_a_program.remote()) == -signal.SIGTERM
    assert ray.get(actor.answer.remote()) == 1


def test_all_ports_are_on_loopback(own_ray: Path) -> None:
    listening = [
        (process.name(), connection.laddr)
        for process in _of_ray()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {"gcs_server", "raylet"} <= {name for name, _ in listening}
    assert not [(name, address) for name, address in listening if address.ip not in LOOPBACK]


def test_no_port_answers_without_the_token(own_ray: Path) -> None:
    import ray

    address = ray.get_runtime_context().gcs_address
    ask = "from ray._raylet import GcsClient\nprint(GcsClient(address=%r).internal_kv_keys(b'', None, timeout=5))"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    for mode in ("disabled", "token"):
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                [sys.executable, "-c", ask % address],
                env={**kept, "RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": "0" * 64, "HOME": home},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        assert done.returncode, done.stdout
        assert "nauthenticated" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_reaches_no_file_and_no_socket(own_ray: Path) -> None:
    paths = [str(path) for path in own_ray.rglob("*")]
    sockets = [path for path in paths if Path(path).is_socket()]
    assert len(sockets) >= 2 and str(own_ray / "token") in paths
    done = subprocess.run(
        [sys.executable, "-c", REACH.format(nobody=NOBODY), str(own_ray), *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert own_ray.stat().st_mode & 0o077 == 0
    shared = [path for path in Path("/dev/shm").iterdir() if path.stat().st_mtime > own_ray.stat().st_ctime]
    assert not [path for path in shared if path.stat().st_mode & 0o077 and path.owner() == "root"]


@pytest.mark.parametrize(
    "foreign",
    [
        {"RAY_AUTH_TOKEN": "1" * 64},
        {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN_PATH": "/no/token"},
        {"RAY_TMPDIR": "/no/folder", "RAY_USE_TLS": "1", "RAY_ADDRESS": "local"},
    ],
    ids=lambda foreign: next(iter(foreign)),
)
@pytest.mark.long
def test_settings_for_another_ray_do_not_disturb(foreign: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("2" * 64)
    command = [MUSTER, "train", "CartPole-v1", "--workers", "2", "--stop-iterations", "1", "--quiet"]
    done = subprocess.run(
        list(map(str, command)),
        cwd=tmp_path,
        env={**environment(), "HOME": str(tmp_path), **foreign},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_users_own_settings_come_back(monkeypatch: pytest.MonkeyPatch, own_ray: Path) -> None:
    from muster.clusters.local import _environment

    monkeypatch.setenv("RAY_AUTH_TOKEN", "mine")
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    with _environment({"RAY_USAGE_STATS_ENABLED": "0"}):
        assert "RAY_AUTH_TOKEN" not in os.environ
    assert os.environ["RAY_AUTH_TOKEN"] == "mine"
    assert "RAY_USAGE_STATS_ENABLED" not in os.environ


def test_a_socket_path_is_short_enough(own_ray: Path) -> None:
    sockets = [path for path in own_ray.rglob("*") if path.is_socket()]
    assert max(len(os.fsencode(path)) for path in sockets) <= 107


@pytest.mark.long
def test_a_handler_of_term_is_kept_while_ray_is_there_and_after(tmp_path: Path) -> None:
    script = (
        "import os, signal\n"
        "from muster.clusters.local import ray_for\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('heard', flush=True))\n"
        "with ray_for(1, show_worker_output=False):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "heard\nheard\n"), done.stderr
