"""The files that `muster clusters init` writes for clouds: Ray's own check takes them, their values are right."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from muster.clusters.cloud_files import CLOUDS, cloud_file
from tests.commands import muster

# Field names of KubeRay's ray.io/v1: ray-operator/apis/ray/v1/rayjob_types.go and raycluster_types.go.
_RAY_JOB = {
    "activeDeadlineSeconds", "backoffLimit", "clusterSelector", "entrypoint", "entrypointNumCpus",
    "entrypointNumGpus", "entrypointResources", "jobId", "metadata", "rayClusterSpec", "runtimeEnvYAML",
    "shutdownAfterJobFinishes", "submissionMode", "submitterConfig", "submitterPodTemplate", "suspend",
    "ttlSecondsAfterFinished",
}  # fmt: skip
_RAY_CLUSTER = {
    "authOptions", "autoscalerOptions", "enableInTreeAutoscaling", "headGroupSpec", "headServiceAnnotations",
    "rayVersion", "suspend", "workerGroupSpecs",
}  # fmt: skip
_HEAD_GROUP = {"enableIngress", "headService", "rayStartParams", "serviceType", "template"}
_WORKER_GROUP = {
    "groupName", "maxReplicas", "minReplicas", "numOfHosts", "rayStartParams", "replicas", "scaleStrategy",
    "template",
}  # fmt: skip


def _prepared(cloud: str) -> dict[str, Any]:
    """Return a file as `ray up` reads it: with the provider's defaults, and checked against Ray's schema."""
    prepared: dict[str, Any] = prepare_config(yaml.safe_load(cloud_file(cloud)))
    validate_config(prepared)
    return prepared


def _kubernetes() -> tuple[dict[str, Any], dict[str, Any]]:
    job, claim = yaml.safe_load_all(cloud_file("kuberay"))
    return job, claim


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_ray_takes_the_file(cloud: str) -> None:
    config = _prepared(cloud)
    head, worker = (config["available_node_types"][name] for name in ("head", "worker"))
    assert config["provider"]["type"] == cloud
    assert config["head_node_type"] == "head"
    assert head["max_workers"] == 0
    assert worker["min_workers"] == worker["max_workers"] == config["max_workers"] > 0
    assert not config["docker"]


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_ray_s_check_is_one_that_can_fail(cloud: str) -> None:
    config = _prepared(cloud)
    with pytest.raises(jsonschema.ValidationError, match="max_wrokers"):
        validate_config({**config, "max_wrokers": 2})


def test_workers_are_spot_machines_and_the_head_is_not() -> None:
    aws = _prepared("aws")["available_node_types"]
    assert aws["worker"]["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "InstanceMarketOptions" not in aws["head"]["node_config"]
    gcp = _prepared("gcp")["available_node_types"]
    assert gcp["worker"]["node_config"]["scheduling"]["provisioningModel"] == "SPOT"
    assert "scheduling" not in gcp["head"]["node_config"]
    spec = _kubernetes()[0]["spec"]["rayClusterSpec"]
    assert spec["workerGroupSpecs"][0]["template"]["spec"]["nodeSelector"] == {"cloud.google.com/gke-spot": "true"}
    assert "nodeSelector" not in spec["headGroupSpec"]["template"]["spec"]


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_every_node_gets_this_ray_and_the_token(cloud: str) -> None:
    config = _prepared(cloud)
    for kind in ("head", "worker"):
        setup = "\n".join(config[f"{kind}_setup_commands"])
        assert f"'ray[default]=={version('ray')}'" in setup
        assert "python3.11 -m venv" in setup
        assert "'gymnasium<1.3,>=1.0'" in setup
        start = config[f"{kind}_start_ray_commands"][-1]
        assert "RAY_AUTH_MODE=token" in start
        for command in [*config[f"{kind}_setup_commands"], start]:
            assert subprocess.run(["bash", "-n", "-c", command], check=False).returncode == 0, command
    assert config["file_mounts"] == {"~/.ray/auth_token": "~/.ray/auth_token"}
    assert "--dashboard-host=127.0.0.1" in config["head_start_ray_commands"][-1]


def test_the_ray_job_has_the_fields_of_kuberay() -> None:
    job, claim = _kubernetes()
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert set(job["spec"]) <= _RAY_JOB
    cluster = job["spec"]["rayClusterSpec"]
    assert set(cluster) <= _RAY_CLUSTER
    assert cluster["rayVersion"] == version("ray")
    assert cluster["authOptions"] == {"mode": "token"}
    assert set(cluster["headGroupSpec"]) <= _HEAD_GROUP
    assert all(set(group) <= _WORKER_GROUP for group in cluster["workerGroupSpecs"])
    head = cluster["headGroupSpec"]["template"]["spec"]
    assert head["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert f"FROM rayproject/ray:{version('ray')}-py311" in cloud_file("kuberay")


def test_the_ray_job_trains_with_the_cpus_that_it_asks_for() -> None:
    spec = _kubernetes()[0]["spec"]
    group = spec["rayClusterSpec"]["workerGroupSpecs"][0]
    cpus = int(group["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    assert spec["entrypoint"].startswith("muster train ")
    assert spec["entrypoint"].endswith(f"--resume --workers {group['replicas'] * cpus}")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_command_writes_a_file_once(cloud: str, tmp_path: Path) -> None:
    first = muster("clusters", "init", cloud, "-o", "my cloud.yaml", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    text = (tmp_path / "my cloud.yaml").read_text()
    assert text == cloud_file(cloud, "my cloud.yaml")
    assert "'my cloud.yaml'" in text
    second = muster("clusters", "init", cloud, "-o", "my cloud.yaml", cwd=tmp_path)
    assert second.returncode == 2
    assert "my cloud.yaml: exists already; choose another file with -o" in second.stderr
    assert (tmp_path / "my cloud.yaml").read_text() == text


def test_the_command_prints_without_a_file(tmp_path: Path) -> None:
    done = muster("clusters", "init", "gcp", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == cloud_file("gcp")
    assert not list(tmp_path.iterdir())
