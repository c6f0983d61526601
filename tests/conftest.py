"""Fixtures that several rooms' tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def ray_with_four_cpus() -> Iterator[None]:
    """A Ray of our own, which `train` then uses instead of starting one for each run."""
    from muster.clusters.local import ray_for

    with ray_for(4, show_worker_output=False):
        yield
