"""The `ask` where clients are not in memory: the rows of the next cohort are read ahead."""

from dataclasses import replace
from typing import cast

import jax.numpy as jnp
from jaxtyping import Array, Int

from turnout.engines.compiled_ask import CompiledAsk
from turnout.problems.storage.fetched import Fetched
from turnout.samplers.indexed import Indexed


class FetchedAsk(CompiledAsk):
    """Answers `ask` while a round is traced, and has the rows read that the next round is likely to need."""

    @property
    def _storage(self) -> Fetched:
        return cast(Fetched, self.job.storage)

    def _draw(self, sampler, state, key, population):
        cohort = super()._draw(sampler, state, key, population)
        if sampler.learns_from_feedback:
            return cohort
        # The next cohort is asked for before this one, so that its rows are read while this one computes.
        return replace(cohort, ids=cohort.ids + jnp.minimum(0, self._prefetch(sampler, state, self.state.draws)))

    def draw(self, sampler, method=None, message=None):
        cohort = super().draw(sampler, method, message)
        self._wait(sampler, cohort.ids[0])
        return cohort

    def observe(self, replies, feedback=None):
        super().observe(replies, feedback)
        place, sampler = self.draws.place(replies.cohort), self.draws.sampler(replies.cohort)
        if place is not None and sampler is not None and sampler.learns_from_feedback:
            self._wait(sampler, self._prefetch(sampler, self.state.samplers[self.draws.number(sampler)], place))

    def _wait(self, sampler, drawn: Int[Array, ""]) -> None:
        """Have whatever changes an index later wait for a draw from it, of which `drawn` is a number of at least 0."""
        if isinstance(sampler, Indexed):
            later = jnp.minimum(0, drawn)
            self._learn(self.draws.number(sampler), lambda state: state._replace(version=state.version + later))

    def _prefetch(self, sampler, state, number) -> Int[Array, ""]:
        """Have the rows read of the cohort that the next round is likely to draw, where drawing it takes little; return 0."""
        if not sampler.draws_ahead or self.state.flight is not None:
            return jnp.zeros((), "int32")
        key = self.job.draw_key(self.round + 1, number)
        return self._storage.prefetch(sampler.draw(state, key, self.job.population).ids)
