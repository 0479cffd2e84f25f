"""One request to the SuperLink at a time, the more urgent ones first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count


class Turns:
    """A lock for which tasks wait by rank, and those of the same rank in the order in which they came."""

    def __init__(self):
        self._waiting: list[tuple[int, int, asyncio.Future]] = []
        self._taken, self._number = False, count()

    @asynccontextmanager
    async def take(self, rank: int) -> AsyncIterator[None]:
        """Wait for a turn; a smaller `rank` comes first."""
        if self._taken:
            turn = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (rank, next(self._number), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._pass_on()
                raise
        self._taken = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give the turn to the first who still waits."""
        while self._waiting:
            *_, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
