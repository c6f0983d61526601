"""What a batch of simulators returns, as rows and masks; and what is wrong with each simulator's part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.simulators.describing import MASK
from muster.simulators.encoding import RowEncoder
from muster.simulators.masks import MaskReader
from muster.simulators.observation_checks import check_for
from muster.stepping.batches import AnyBatch, final_observations
from muster.stepping.many import SteppingSettings

Array = NDArray[Any]
Problems = dict[int, str]
"""What is wrong, by the place of the simulator in its batch."""


class BatchReader:
    """Keeps the current rows and masks of a batch, and finds what a learner must not see."""

    def __init__(self, settings: SteppingSettings, encoder: RowEncoder) -> None:
        count = settings.num_envs
        self._encoder = encoder
        self._check = check_for(encoder, count, bounds=settings.check_bounds)
        self._mask_reader = MaskReader(settings.observations, settings.actions)
        self.rows = np.zeros((count, encoder.width), encoder.dtype)
        self.masks = np.zeros((count, 0), bool)

    def read(self, observations: Any, infos: Any, is_last: Array | None = None) -> Problems:
        """Take what all simulators returned; an observation that is the last of its episode needs no mask.

        Raises:
            ValueError: if it does not fit the batch.
        """
        problems = self._encoder.encode_batch(self.rows, observations)
        if not self._check.all_good(self.rows):
            problems = {**self._found(enumerate(self.rows)), **problems}
        if self._mask_reader.sizes and (self.masks.size or self._mask_reader.in_observation or MASK in infos):
            needs_mask = np.ones(len(self.rows), bool) if is_last is None else ~is_last
            problems = {**self._read_masks(observations, infos, needs_mask), **problems}
        return problems

    def read_some(self, observations: Any, infos: Any, which: Array) -> Problems:
        """Take what some simulators returned, and leave the others as they were."""
        rows, masks = self.rows.copy(), self.masks
        try:
            problems = self.read(observations, infos, ~which)
        finally:
            self.rows[~which] = rows[~which]
            if masks.size:
                self.masks[~which] = masks[~which]
        return {i: problem for i, problem in problems.items() if which[i]}

    def last_rows(self, batch: AnyBatch, infos: Any, which: Sequence[int]) -> tuple[dict[int, Array], Problems]:
        """Return the rows of last observations that came besides the first ones of the next episodes."""
        rows, problems = {}, {}
        for i, observation in final_observations(batch, infos, which).items():
            rows[i] = np.zeros(self._encoder.width, self._encoder.dtype)
            try:
                self._encoder.encode_into(rows[i], observation)
            except ValueError as error:
                problems[i] = str(error)
        return rows, {**self._found(rows.items()), **problems}

    def _found(self, rows: Any) -> Problems:
        found = {i: self._check.problem(row) for i, row in rows}
        return {i: problem for i, problem in found.items() if problem}

    def _read_masks(self, observations: Any, infos: Any, needed: Array) -> Problems:
        """Keep the masks that the next actions must heed; a simulator without one allows everything."""
        self.masks = np.ones((len(self.rows), sum(self._mask_reader.sizes)), bool)
        if self._mask_reader.in_observation:
            masks, given = np.asarray(observations[MASK]), needed
        elif MASK in infos:
            masks, given = np.asarray(infos[MASK]), needed & np.asarray(infos.get(f"_{MASK}", True))
        else:
            return {}
        checked = self._mask_reader.checked_batch(masks)
        if checked is not None:
            allowed, is_good = checked
            self.masks[given & is_good] = allowed[given & is_good]
            given = given & ~is_good
        problems = {}
        for i in np.flatnonzero(given).tolist():
            try:
                self.masks[i] = self._mask_reader.checked(masks[i])
            except (TypeError, ValueError) as error:
                problems[i] = str(error)
        return problems
