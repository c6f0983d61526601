"""Addresses of Ray's job server."""

from pathlib import Path

import pytest

from muster.clusters.named import find_cluster
from muster.clusters.ray_address import is_loopback, parse_ray_address
from muster.errors import InputError


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("http://127.0.0.1:8265", "http://127.0.0.1:8265"),
        ("127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("head", "http://head:8265"),
        ("http://head/", "http://head:8265"),
        ("https://ray.example.org", "https://ray.example.org"),
        ("https://example.org/rays/mine/", "https://example.org/rays/mine"),
        ("http://[::1]:8265", "http://[::1]:8265"),
    ],
)
def test_addresses(written: str, read: str) -> None:
    assert parse_ray_address(written) == read


@pytest.mark.parametrize(
    "written",
    ["", "http://", "ray://head:10001", "ftp://head", "http://a:b@head:1", "head:99999", "a b", "http://h?x"],
)
def test_what_is_no_address(written: str) -> None:
    with pytest.raises(ValueError, match=r"address|job server|password"):
        parse_ray_address(written)
    with pytest.raises(InputError, match="--on ray:"):
        find_cluster(f"ray:{written}", "--on")


def test_loopback() -> None:
    assert (
        is_loopback("http://127.0.0.1:8265")
        and is_loopback("http://localhost:1")
        and is_loopback("http://[::1]:1")
    )
    assert not is_loopback("http://10.0.0.1:8265")


def test_a_ray_on_the_command_line_and_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_cluster("ray:head", "--on")
    assert (found.name, found.cluster.scheduler, found.cluster.address) == ("ray", "ray", "http://head:8265")
    (tmp_path / "muster.toml").write_text('[clusters.cloud]\nscheduler = "ray"\naddress = "head:1"\n')
    monkeypatch.chdir(tmp_path)
    named = find_cluster("cloud", "--on").cluster
    assert named.address == "http://head:1" and named.is_elsewhere
    (tmp_path / "muster.toml").write_text('[clusters.cloud]\nscheduler = "ray"\naddress = "ray://head:1"\n')
    with pytest.raises(InputError, match="address: ray:// is the port of Ray's client"):
        find_cluster("cloud", "--on")
