"""The rules of Go on a small board: captures, ko, suicide, and area scoring."""

from __future__ import annotations

from collections.abc import Iterable

EMPTY, BLACK, WHITE = 0, 1, -1


class Board:
    """Stones on `size` x `size` points, numbered row by row; no position may come again (positional superko)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.stones = [EMPTY] * (size * size)
        self._seen = {tuple(self.stones)}
        self._neighbours = [self._around(point) for point in range(size * size)]

    def _around(self, point: int) -> list[int]:
        row, column = divmod(point, self.size)
        steps = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
        return [r * self.size + c for r, c in steps if 0 <= r < self.size and 0 <= c < self.size]

    def legal(self, colour: int) -> list[bool]:
        """Return for each point whether a stone of this colour may be put there."""
        liberties = self._liberties()
        return [self._is_legal(point, colour, liberties) for point in range(len(self.stones))]

    def play(self, point: int, colour: int) -> None:
        """Put a stone on a legal point, and take what it captures off the board."""
        self.stones = self._after(point, colour)
        self._seen.add(tuple(self.stones))

    def area(self) -> int:
        """Return Black's points less White's: stones, and empty regions that touch one colour alone."""
        score, visited = sum(self.stones), set[int]()
        for point, stone in enumerate(self.stones):
            if stone == EMPTY and point not in visited:
                region = self._connected(self.stones, point)
                visited |= region
                touched = {self.stones[other] for other in self._border(region)}
                if len(touched) == 1:
                    score += touched.pop() * len(region)
        return score

    def _is_legal(self, point: int, colour: int, liberties: list[int]) -> bool:
        if self.stones[point] != EMPTY:
            return False
        around = self._neighbours[point]
        captures = any(self.stones[other] == -colour and liberties[other] == 1 for other in around)
        if captures:
            return tuple(self._after(point, colour)) not in self._seen
        return any(
            self.stones[other] == EMPTY or (self.stones[other] == colour and liberties[other] > 1)
            for other in around
        )

    def _liberties(self) -> list[int]:
        """Return for each stone how many liberties its chain has; 0 for empty points."""
        found = [0] * len(self.stones)
        for point, stone in enumerate(self.stones):
            if stone != EMPTY and not found[point]:
                chain = self._connected(self.stones, point)
                count = sum(self.stones[other] == EMPTY for other in self._border(chain))
                for other in chain:
                    found[other] = count
        return found

    def _after(self, point: int, colour: int) -> list[int]:
        stones = list(self.stones)
        stones[point] = colour
        for other in self._neighbours[point]:
            if stones[other] == -colour:
                chain = self._connected(stones, other)
                if all(stones[border] != EMPTY for border in self._border(chain)):
                    for captured in chain:
                        stones[captured] = EMPTY
        return stones

    def _connected(self, stones: list[int], start: int) -> set[int]:
        found, waiting = {start}, [start]
        while waiting:
            for other in self._neighbours[waiting.pop()]:
                if other not in found and stones[other] == stones[start]:
                    found.add(other)
                    waiting.append(other)
        return found

    def _border(self, region: Iterable[int]) -> set[int]:
        inside = set(region)
        return {other for point in inside for other in self._neighbours[point]} - inside
