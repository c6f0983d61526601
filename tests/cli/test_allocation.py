"""`muster allocation`: values with their sources, and one line of JSON."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from muster.cli.main import app

SLURM = {
    "SLURM_JOB_ID": "12",
    "SLURM_JOB_NODELIST": "no-such-host[1-2]",
    "SLURM_JOB_CPUS_PER_NODE": "1(x2)",
    "SLURM_MEM_PER_CPU": "512",
    "MUSTER_END_TIME": "1767225600",
}


def test_each_value_is_shown_with_its_source() -> None:
    lines = CliRunner().invoke(app, ["allocation"], env=SLURM).stdout.splitlines()
    words = [line.split() for line in lines]
    assert ["scheduler", "slurm", "SLURM_JOB_ID"] in words
    assert ["CPUs", "1", "SLURM_JOB_CPUS_PER_NODE"] in words
    assert ["memory", "0.5", "GiB", "SLURM_MEM_PER_CPU", "for", "1", "CPUs"] in words
    assert any(line[0] == "end" and line[-1] == "MUSTER_END_TIME" for line in words if line)


def test_json_is_one_line() -> None:
    output = CliRunner().invoke(app, ["allocation", "--json"], env=SLURM).stdout
    assert output.count("\n") == 1
    found = json.loads(output)
    assert found["job_id"] == {"value": "12", "source": "SLURM_JOB_ID"}
    assert [host["name"] for host in found["hosts"]["value"]] == ["no-such-host1", "no-such-host2"]
    assert found["in_step"] is False


def test_what_cannot_be_read_is_an_error() -> None:
    result = CliRunner().invoke(app, ["allocation"], env={**SLURM, "SLURM_JOB_NODELIST": "n[1-"})
    assert "SLURM_JOB_NODELIST" in str(result.exception)
