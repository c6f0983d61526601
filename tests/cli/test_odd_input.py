"""Whatever is given as a file, flag or name: exit code 2, its place and what is expected; never a traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.commands import MUSTER, environment, muster_here

pytestmark = pytest.mark.timeout(30)

ENV = '[env]\nid = "CartPole-v1"\n'
FILES: dict[str, tuple[bytes, str]] = {
    "top-level": (b'algorithm = "PPO"\n' + ENV.encode(), "exp.toml:1: algorithm: 'PPO': expected a table"),
    "list": (ENV.encode() + b'[algorithm]\nname = ["PPO"]\n', "exp.toml:4: algorithm.name: no algorithm ['PPO']"),
    "number": (b"env = 3\n", "exp.toml:1: env: 3: expected a table"),
    "sections": (ENV.encode() + b"model = 1\n", "has no key 'model'"),
    "array of tables": (b"[[env]]\nid = 1\n", "expected a table"),
    "long name": (f'name = "{"n" * 300}"\n{ENV}'.encode(), "at most 100 characters"),
    "slash": (f'name = "../up"\n{ENV}'.encode(), "name: '../up': expected letters, digits"),
    "dots": (f'name = ".."\n{ENV}'.encode(), "expected letters, digits"),
    "empty name": (f'name = ""\n{ENV}'.encode(), "expected letters, digits"),
    "nul": (b'[env]\nid = "Cart\\u0000Pole"\n', "env.id: 'Cart\\x00Pole': holds a NUL"),
    "nul in config": (ENV.encode() + b'config = { a = ["\\u0000"] }\n', "env.config.a: "),
    "deep array": (b"a = " + b"[" * 5000 + b"]" * 5000, "nested too deep"),
    "deep table": (b"[" + b".".join([b"a"] * 5000) + b"]\n", "nested too deep"),
    "deep key": (b".".join([b"a"] * 5000) + b" = 1\n", "nested too deep"),
    "utf-16": (("\ufeff" + ENV).encode("utf-16-le"), "is in UTF-16, expected UTF-8"),
    "utf-16 without mark": (ENV.encode("utf-16-be"), "is in UTF-16, expected UTF-8"),
    "latin-1": (ENV.encode() + b"# \xe9\n", "exp.toml:3: byte 0xe9 is not UTF-8"),
    "binary": (bytes(range(256)), "UTF-8"),
    "digits": (b"seed = " + b"9" * 5000 + b"\n" + ENV.encode(), "not valid TOML"),
    "huge": (b"#" * (10 * 1024**2 + 1), "expected at most 10,485,760"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_experiment(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content, message = FILES[name]
    Path("exp.toml").write_bytes(content)
    for command in ("train", "check", "scale", "sweep", "play"):
        ended = muster_here(command, "exp.toml")
        assert ended.code == 2, ended
        assert message in ended.err
    assert not Path("runs").exists()


def test_a_mark_of_the_byte_order_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    file = tmp_path / "exp.toml"
    file.write_bytes(b"\xef\xbb\xbf" + ENV.replace("\n", "\r\n").encode())
    flags = ["--workers", "0", "--stop-iterations", "1", "--set", "algorithm.train_batch_size=64"]
    assert muster_here("train", file, *flags, "--runs-dir", tmp_path).code == 0


@pytest.mark.parametrize("kind", ["fifo", "folder", "zero", "loop"])
def test_what_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "zero" else path)
    for command in ("train", "check"):
        ended = muster_here(command, path)
        assert ended.code == 2
        assert f"{path}: cannot be read: is a" in ended.err


SETTINGS = {
    "algorithm=PPO": "--set algorithm: 'PPO': expected a table",
    "algorithm.lr=inf": "--set algorithm.lr: inf: input should be a finite number",
    "algorithm.lr=nan": "finite number",
    "algorithm.lr=true": "--set algorithm.lr: True: expected a number",
    "seed=true": "--set seed: True: expected a number",
    "seed=-1": "greater than or equal to 0",
    "seed=4294967296": "less than or equal to 4294967295",
    "algorithm.train_batch_size=true": "True: expected a",
    "algorithm.train_batch_size=-5": "greater than 0",
    "algorithm.train_batch_size=99999999999999999999": "less than or equal to 9223372036854775807",
    "algorithm.train_batch_size=9e17": "algorithm.train_batch_size: 900000000000000000: needs at least",
    "algorithm.train_batch_size=1e400": "algorithm.train_batch_size",
    "model.hidden=[10000000, 10000000]": "model.hidden: [10000000, 10000000]: needs at least",
    "model.hidden=[true]": "model.hidden: True: expected a whole number",
    "resources.workers=1000000000": "less than or equal to 100000",
    "resources.workers=90000": "resources.workers: 90000: needs at least",
    "resources.workers=true": "True: expected a number",
    "resources.env_groups=1000000000": "less than or equal to 100000",
    "resources.learner_threads=1000000": "less than or equal to 4096",
    "stop.time=inf": "finite",
    "stop.time=1e300": "less than or equal to",
    "stop.return=nan": "finite",
    'env.paths=["a\\u0000b"]': "holds a NUL",
    "a.b.c=1": "an experiment has no key 'a'",
    "..=1": "has no key ''",
    "env.id.x=1": "env.id.x: id is a value, not a table",
    "=1": "expected KEY=VALUE",
    "env=": "--set env: '': expected a table",
    "name=": "expected letters, digits",
    "x=" + "[" * 3000: "nested too deep",
    ".".join(["a"] * 2000) + "=1": "nested too deep",
}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting[:40])
def test_a_setting_that_cannot_be(setting: str, tmp_path: Path) -> None:
    ended = muster_here("train", "CartPole-v1", "--set", setting, "--runs-dir", tmp_path / "runs")
    assert ended.code == 2, ended
    assert SETTINGS[setting] in ended.err


COMMANDS = [
    (["train", "CartPole-v1", "--workers", "²"], "--workers (resources.workers): '²'"),
    (["train", "CartPole-v1", "--workers", "9" * 5000], "--workers"),
    (["train", "CartPole-v1", "--workers", ""], "--workers"),
    (["train", "CartPole-v1", "--name", "n" * 300], "at most 100 characters"),
    (["train", "CartPole-v1", "--name", "a/b"], "expected letters, digits"),
    (["train", "CartPole-v1", "--name", "-a"], "expected letters, digits"),
    (["train", "CartPole-v1", "--name", "\udcff"], "--name: '\\udcff': holds bytes that are not UTF-8"),
    (["train", "CartPole-v1", "--set", "env.config.a=\udcff"], "holds bytes that are not UTF-8"),
    (["train", "CartPole-v1", "--runs-dir", ""], "is empty"),
    (["train", "CartPole-v1", "--from", ""], "is empty"),
    (["train", "CartPole-v1", "--from", "x" * 300], "no run"),
    (["train", "CartPole-v1", "--seed", "9" * 30], "4294967295"),
    (["train", "CartPole-v1", "--seeds", "2", "--seed", "4294967295"], "--seeds 2"),
    (["train", "CartPole-v1", "--stop-time", "9" * 400], "--stop-time"),
    (["train", "CartPole-v1", "--stop-time", "9" * 90 + "-00:00:00"], "--stop-time"),
    (["train", "CartPole-v1", "--gpus", "nan"], "finite"),
    (["train", "CartPole-v1", "--algorithm", "DQN", "--set", "algorithm.lr=nan"], "lr is nan"),
    (["train", "CartPole-v1", "--algorithm", "SAC", "--set", "algorithm.actor_lr=true"], "actor_lr is True"),
    (["train", ""], "is empty"),
    (["train", "x" * 5000], "no simulator"),
    (["train", "x" * 5000 + ".toml"], "cannot be read"),
    (["train", "\udcff.toml"], "no such file"),
    (["train", "\udcff-v0"], "not UTF-8"),
    (["show", ""], "is empty"),
    (["show", "x" * 5000], "no run"),
    (["show", "\udcff"], "no run"),
    (["evaluate", "../.."], "no run"),
    (["evaluate", "run", "--seed", "9" * 30], "4294967295"),
    (["play", "CartPole-v1", "--video", "fifo.mp4"], "is a fifo, expected a file"),
    (["play", "CartPole-v1", "--video", "nowhere/v.mp4"], "nowhere"),
    (["play", "--replay", "fifo.mp4"], "is a fifo"),
    (["init", ""], "env.id"),
    (["init", "a", "-o", ""], "exists already"),
    (["init", "CartPole-v1", "-o", "x" * 300], "cannot be written"),
    (["init", "\udcff", "-o", "new.toml"], "not UTF-8"),
    (["scale", "CartPole-v1", "--workers", "1,²"], "--workers 1,²: expected different numbers"),
    (["scale", "CartPole-v1", "--workers", "1,01"], "expected different numbers"),
    (["scale", "CartPole-v1", "--seconds", "nan"], "--seconds"),
    (["scale", "CartPole-v1", "-o", "."], "expected a name that ends with .png"),
    (["launch", "--timeout", "nan", "--", "true"], "--timeout nan"),
    (["launch", "--timeout", "-5", "--", "true"], "--timeout -5"),
    (["launch", "--port-range", "²-³", "--", "true"], "--port-range ²-³: expected LOW-HIGH"),
    (["launch", "--head-address", "a:²", "--", "true"], "--head-address a:²: expected HOST:PORT"),
    (["launch", "--cpus", "9" * 30, "--", "true"], "--cpus"),
    (["doctor", "--timeout", "1e999"], "--timeout 1e999"),
    (["sweep", "CartPole-v1", "--trials", "9" * 30], "--trials"),
    (["schema", "\udcff"], "unexpected extra argument"),
    (["runs", "--runs-dir", ""], "is empty"),
    (["\udcff"], "No such command"),
]


@pytest.mark.parametrize(
    ("command", "message"), COMMANDS, ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else ""
)
def test_a_flag_that_cannot_be(
    command: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo.mp4")
    ended = muster_here(*command)
    assert ended.code == 2, ended
    assert message in ended.err


def test_arguments_that_are_not_utf_8_are_refused_by_the_real_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [MUSTER, "train", b"CartPole-v1", "--name", b"\xff"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"--name" in done.stderr
