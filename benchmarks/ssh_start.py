"""From nothing to the first training step on three hosts under ssh that share no files: muster beside `ray up`.

The hosts have Python and sshd alone, and reach no package index: both ways send the same wheels, the same
project and the same muster, and train the same experiment. The second time nothing has changed; for `ray up` the
Ray of the first time is still up, while muster starts one for each run.
"""

from __future__ import annotations

import json
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.lab.cluster import Lab, owned_lab
from tests.lab.researcher import Researcher
from tests.lab.sshd import Sshd

import muster
from muster.jobs.places.requirements import Requirements, package_folder, required

ROUNDS = 3
LIMIT_SECONDS = 400.0
HOME = Researcher.home
MUSTER = str(Path(sys.executable).with_name("muster"))
RAY = str(Path(sys.executable).with_name("ray"))
BASE_PYTHON = f"{sys.base_prefix}/bin/python3"
EXPERIMENT = '[env]\nid = "own.py:Own"\n\n[resources]\nworkers = 4\n\n[stop]\niterations = 3\n'
SIMULATOR = """
import gymnasium


class Own(gymnasium.Wrapper):
    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))
"""
CLUSTERS = f"""
[clusters.lab]
scheduler = "ssh"
hosts = ["node1", "node2", "node3"]
cpus = 2
wheels = true
python = "{BASE_PYTHON}"
"""
RAY_CLUSTER = """
cluster_name: lab
provider:
  type: local
  head_ip: {head}
  worker_ips: [{workers}]
auth:
  ssh_user: {user}
  ssh_private_key: {home}/.ssh/id_ed25519
min_workers: 2
max_workers: 2
upscaling_speed: 10
file_mounts: {{"{home}/sent": "{home}/sent"}}
setup_commands:
  - test -d {home}/env || {python} -m venv {home}/env
  - {home}/env/bin/pip install --quiet --no-index --find-links {home}/sent/wheels -r {home}/sent/requirements.txt
  - echo {home}/sent/muster > $(echo {home}/env/lib/python3*/site-packages)/sent.pth
head_start_ray_commands:
  - >-
    export RAY_enable_autoscaler_v2=0 RAY_USAGE_STATS_ENABLED=0;
    {ray} start --head --port=6379 {options} --autoscaling-config=~/ray_bootstrap_config.yaml
worker_start_ray_commands:
  - {ray} start --address=$RAY_HEAD_IP:6379 {options}
"""
TRAIN = """
import os, subprocess, sys, time
import ray

ray.init(address="auto", logging_level="error")
while len([node for node in ray.nodes() if node["Alive"]]) < 3:
    time.sleep(0.2)
address = ray.get_runtime_context().gcs_address
ray.shutdown()
name = sys.argv[1]
command = [sys.executable, "-m", "muster", "train", "{home}/sent/project/exp.toml", "--runs-dir", "{home}/runs"]
sys.exit(subprocess.call([*command, "--name", name], env={{**os.environ, "RAY_ADDRESS": address}}))
"""


def run() -> str:
    """Measure both ways in turn; return the page."""
    requirements = required(set(), None, ())
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        wheels = Path(scratch) / "wheels"
        _collect(requirements, wheels)
        for number in range(ROUNDS):
            for way, measure in (("muster", _measure_muster), ("ray up", _measure_ray)):
                with owned_lab(3) as lab:
                    sshd = Sshd(lab)
                    sshd.start()
                    user = Researcher(lab, sshd, lab.login, lab.nodes)
                    for which, seconds in zip(
                        ("first", "second"), measure(lab, user, requirements, wheels), strict=True
                    ):
                        times.setdefault(f"{way}, {which} time", []).append(seconds)
                        print(f"round {number + 1}: {way}, {which} time: {seconds:.1f} s", flush=True)
    return _page(times)


def _collect(requirements: Requirements, target: Path) -> None:
    listed = target.with_suffix(".txt")
    listed.write_text(requirements.text)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(target), "-r", str(listed)]
    subprocess.run(command, check=True)


def _measure_muster(lab: Lab, user: Researcher, requirements: Requirements, wheels: Path) -> list[float]:
    laptop = user.laptop
    for name, text in (("own.py", SIMULATOR), ("exp.toml", EXPERIMENT), ("muster.toml", CLUSTERS)):
        user.write(laptop, f"project/{name}", text)
    cache = laptop.path(HOME / ".cache/muster/wheels" / f"{requirements.id}-linux-{platform.machine()}")
    shutil.copytree(wheels, cache)
    (cache / "complete").touch()
    user.own(laptop.path(HOME))
    times = []
    for name in ("first", "second"):
        metrics = lab.nodes[0].path(HOME / ".muster/lab/runs" / name / "metrics.csv")
        times.append(_first_step(user, metrics, [MUSTER, "submit", "exp.toml", "--on", "lab", "--name", name]))
        user.type(MUSTER, "attach", name)
        time.sleep(5)
    return times


def _measure_ray(lab: Lab, user: Researcher, requirements: Requirements, wheels: Path) -> list[float]:
    _lay_out_for_ray(lab, user, requirements, wheels)
    times = []
    for name, flags in (("first", []), ("second", ["--no-restart"])):
        metrics = lab.nodes[0].path(HOME / "runs" / name / "metrics.csv")
        up = shlex.join([RAY, "up", "--yes", "--no-config-cache", *flags, "cluster.yaml"])
        submit = shlex.join([RAY, "submit", "cluster.yaml", "train.py", name])
        line = f"export RAY_USAGE_STATS_ENABLED=0; {up} && {submit}"
        times.append(_first_step(user, metrics, ["bash", "-c", line]))
    return times


def _lay_out_for_ray(lab: Lab, user: Researcher, requirements: Requirements, wheels: Path) -> None:
    """Write the laptop's files: the cluster's, the script's, and what `ray up` is to mount on the hosts."""
    head, *workers = lab.nodes
    cluster = RAY_CLUSTER.format(
        head=head.address,
        workers=", ".join(str(host.address) for host in workers),
        user=user.name,
        home=HOME,
        python=BASE_PYTHON,
        ray=f"{HOME}/env/bin/ray",
        options="--num-cpus=2 --object-store-memory=200000000",
    )
    for name, text in (("cluster.yaml", cluster), ("train.py", TRAIN.format(home=HOME))):
        user.write(user.laptop, f"project/{name}", text)
    sent = user.laptop.path(HOME / "sent")
    (sent / "project").mkdir(parents=True)
    (sent / "project" / "own.py").write_text(SIMULATOR)
    (sent / "project" / "exp.toml").write_text(EXPERIMENT)
    (sent / "requirements.txt").write_text(requirements.text)
    shutil.copytree(wheels, sent / "wheels")
    about = sent / "muster" / f"muster_rl-{muster.__version__}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: muster-rl\nVersion: {muster.__version__}\n")
    shutil.copytree(package_folder(), sent / "muster" / "muster", ignore=shutil.ignore_patterns("__pycache__"))
    user.own(user.laptop.path(HOME))
    for host in lab.nodes:
        user.write(host, ".bashrc", f"export PATH={HOME}/env/bin:$PATH\n")


def _first_step(user: Researcher, metrics: Path, command: list[str]) -> float:
    """Type a command that starts a run; return how long it took until the run's first iteration had ended."""
    began = time.time()
    user.type(*command, limit_s=LIMIT_SECONDS)
    while not metrics.exists() or metrics.read_text().count("\n") < 2:
        if time.time() - began > LIMIT_SECONDS:
            raise TimeoutError(f"{metrics}: no first iteration")
        time.sleep(0.05)
    header, first, *_ = metrics.read_text().splitlines()
    took = float(dict(zip(header.split(","), first.split(","), strict=True))["time/total"])
    events = map(json.loads, (metrics.parent / "events.jsonl").read_text().splitlines())
    return next(float(event["time"]) for event in events if event["event"] == "started") + took - began


def _page(times: dict[str, list[float]]) -> str:
    lines = [
        "# From nothing to the first training step, three hosts under ssh",
        "",
        __doc__.strip().partition("\n\n")[2].replace("\n", " "),
        f"Medians of {ROUNDS} rounds, interleaved, on {platform.machine()} with lab hosts that share 2 CPUs;",
        "in brackets the shortest and the longest.",
        "",
        "| | seconds |",
        "|---|---|",
    ]
    for name, values in times.items():
        lines.append(f"| {name} | {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f}) |")
    return "\n".join(lines) + "\n"
