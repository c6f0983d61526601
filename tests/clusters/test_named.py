"""Clusters by name, and the environment that their setup makes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.clusters.launching.setup import environment_after
from muster.clusters.named import find_cluster
from muster.errors import ClusterError, InputError, OwnershipError


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_the_project_s_cluster_goes_before_the_user_s(project: Path) -> None:
    own = project / "config" / "muster"
    own.mkdir(parents=True)
    (own / "clusters.toml").write_text('[clusters.a]\ninterface = "ib0"\n[clusters.b]\ncpus = 3\n')
    (project / "muster.toml").write_text('[clusters.a]\ninterface = "hsn0"\nunset = ["LD_PRELOAD"]\n')
    assert find_cluster("a").cluster.interface == "hsn0"
    assert find_cluster("a").cluster.unset == ("LD_PRELOAD",)
    assert find_cluster("b").cluster.cpus == 3


def test_an_unknown_cluster_and_an_unknown_key_get_the_nearest_name(project: Path) -> None:
    (project / "muster.toml").write_text('[clusters.eagle]\nhost = ["a"]\ncpus = 0\n')
    with pytest.raises(InputError, match="did you mean eagle"):
        find_cluster("eagel")
    with pytest.raises(InputError, match=r"cpus: .*greater.*\n  host: no such key; did you mean hosts\?"):
        find_cluster("eagle")


def test_setup_makes_the_environment_and_its_failure_is_told() -> None:
    made = environment_after(["export WORD='two words'", "echo noise"], {"PATH": "/usr/bin:/bin"})
    assert made["WORD"] == "two words"
    assert not any("noise" in value for value in made.values())
    assert environment_after([], {"A": "b"}) == {"A": "b"}
    with pytest.raises(ClusterError, match="module load nowhere: ended with code 127"):
        environment_after(["module load nowhere"], {"PATH": "/usr/bin:/bin"})


def test_a_file_that_another_user_wrote_is_not_used(project: Path) -> None:
    path = project / "muster.toml"
    path.write_text('[clusters.a]\nsetup = ["touch ran"]\n')
    path.chmod(0o666)
    with pytest.raises(OwnershipError, match="could run code as you"):
        find_cluster("a")
    path.chmod(0o664)
    assert find_cluster("a").cluster.setup == ("touch ran",)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
        with pytest.raises(OwnershipError, match="belongs to user 12345"):
            find_cluster("a")


def test_deep_nesting_is_refused(project: Path) -> None:
    path = project / "muster.toml"
    path.write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(InputError, match=r"muster.toml"):
        find_cluster("a")
