"""Clients that come and go."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from turnout.core.errors import UserError
from turnout.core.records import Fraction, Share, record
from turnout.samplers.base import Sampler, fractions

WHO_IS_ON = 2**31 - 1
"""Folded into the server's key, from which an algorithm may split off keys of its own."""


@record
class Available(Sampler):
    """`sampler` draws from the clients that are available: client i with `probability` q_i, one number or n of them.

    What it draws counts for 1 / (q_i p_i), p_i given who is available, so that it learns from pi_i / q_i (K-Vib, appendix E.1).
    With `memory` = rho the clients are Markov chains, P(on | on) = q_i + rho (1 - q_i) and P(on | off) = (1 - rho) q_i,
    stationary from the start; averages are then unbiased over the chains' law, but not given the past. The state is who is on
    [n], drawn before each round, and the state of `sampler`. In a real federation who is on is who is connected.
    """

    sampler: Sampler
    probability: Any | Fraction | list[Fraction]
    memory: Share = 0.0

    @property
    def replacement(self) -> str:
        return self.sampler.replacement

    @property
    def learns_from_feedback(self) -> bool:
        return self.sampler.learns_from_feedback

    @property
    def consults_before_draw(self) -> bool:
        return self.sampler.consults_before_draw

    @property
    def is_charged(self) -> bool:
        return self.sampler.is_charged

    @property
    def feedback_kind(self) -> str:
        return self.sampler.feedback_kind

    @property
    def weights(self) -> str:
        return f"{self.sampler.weights} / q_i"

    def fit(self, problem):
        return replace(self, sampler=self.sampler.fit(problem))._bound(problem.population)

    def bind(self, population):
        return replace(self, sampler=self.sampler.bind(population))._bound(population)

    def _bound(self, population):
        if not self.sampler.supports_availability:
            name = type(self.sampler).__name__
            raise UserError(f"sampler {name} draws from all clients: take one that can leave some out, such as 'independent'")
        return replace(self, probability=fractions(self.probability, population.count, "available", one=True))

    def for_rounds(self, rounds):
        return replace(self, sampler=self.sampler.for_rounds(rounds))

    def start(self, population):
        return jnp.zeros(population.count, bool), self.sampler.start(population)

    def refresh(self, state, ask, x):
        on, inner = state
        there = ask.connected()
        return self._coins(on, ask) if there is None else there, self.sampler.refresh(inner, ask, x)

    def _coins(self, on, ask) -> Bool[Array, " n"]:
        """Return who is on after one step of each client's chain."""
        q = self._presence(on.size)
        rho = jnp.asarray(self.memory, q.dtype)
        chance = jnp.where(ask.round == 1, q, (1 - rho) * q + jnp.where(on, rho, 0))
        return jax.random.uniform(jax.random.fold_in(ask.key(), WHO_IS_ON), q.shape, q.dtype) < chance

    def _presence(self, n: int) -> Float[Array, " n"]:
        """Return q_i."""
        return jnp.broadcast_to(jnp.asarray(self.probability, jnp.result_type(float)), (n,))

    def _counted(self, values: Float[Array, " m"], q: Float[Array, " m"]) -> Float[Array, " m"]:
        """Return norms |r_i| as they count, |r_i| / q_i, and losses as they are."""
        return values if self.feedback_kind == "loss" else values / q.astype(values.dtype)

    def with_availability(self, state, population):
        return replace(population, available=state[0], presence=self._presence(population.count))

    def draw(self, state, key, population):
        return self.sampler.draw(state[1], key, self.with_availability(state, population))

    def advance(self, state, key):
        return state[0], self.sampler.advance(state[1], key)

    def observe(self, state, cohort, feedback):
        on, inner = state
        return on, self.sampler.observe(inner, cohort, self._counted(feedback, self._presence(on.size)[cohort.ids]))

    def consulted_cohort(self, state, key, population):
        return self.sampler.consulted_cohort(state[1], key, self.with_availability(state, population))

    def observe_consulted(self, state, values, answered, population):
        on, inner = state
        values = self._counted(values, self._presence(on.size))
        return on, self.sampler.observe_consulted(inner, values, answered, self.with_availability(state, population))

    def expected_draws(self, state, population):
        return self.sampler.expected_draws(state[1], self.with_availability(state, population))

    def variance(self, state, population, vectors):
        q = self._presence(population.count).astype(vectors.dtype)
        return self.sampler.variance(state[1], self.with_availability(state, population), vectors / q[:, None])
