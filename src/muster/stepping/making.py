"""Which of the two ways some simulators are stepped: one after another, or as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from muster.simulators.encoding import RowEncoder
from muster.stepping.failures import Supervision
from muster.stepping.loop import SimulatorLoop
from muster.stepping.many import Simulators, SteppingSettings


def make_simulators(
    settings: SteppingSettings,
    encoder: RowEncoder,
    group: int,
    first_episodes: Sequence[int],
    journals: Path | None,
    supervision: Supervision,
) -> Simulators:
    """Return the simulators of a group, not yet built."""
    simulator = settings.simulator
    if simulator.is_batched():
        from muster.stepping.batched import SimulatorBatch

        return SimulatorBatch(settings, encoder, group, first_episodes, journals, supervision)
    return SimulatorLoop(settings, encoder, group, first_episodes, journals, supervision)
