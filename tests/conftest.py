"""Fixtures that several rooms' tests share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.site import FakeSite

# Under nohup, or in a script's background, these are ignored, and whatever the tests start inherits that.
for _number, _default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _default)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="write the files of expected output anew")


@pytest.fixture(scope="module")
def ray_with_four_cpus() -> Iterator[None]:
    """A Ray of our own, which `train` then uses instead of starting one for each run."""
    from muster.clusters.local import ray_for

    with ray_for(4, show_worker_output=False):
        yield


@pytest.fixture
def fake_site(tmp_path: Path) -> Iterator[Callable[..., FakeSite]]:
    """Make a fake scheduler on this machine: `fake_site("pbs")`; its jobs end with the test."""
    sites: list[FakeSite] = []

    def make(scheduler: str, **settings: Any) -> FakeSite:
        sites.append(FakeSite(tmp_path / f"{scheduler}-site", scheduler, **settings))
        return sites[-1]

    yield make
    for site in sites:
        site.close()
