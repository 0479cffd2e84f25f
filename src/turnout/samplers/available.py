"""Clients that are available in some rounds only."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from turnout.core.errors import UserError
from turnout.core.records import Fraction, Share, record
from turnout.samplers.base import Sampler, as_probabilities
from turnout.samplers.in_double import in_double

AVAILABILITY_KEY = 2**31 - 1
"""Folded into the server's key, so that availability does not share keys with the algorithm."""


@record
class Available(Sampler):
    """Another sampler, restricted to the clients that are available: client i is, with probability q_i, in each round.

    A drawn client counts 1 / (q_i p_i), p_i being its inclusion probability given who is available, so averages are unbiased over
    both. The inner sampler learns from pi_i / q_i (K-Vib, Zeng et al., 2023, appendix E.1). With memory rho the availability of
    each client is a stationary Markov chain, P(on | on) = q_i + rho (1 - q_i) and P(on | off) = (1 - rho) q_i; averages are then
    unbiased over the chain, but not given the past. The state is who is available [n], drawn before each round, and the inner
    sampler's state. In a federation of real nodes the connected ones are available.

    Args:
        sampler: The inner sampler, which must support availability.
        probability: q in (0, 1], one number or [n].
        memory: rho in [0, 1], the correlation of a client's availability between successive rounds.

    Raises:
        UserError: On binding, if the inner sampler does not support availability or `probability` does not fit.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
        >>> algorithm = t.MbGd(t.Available(t.Nice(2), probability=0.5), lr=0.01)
        >>> t.run(algorithm, problem, rounds=20).ledger.totals()["available"] < 6 * 20
        True
    """

    sampler: Sampler
    probability: Fraction | list[Fraction] | np.ndarray
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
        return replace(self, probability=as_probabilities(self.probability, population.count, "available", scalar=True))

    def for_rounds(self, rounds):
        return replace(self, sampler=self.sampler.for_rounds(rounds))

    def start(self, population):
        return jnp.zeros(population.count, bool), self.sampler.start(population)

    def refresh(self, state, ask, x):
        on, inner = state
        connected = ask.connected()
        if connected is None:
            connected = self._transition(on, jax.random.fold_in(ask.key(), AVAILABILITY_KEY), ask.round == 1)
        return connected, self.sampler.refresh(inner, ask, x)

    @in_double
    def _transition(self, on, key, first) -> Bool[Array, " n"]:
        """Return who is available after one step of each client's chain, or in the `first` round."""
        q = self._q(on.size)
        rho = jnp.asarray(self.memory, q.dtype)
        p = jnp.where(first, q, (1 - rho) * q + jnp.where(on, rho, 0))
        return jax.random.uniform(key, q.shape, q.dtype) < p

    def _q(self, n: int) -> Float[Array, " n"]:
        """Return q_i."""
        return jnp.broadcast_to(jnp.asarray(self.probability, jnp.result_type(float)), (n,))

    def _scaled(self, values: Float[Array, " m"], q: Float[Array, " m"]) -> Float[Array, " m"]:
        """Return norms divided by q_i, and losses unchanged."""
        return values if self.feedback_kind == "loss" else values / q.astype(values.dtype)

    def with_availability(self, state, population):
        return replace(population, available=state[0], presence=self._q(population.count))

    def draw(self, state, key, population):
        return self.sampler.draw(state[1], key, self.with_availability(state, population))

    def advance(self, state, key):
        return state[0], self.sampler.advance(state[1], key)

    def observe(self, state, cohort, feedback):
        on, inner = state
        return on, self.sampler.observe(inner, cohort, self._scaled(feedback, self._q(on.size)[cohort.ids]))

    def consulted_cohort(self, state, key, population):
        return self.sampler.consulted_cohort(state[1], key, self.with_availability(state, population))

    def observe_consulted(self, state, values, answered, population):
        on, inner = state
        values = self._scaled(values, self._q(on.size))
        return on, self.sampler.observe_consulted(inner, values, answered, self.with_availability(state, population))

    def expected_draws(self, state, population):
        return self.sampler.expected_draws(state[1], self.with_availability(state, population))

    def variance(self, state, population, vectors):
        q = self._q(population.count).astype(vectors.dtype)
        return self.sampler.variance(state[1], self.with_availability(state, population), vectors / q[:, None])
