"""The fake schedulers themselves, with scripts written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.jobs import DONE, RUNNING
from tests.fakes.site import FakeSite

MakeSite = Callable[..., FakeSite]
LONG = "#!/bin/bash\ntrap 'echo {signal} >>$OUT; exit 9' {signal}\nsleep 60 & wait\n"


@pytest.fixture
def pbs(fake_site: MakeSite) -> FakeSite:
    return fake_site("pbs", kill_delay=0.3)


@pytest.fixture
def cobalt(fake_site: MakeSite) -> FakeSite:
    return fake_site("cobalt", kill_delay=0.3, minute=1.0)


@pytest.fixture
def lsf(fake_site: MakeSite) -> FakeSite:
    return fake_site("lsf", kill_delay=0.3, minute=1.0)


@pytest.fixture
def flux(fake_site: MakeSite) -> FakeSite:
    return fake_site("flux", kill_delay=0.3)


def home(site: FakeSite) -> Path:
    return site.folder / "home"


def pbs_entry(site: FakeSite, job: str) -> dict[str, object]:
    table = json.loads(site.run("qstat", "-x", "-f", "-F", "json", job).stdout)
    entry: dict[str, object] = table["Jobs"][job]
    return entry


def executable(site: FakeSite, text: str) -> Path:
    site.run("true")
    path = home(site) / "script.sh"
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_pbs_runs_a_script_in_home_with_its_own_environment(pbs: FakeSite) -> None:
    script = "#!/bin/bash\n#PBS -N one\n#PBS -l select=1:ncpus=2:mem=1gb\n#PBS -l walltime=1:30\n#PBS -j oe\n"
    script += "pwd; umask; cat $PBS_NODEFILE; echo $NCPUS $PBS_JOBID ${FOREIGN:-none}; which qstat; exit 75\n"
    assert pbs.run("qsub", stdin=script).stdout == "1.pn0\n"
    [job] = pbs.wait(1)
    expected = [str(home(pbs)), "0077", job.hosts[0], "2 1.pn0 none", str(pbs.folder / "bin" / "qstat")]
    assert (home(pbs) / "one.o1").read_text().splitlines() == expected
    assert pbs.run("qstat", "1").returncode == 35
    entry = pbs_entry(pbs, "1.pn0")
    assert (entry["job_state"], entry["Exit_status"], entry["substate"]) == ("F", 75, 93)


@pytest.mark.parametrize(
    ("directive", "code", "message"),
    [
        ("-N 'a b'", 2, "illegal -N value"),
        ("-l walltime=90s", 166, "Illegal attribute or resource value"),
        ("-l select=1:ncpu=2", 187, "Unknown resource"),
        ("-q nowhere", 170, "Unknown queue"),
        ("-q short -l walltime=2:00:00", 188, "Job violates queue and/or server resource limits"),
        ("-W depend=whenever:1", 2, "illegal -W value"),
        ("--wall-time 5", 2, "invalid option"),
    ],
)
def test_pbs_refuses(pbs: FakeSite, directive: str, code: int, message: str) -> None:
    done = pbs.run("qsub", stdin=f"#PBS {directive}\ntrue\n")
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert not pbs.jobs()


def test_pbs_dependencies_arrays_and_holds(pbs: FakeSite) -> None:
    pbs.pause()
    pbs.run("qsub", stdin="exit 3\n")
    pbs.run("qsub", "-W", "depend=afterany:1.pn0", stdin="true\n")
    pbs.run("qsub", "-W", "depend=afterok:1.pn0", stdin="true\n")
    assert pbs.run("qsub", "-J", "1-3%2", stdin="exit $PBS_ARRAY_INDEX\n").stdout == "4[].pn0\n"
    assert [pbs_entry(pbs, job)["job_state"] for job in ("1.pn0", "2.pn0", "4[].pn0")] == ["Q", "H", "Q"]
    pbs.unpause()
    assert [job.code for job in pbs.wait(4)] == [1, 2, 3]
    assert pbs_entry(pbs, "4[2].pn0")["Exit_status"] == 2
    pbs.wait(2)
    assert pbs_entry(pbs, "2.pn0")["Exit_status"] == 0
    assert pbs_entry(pbs, "3.pn0")["substate"] == 92
    assert len(json.loads(pbs.run("qstat", "-xfF", "json", "1", "2").stdout)["Jobs"]) == 1


def test_pbs_wall_time_and_delete_end_the_session(pbs: FakeSite) -> None:
    out = pbs.folder / "out"
    script = LONG.format(signal="TERM")
    pbs.run("qsub", "-l", "walltime=1", "-v", f"OUT={out}", stdin=script)
    pbs.run("qsub", "-v", f"OUT={out}", stdin=script)
    pbs.wait(2, RUNNING)
    pbs.wait(1)
    assert pbs.run("qdel", "2").returncode == 0
    pbs.wait(2)
    assert (pbs_entry(pbs, "1.pn0")["Exit_status"], pbs_entry(pbs, "2.pn0")["Exit_status"]) == (-29, 271)
    assert out.read_text() == "TERM\nTERM\n"
    assert pbs.run("qdel", "2").returncode == 35
    assert pbs.run("qdel", "9").returncode == 153
    assert pbs.run("qrerun", "1").returncode == 159


def test_pbs_starts_ranks_by_tm_and_by_pals(pbs: FakeSite) -> None:
    script = "h=$(head -1 $PBS_NODEFILE)\npbs_tmrsh $h /bin/sh -c 'pwd; exit 75'; echo $?\n"
    script += "pbs_tmrsh nowhere /bin/true; echo $?\nmpiexec -n 2 --ppn 2 sh -c 'echo $PALS_RANKID of $PMI_SIZE'\n"
    pbs.run("qsub", "-N", "ranks", stdin=script)
    pbs.wait(1)
    lines = (home(pbs) / "ranks.o1").read_text().splitlines()
    assert (lines[:3], sorted(lines[3:])) == ([str(home(pbs)), "75", "255"], ["0 of 2", "1 of 2"])


def test_cobalt_runs_an_executable_script_and_forgets_it(cobalt: FakeSite) -> None:
    text = "#!/bin/sh\n#COBALT -n 1 -t 30\n#COBALT --attrs mcdram=cache:numa=quad\n"
    script = executable(
        cobalt, text + "aprun -n 2 -N 2 -cc none sh -c 'echo $ALPS_APP_PE'\necho $COBALT_JOBSIZE\n"
    )
    assert cobalt.run("qsub", "-A", "proj", script).stdout.splitlines()[-1] == "1"
    cobalt.wait(1)
    assert sorted((home(cobalt) / "1.output").read_text().split()) == ["0", "1", "1"]
    assert "exit code of 0" in (home(cobalt) / "1.cobaltlog").read_text()
    assert (cobalt.run("qstat", "1").returncode, cobalt.run("qstat", "1").stdout) == (1, "")


def test_cobalt_refuses_what_it_does_not_know(cobalt: FakeSite) -> None:
    script = executable(cobalt, "#!/bin/sh\ntrue\n")
    for options, message in (
        ("-n 1", "time needed"),
        ("-n 1 -t 5m", "invalid time specification"),
        ("-n two -t 5", "non-integer node count"),
        ("-n 1 -t 5 -q nowhere", "not an existing queue"),
        ("-n 1 -t 5 --nodes 2", "no such option"),
    ):
        done = cobalt.run("qsub", *options.split(), script)
        assert done.returncode != 0 and message in done.stderr, done
    script.chmod(0o644)
    assert "is not executable" in cobalt.run("qsub", "-n", "1", "-t", "5", script).stderr


def test_cobalt_dependencies_need_success_and_qdel_ends_a_job(cobalt: FakeSite) -> None:
    script = executable(cobalt, LONG.format(signal="TERM"))
    out = cobalt.folder / "out"
    cobalt.run("qsub", "-n", "1", "-t", "2", "--env", f"OUT={out}", script)
    cobalt.run("qsub", "-n", "1", "-t", "00:30:00", "--dependencies", "1", script)
    cobalt.wait(1, RUNNING)
    assert "dep_hold" in cobalt.run("qstat", "--header", "JobID:State", "2").stdout
    [job] = cobalt.wait(1)
    assert (job.code, job.reason, out.read_text()) == (9, "limit", "TERM\n")
    assert "dep_fail" in cobalt.run("qstat", "2").stdout
    assert "Deleted Jobs" in cobalt.run("qdel", "2").stdout
    assert cobalt.run("qstat", "2").returncode == 1


def bjobs(site: FakeSite, *jobs: str) -> list[dict[str, str]]:
    told = site.run("bjobs", "-json", "-o", "jobid jobindex stat exit_code exit_reason", *jobs)
    records: list[dict[str, str]] = json.loads(told.stdout)["RECORDS"]
    return records


def test_lsf_runs_a_script_from_standard_input(lsf: FakeSite) -> None:
    script = "#!/bin/bash\n#BSUB -J one\n#BSUB -n 2 -W 0:30\n#BSUB -o out.%J\necho $LSB_MCPU_HOSTS; exit 5\n"
    assert lsf.run("bsub", stdin=script).stdout == "Job <1> is submitted to default queue <workq>.\n"
    [job] = lsf.wait(1)
    text = (home(lsf) / "out.1").read_text()
    assert f"{job.hosts[0]} 2" in text and "Exited with exit code 5." in text
    assert [(job["STAT"], job["EXIT_CODE"]) for job in bjobs(lsf, "1")] == [("EXIT", "5")]
    assert bjobs(lsf, "9")[0]["ERROR"] == "Job <9> is not found"


def test_lsf_refuses_with_255(lsf: FakeSite) -> None:
    for options, message in (
        ("-W 90s", "Bad run limit"),
        ("-q nowhere", "nowhere: No such queue. Job not submitted."),
        ("-w ended(9)", "No matching job found"),
        ("-n 99", "Too many processors requested"),
        ("-R span(ptile=2)", "Bad resource requirement"),
        ("--nodes 2", "Illegal option"),
    ):
        done = lsf.run("bsub", stdin=f"#BSUB {options}\n".replace("(", "'('").replace(")", "')'") + "true\n")
        assert (done.returncode, message in done.stderr) == (255, True), done


def test_lsf_requeue_dependency_array_and_kill(lsf: FakeSite) -> None:
    again = "test -e again && exit 0; touch again; exit 75\n"
    lsf.run("bsub", "-Q", "75", stdin=again)
    lsf.run("bsub", "-w", "ended(1)", "-J", "many[1-2]", stdin="exit $LSB_JOBINDEX\n")
    assert [job.runs for job in lsf.wait(1)] == [2]
    assert [job.code for job in lsf.wait(2)] == [1, 2]
    out = lsf.folder / "out"
    lsf.run("bsub", "-env", "all", stdin=f"OUT={out}\n" + LONG.format(signal="INT"))
    lsf.wait(3, RUNNING)
    assert "is being terminated" in lsf.run("bkill", "3").stdout
    lsf.wait(3)
    assert bjobs(lsf, "3")[0]["EXIT_REASON"].startswith("TERM_OWNER")
    lsf.run("bsub", "-W", "1", stdin=f"OUT={out}\n" + LONG.format(signal="USR2"))
    lsf.wait(4)
    assert bjobs(lsf, "4")[0]["EXIT_REASON"].startswith("TERM_RUNLIMIT")
    assert out.read_text() == "INT\nUSR2\n"


def flux_status(site: FakeSite, job: str) -> str:
    return site.run("flux", "jobs", "-no", "{status} {returncode} {exception.note}", job).stdout.strip()


def test_flux_runs_a_command_on_every_host(flux: FakeSite) -> None:
    command = "echo $FLUX_TASK_RANK of $FLUX_JOB_SIZE; flux job timeleft; flux hostlist local; exit 75"
    submitted = flux.run("flux", "submit", "-N1", "-t", "2m", "--output=out", "sh", "-c", command)
    job = submitted.stdout.strip()
    assert job.startswith("ƒ"), submitted
    flux.wait(1)
    rank, left, host = (home(flux) / "out").read_text().splitlines()
    assert (rank, host) == ("0 of 1", flux.jobs()[0].hosts[0])
    assert 110 < int(left) < 120
    assert flux_status(flux, job) == "FAILED 75"
    decimal = flux.run("flux", "jobs", "-ano", "{id.dec}").stdout.strip()
    assert json.loads(flux.run("flux", "jobs", "--json", decimal).stdout)["returncode"] == 75
    assert flux.run("flux", "run", "-n2", "sh", "-c", "exit 4").returncode == 4


def test_flux_refuses_or_fails_what_cannot_be(flux: FakeSite) -> None:
    for options, message in (
        ("-t 90x", "invalid Flux standard duration"),
        ("-q nowhere", "not a valid queue"),
        ("--dependency=afterok:ƒ9", "JobID ƒ9 unknown"),
        ("--wall-time=5", "unrecognized arguments"),
    ):
        done = flux.run("flux", "submit", *options.split(), "true")
        assert done.returncode in (1, 2) and message in done.stderr, done
    job = flux.run("flux", "submit", "-N9", "true").stdout.strip()
    assert flux_status(flux, job) == "FAILED -128 unsatisfiable request"


def test_flux_limit_cancel_and_dependency(flux: FakeSite) -> None:
    out = flux.folder / "out"
    script = executable(flux, f"OUT={out}\n" + LONG.format(signal="ALRM").removeprefix("#!/bin/bash\n"))
    first = flux.run("flux", "submit", "-t", "1s", "--signal=USR2@0.5s", "bash", script).stdout.strip()
    second = flux.run("flux", "submit", f"--dependency=afterany:{first}", "sleep", "60").stdout.strip()
    assert flux_status(flux, second) == "DEPEND"
    flux.wait(1)
    assert flux_status(flux, first).startswith("FAILED 140")
    flux.wait(2, RUNNING)
    assert flux.run("flux", "cancel", second).returncode == 0
    flux.wait(2)
    assert flux_status(flux, second) == "CANCELED 143"
    third = flux.run("flux", "submit", "-t", "0.5s", "bash", script).stdout.strip()
    flux.wait(3)
    assert (flux_status(flux, third), out.read_text()) == ("TIMEOUT 9 resource allocation expired", "ALRM\n")


def test_commands_misbehave_when_told_to(pbs: FakeSite) -> None:
    pbs.misbehave("qstat", stdout="<html>", times=1)
    assert pbs.run("qstat").stdout == "<html>"
    assert pbs.run("qstat").stdout == ""
    pbs.go_down()
    assert (pbs.run("qstat").returncode, "errno=111" in pbs.run("qsub", stdin="true").stderr) == (111, True)
    pbs.refuse_submits()
    assert pbs.run("qsub", stdin="true").returncode == 159
    pbs.behave()
    assert pbs.run("qsub", stdin="true").returncode == 0
    assert [job.state for job in pbs.wait(1)] == [DONE]


def test_slurm_s_own_commands_misbehave_too(fake_site: MakeSite, tmp_path: Path) -> None:
    site = fake_site("slurm")
    real = tmp_path / "squeue"
    real.write_text("#!/bin/sh\necho real $1\n")
    real.chmod(0o755)
    command = ("bash", "-c", f"PATH={site.folder}/bin:{tmp_path}:$PATH squeue --me")
    site.go_down()
    assert "Unable to contact slurm controller" in site.run(*command).stderr
    site.behave()
    assert site.run(*command).stdout == "real --me\n"
