"""The `ask` where clients are not in memory: the rows of the next cohort are read ahead."""

from typing import cast

import jax.numpy as jnp

from turnout.engines.compiled_ask import CompiledAsk
from turnout.problems.storage.fetched import Fetched
from turnout.samplers.indexed import Indexed


class FetchedAsk(CompiledAsk):
    """Answers `ask` while a round is traced, and has the rows read that the next round is likely to need."""

    @property
    def _storage(self) -> Fetched:
        return cast(Fetched, self.job.storage)

    def draw(self, sampler, method=None, message=None):
        number = self.state.draws
        cohort = super().draw(sampler, method, message)
        if isinstance(sampler, Indexed):
            # What changes the index later waits for this draw.
            later = jnp.minimum(0, cohort.ids[0])
            self._learn(self.draws.number(sampler), lambda state: state._replace(version=state.version + later))
        if not sampler.learns_from_feedback:
            self._prefetch(sampler, number)
        return cohort

    def observe(self, replies, feedback=None):
        super().observe(replies, feedback)
        place = self.draws.place(replies.cohort)
        sampler = self.draws.sampler(replies.cohort)
        if place is not None and sampler is not None and sampler.learns_from_feedback:
            self._prefetch(sampler, place)

    def _prefetch(self, sampler, number) -> None:
        """Have the rows of the cohort read that the next round is likely to draw, where drawing it takes little."""
        if sampler.draws_ahead and self.state.flight is None:
            state = self.state.samplers[self.draws.number(sampler)]
            self._storage.prefetch(sampler.draw(state, self.job.draw_key(self.round + 1, number), self.job.population).ids)
