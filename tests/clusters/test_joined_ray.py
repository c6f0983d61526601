"""Whether the head of a Ray that was joined is still there."""

from __future__ import annotations

import socket

from muster.clusters.joined_ray import JoinedRay
from tests.commands import wait_until


def test_a_head_that_dies_is_noticed_at_once_and_a_closed_connection_is_no_death() -> None:
    head = socket.create_server(("127.0.0.1", 0))
    head.settimeout(5)
    ray = JoinedRay(f"127.0.0.1:{head.getsockname()[1]}")
    assert not ray.is_lost()
    first, _ = head.accept()
    first.sendall(b"settings")
    assert not ray.is_lost()
    first.close()
    assert not ray.is_lost()
    second, _ = head.accept()
    head.close()
    assert not ray.is_lost()
    second.close()
    wait_until(ray.is_lost, "the death to be seen", 0.5)


def test_an_address_that_is_no_host_and_port_is_taken_to_live() -> None:
    assert not JoinedRay("auto").is_lost()
    assert not JoinedRay("ray://host:10001").is_lost()
