"""Systematic draws of an expected number of clients that follows the steps of the parameters."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from turnout.core.errors import UserError
from turnout.core.records import Count, Positive, Proper, record, static
from turnout.core.tree import positive
from turnout.samplers.base import Sampler
from turnout.samplers.independent import Independent
from turnout.samplers.probabilities import Probability
from turnout.samplers.systematic import Systematic

MEMORY = 0.98
"""The weight of the former mean in the running mean of the steps."""

SIZE = (jax.tree_util.GetAttrKey("size"),)
"""The place of the expected size in a sampler."""

SLACK = math.e
"""How far k may fall below `smallest`, so that a single step against the others does not raise K."""


class SizeState(NamedTuple):
    """The state of `AdaptiveSize`.

    Args:
        size: k; the next cohort has K = max(k, smallest) clients on average.
        x: The last parameters [d].
        mean: m, the running mean of the steps [d]; 0 before the first.
        inner: State of the inner sampler.
    """

    size: Float[Array, ""]
    x: Float[Array, " d"]
    mean: Float[Array, " d"]
    inner: Any


@record
class AdaptiveSize(Sampler):
    """Systematic sampling whose expected size K follows the cosine of the last step and the mean of the former ones.

    k <- k exp(rate (tau - c)), clipped to [smallest / e, largest], and K = max(k, smallest);
    c = <d, m> / (|d| |m|) with d = x^{t+1} - x^t, and then m <- 0.98 m + 0.02 d.

    The first K is `smallest`, and a round without a step changes nothing. K, and so every p_i, is known before the draw:
    E[sum_{i in S} (lambda_i / p_i) r_i | past] = sum_i lambda_i r_i, for any rule. If d = -gamma g with E[g | past] = grad f(x),
    then E[<d, m> | past] = -gamma <grad f(x), m>: K falls while f still decreases along the mean step, and grows once noise
    hides its direction (Pflug, 1990, tests the same sign for a step size). Two laws say what agreement gives:

    for a quadratic f and successive steps, E f(x^{t+1}) = f(x^t) - gamma |grad f(x^t)|^2 / 2 - E<d^t, d^{t+1}> / (2 gamma), so
    f falls by at least gamma |grad f|^2 / 2 on average wherever they do not oppose each other;

    for any f, wherever E<d, m> >= tau |m| sqrt(E|d|^2), the Cauchy-Schwarz inequality gives the norm test (Byrd et al., 2012)
    E|g - grad f|^2 <= theta |grad f|^2 with 1 + theta = 1 / tau^2, and an L-smooth f decreases on average by at least
    gamma |grad f|^2 (1 - L gamma (1 + theta) / 2): for gamma = gamma_0 / (1 + theta) that is the bound of gradient descent with
    gamma_0, divided by 1 + theta.

    A small tau suits noise that does little harm, as with short steps: the cosine is then small though f falls. A larger one
    takes fewer rounds and more contacts. m is a mean of about 50 steps, and has 1 % of the variance of one.

    The server needs nothing but its own parameters, of which it stores two copies. With momentum at the server, steps are similar
    whatever the noise, and K stays small.

    Args:
        sampler: Systematic or independent draws by a rule, whose `size` is the largest K. Small cohorts of independent draws are
            often empty.
        smallest: The smallest K, with which a run begins, > 0.
        cosine: tau in [0, 1), the cosine that K is steered to.
        rate: Change of log K for a cosine off by one, > 0.
        dimension: Set by `fit`: d, the number of parameters.

    Raises:
        UserError: On binding, if the sampler has numbers as probabilities, or `smallest` is above its `size`; without a problem.

    Examples:
        >>> import turnout as t
        >>> sampler = t.AdaptiveSize(t.Systematic(t.LastNorm(), size=8))
        >>> problem = t.Quadratic.random(clients=12, dimension=3, seed=0)
        >>> trace = t.run(t.MbGd(sampler, lr=0.02), problem, rounds=20)
        >>> trace.ledger.totals()["contacts"] < 8 * 20
        True
    """

    sampler: Systematic | Independent
    smallest: Positive = 1.0
    cosine: Proper = 0.05
    rate: Positive = 0.2
    dimension: Count | None = static(default=None, repr=False, kw_only=True)

    supports_availability = True

    @property
    def learns_from_feedback(self) -> bool:
        return self.sampler.learns_from_feedback

    @property
    def consults_before_draw(self) -> bool:
        return self.sampler.consults_before_draw

    @property
    def is_charged(self) -> bool:
        return self.sampler.is_charged

    def fit(self, problem):
        x = jax.eval_shape(problem.start, jax.random.key(0))
        self._check()
        dimension = sum(leaf.size for leaf in jax.tree.leaves(x))
        return replace(self, sampler=self.sampler.fit(problem), dimension=dimension)

    def bind(self, population):
        if self.dimension is None:
            raise UserError("sampler 'adaptive-size' needs the number of parameters: fit it to a problem")
        self._check()
        return replace(self, sampler=self.sampler.bind(population))

    def _check(self):
        if self.sampler.size is None or not isinstance(self.sampler.probability, Probability | None):
            raise UserError("sampler 'adaptive-size' needs a size and a rule in its sampler, not given probabilities")
        if self.smallest > self.sampler.size:
            raise UserError(
                f"sampler 'adaptive-size' has smallest = {self.smallest:g} above the size {self.sampler.size:g} of its sampler: "
                "lower it"
            )

    def for_rounds(self, rounds):
        return replace(self, sampler=self.sampler.for_rounds(rounds))

    def start(self, population):
        zeros = jnp.zeros(self.dimension or 0, jnp.result_type(float))
        size = jnp.asarray(self.smallest, zeros.dtype)
        return SizeState(size, zeros, zeros, self.sampler.start(population))

    def refresh(self, state, ask, x):
        x = ravel_pytree(x)[0].astype(state.x.dtype)
        step = jnp.where(ask.round == 1, 0, x - state.x)
        state = state._replace(size=self._next_size(state, step), x=x, mean=next_mean(state.mean, step))
        # The engine finds what clients are asked by the record that the run has, which has the largest K.
        return state._replace(inner=self.sampler.refresh(state.inner, ask, x))

    def _next_size(self, state: SizeState, step: Float[Array, " d"]) -> Float[Array, ""]:
        """Return k after a `step`."""
        lengths = jnp.linalg.norm(step) * jnp.linalg.norm(state.mean)
        cosine = jnp.vdot(step, state.mean) / positive(lengths)
        rate, wanted, least, most = (
            jnp.asarray(a, step.dtype) for a in (self.rate, self.cosine, self.smallest, self.sampler.size)
        )
        return jnp.where(lengths > 0, jnp.clip(state.size * jnp.exp(rate * (wanted - cosine)), least / SLACK, most), state.size)

    def _sized(self, state: SizeState) -> Systematic | Independent:
        """Return the inner sampler with the present K."""
        size = jnp.maximum(state.size, self.smallest)
        return jax.tree_util.tree_map_with_path(lambda path, leaf: size if path == SIZE else leaf, self.sampler)

    def draw(self, state, key, population):
        return self._sized(state).draw(state.inner, key, population)

    def advance(self, state, key):
        return state._replace(inner=self.sampler.advance(state.inner, key))

    def observe(self, state, cohort, feedback):
        return state._replace(inner=self._sized(state).observe(state.inner, cohort, feedback))

    def consulted_cohort(self, state, key, population):
        return self._sized(state).consulted_cohort(state.inner, key, population)

    def observe_consulted(self, state, values, answered, population):
        return state._replace(inner=self._sized(state).observe_consulted(state.inner, values, answered, population))

    def calibrated(self, state, ask, population, size=None):
        # As in `refresh`, the record that clients know is the one with the largest K.
        return state._replace(inner=self.sampler.calibrated(state.inner, ask, population, self._sized(state).size))

    def expected_draws(self, state, population):
        return self._sized(state).expected_draws(state.inner, population)

    def variance(self, state, population, vectors):
        return self._sized(state).variance(state.inner, population, vectors)


def next_mean(mean: Float[Array, " d"], step: Float[Array, " d"]) -> Float[Array, " d"]:
    """Return the running mean of the steps after another `step`, unchanged if that is 0.

    Args:
        mean: The mean so far [d].
        step: The step [d].
    """
    return jnp.where(jnp.any(step != 0), MEMORY * mean + (1 - MEMORY) * step, mean)
