"""Exchanges of a hub that plays rounds with its own clients."""

import numpy as np
from jaxtyping import PyTree

from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.flower.engine import FlowerAsk
from turnout.engines.messaging import ask_header


class PlayAsk(FlowerAsk):
    """Answers `ask` in a hub by messages to its own clients.

    Args:
        before: Version of each client's state before the hub began [n, 2].
        *arguments: Arguments of the base class.
    """

    def __init__(self, before, *arguments):
        super().__init__(*arguments)
        self.before, self._done = before, 0

    @property
    def done(self) -> int:
        """How many exchanges the hub has made."""
        return self._done

    def _header(self, method, number, weight):
        versions = self.versions[number], self.stored[number]
        return ask_header(method, *versions, self._version(), weight, self.before[number])

    def _exchange(self, *arguments):
        received = super()._exchange(*arguments)
        self._done += 1
        return received

    def in_hub(self, path: str, hub: int, message: PyTree, state: PyTree) -> tuple[PyTree, PyTree]:
        """Return the reply of a hub, with its statistics, and its new state.

        Args:
            path: Path of the call.
            hub: Number of the hub.
            message: What the server sent.
            state: State of the hub.
        """
        sizes = np.bincount(np.asarray(self.job.population.strata))
        with self.calls.inside(path):
            return self._at_work(hub, int(sizes.max()), self.state, self.key(), strongly_typed(message), state)
