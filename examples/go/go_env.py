"""Go on a small board against a program that speaks the Go Text Protocol, such as Pachi or GNU Go."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from board import BLACK, WHITE, Board
from gtp import GoProgram, point_of, vertex
from numpy.typing import NDArray

Observation = NDArray[np.float32]


class GoAgainstProgram(gymnasium.Env[Observation, np.int64]):
    """The agent is Black, the program White; 1 for a game won, -1 for one lost, under area scoring.

    The observation is three planes (own stones, the program's, where the agent may play) and whether the program
    has just passed. The last action is a pass; two passes in a row end the game, and so do 2 x size² moves.
    Illegal moves are masked.
    """

    def __init__(self, program: str, size: int = 9, komi: float = 6.5) -> None:
        self._size, self._komi = size, komi
        self._points = size * size
        self.observation_space = gymnasium.spaces.Box(0, 1, (3 * self._points + 1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(self._points + 1)
        self._program = GoProgram(program)
        self._program.ask(f"boardsize {size}")
        self._program.ask(f"komi {komi}")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a game with some random moves on both sides, so that no two games are alike."""
        super().reset(seed=seed)
        self._program.ask("clear_board")
        self._board = Board(self._size)
        self._moves = 0
        self._program_passed = False
        for colour in (BLACK, WHITE):
            legal = np.flatnonzero(self._board.legal(colour))
            self._play(int(self.np_random.choice(legal)), colour)
            self._tell(colour)
        return self._observe()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play the agent's move and the program's answer."""
        over = self._play(int(action), BLACK) and self._program_passed
        if not over:
            self._tell(BLACK)
            answer = self._program.ask("genmove white")
            if answer.lower() == "resign":
                return self._ended(won=True)
            self._program_passed = self._play(point_of(answer, self._size), WHITE)
            over = self._program_passed and int(action) == self._points
        if over or self._moves >= 2 * self._points:
            return self._ended(won=self._board.area() > self._komi)
        observation, info = self._observe()
        return observation, 0.0, False, False, info

    def close(self) -> None:
        """End the program."""
        self._program.close()

    def _play(self, point: int, colour: int) -> bool:
        """Make a move on our own board; return whether it is a pass."""
        self._moves += 1
        self._last = point
        if point == self._points:
            return True
        self._board.play(point, colour)
        return False

    def _tell(self, colour: int) -> None:
        name = "black" if colour == BLACK else "white"
        self._program.ask(f"play {name} {vertex(self._last, self._size)}")

    def _observe(self) -> tuple[Observation, dict[str, Any]]:
        legal = np.array([*self._board.legal(BLACK), True])
        stones = np.array(self._board.stones)
        planes = [stones == BLACK, stones == WHITE, legal[:-1], [self._program_passed]]
        return np.concatenate(planes).astype(np.float32), {"action_mask": legal.astype(np.int8)}

    def _ended(self, won: bool) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        observation, info = self._observe()
        return observation, 1.0 if won else -1.0, True, False, info | {"won": float(won), "moves": self._moves}
