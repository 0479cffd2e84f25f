"""Clients that are available in some rounds only."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from turnout.core.errors import UserError
from turnout.core.records import Fraction, Positive, Share, record, static
from turnout.samplers.base import Sampler, as_probabilities
from turnout.samplers.in_double import in_double
from turnout.samplers.intervals import read, table_of

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

    With a `trace`, client i is available from its begins up to its ends, and the trace repeats with its period. q_i is then the
    share of the period in which it is available, so that averages are unbiased over a period in which rounds are spread evenly:
    over any whole period of rounds, but given the round they are not, and in seconds only as far as who is available does not
    change how long rounds take. In seconds, the server waits for the next client where none is available.

    Args:
        sampler: The inner sampler, which must support availability.
        probability: q in (0, 1], one number or [n].
        memory: rho in [0, 1], the correlation of a client's availability between successive rounds.
        trace: Intervals in the place of `probability`: rows of client, from and to [k, 3], or a CSV file with these columns. The
            first round is at 0.
        unit: "rounds" or "seconds" of the trace; seconds are those on the clock of `turnout.devices`.
        period: Time after which the trace repeats; default: its last end.

    Raises:
        UserError: On binding, if the inner sampler does not support availability, or `probability` or `trace` does not fit.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
        >>> algorithm = t.MbGd(t.Available(t.Nice(2), probability=0.5), lr=0.01)
        >>> t.run(algorithm, problem, rounds=20).ledger.totals()["available"] < 6 * 20
        True
    """

    sampler: Sampler
    probability: Fraction | list[Fraction] | np.ndarray | None = None
    memory: Share = 0.0
    trace: np.ndarray | list[list[float]] | str | Path | None = None
    unit: Literal["rounds", "seconds"] = static(default="rounds")
    period: Positive | None = None

    def __post_init__(self):
        if self.trace is None and (self.probability is None or self.period is not None or self.unit != "rounds"):
            raise UserError("sampler 'available' needs a probability, or a trace with its unit and period: give one of them")
        if self.trace is not None and not self._traced and (self.probability is not None or not _is_zero(self.memory)):
            raise UserError("sampler 'available' takes who is available from its trace: leave probability and memory out")

    @property
    def _traced(self) -> bool:
        """Whether the trace is bound: the intervals of each client [n, most, 2]."""
        return getattr(self.trace, "ndim", 0) == 3

    @property
    def needs_clock(self) -> bool:
        return self.unit == "seconds"

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
        if self.trace is not None:
            return self if self._traced else self._with_trace(population.count)
        return replace(self, probability=as_probabilities(self.probability, population.count, "available", scalar=True))

    def _with_trace(self, n: int):
        """Return this sampler with the intervals of each of n clients, and the share of time in which it is available."""
        rows = read(Path(self.trace), n) if isinstance(self.trace, str | Path) else np.asarray(self.trace, float)
        table, period, share = table_of(rows, n, self.period, whole=self.unit == "rounds")
        return replace(self, trace=table, period=period, probability=share)

    def for_rounds(self, rounds):
        return replace(self, sampler=self.sampler.for_rounds(rounds))

    def start(self, population):
        return jnp.zeros(population.count, bool), self.sampler.start(population)

    def refresh(self, state, ask, x):
        on, inner = state
        connected = ask.connected()
        if connected is None and self.trace is not None:
            connected, wait = self._at(ask.round - 1 if self.unit == "rounds" else ask.seconds())
            if self.unit == "seconds":
                ask.wait(wait)
        elif connected is None:
            connected = self._transition(on, jax.random.fold_in(ask.key(), AVAILABILITY_KEY), ask.round == 1)
        return connected, self.sampler.refresh(inner, ask, x)

    def _at(self, time) -> tuple[Bool[Array, " n"], Float[Array, ""]]:
        """Return who is available at a time, and 0; if nobody is, who is the next to come, and the time until then."""
        kind = jnp.result_type(float)
        begins, ends = (jnp.asarray(self.trace, kind)[:, :, k] for k in (0, 1))
        period = jnp.asarray(self.period, kind)
        now = jnp.mod(jnp.asarray(time, kind), period)
        on = jnp.any((begins <= now) & (now < ends), axis=1)
        if self.unit == "rounds":
            return on, jnp.zeros((), kind)
        until = jnp.min(jnp.where(begins < ends, jnp.mod(begins - now, period), period), axis=1)
        wait = jnp.where(jnp.any(on), 0, jnp.min(until))
        return jnp.where(jnp.any(on), on, until <= wait), wait

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
        return replace(population, available=state[0] & population.present, presence=self._q(population.count))

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

    def calibrated(self, state, ask, population, size=None):
        return state[0], self.sampler.calibrated(state[1], ask, self.with_availability(state, population), size)

    def expected_draws(self, state, population):
        return self.sampler.expected_draws(state[1], self.with_availability(state, population))

    def variance(self, state, population, vectors):
        q = self._q(population.count).astype(vectors.dtype)
        return self.sampler.variance(state[1], self.with_availability(state, population), vectors / q[:, None])


def _is_zero(memory) -> bool:
    return isinstance(memory, float) and memory == 0
