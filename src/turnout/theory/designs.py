"""The constants mu_AS and sigma^2_AS of a sampling design, in closed form (Cohort Squeeze, equation (5) and table 4).

Throughout w_i = lambda_i / p_i, so that f_S = sum_{i in S} w_i f_i is unbiased for f = sum_i lambda_i f_i; with lambda_i = 1 / n
these are the constants of the paper. Samplers are bound. A shuffled sampler has the constants of one draw, which say nothing of
the dependence between draws.
"""

from functools import partial, singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from turnout.core.compiling import program
from turnout.core.errors import UserError
from turnout.problems.base import Population
from turnout.samplers import (
    Block,
    Full,
    Independent,
    Nice,
    NonUniform,
    Sampler,
    ShuffledNice,
    ShuffledStratified,
    Stratified,
    Subsets,
    WithReplacement,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def inclusion(sampler: Sampler, population: Population) -> Float[np.ndarray, " n"]:
    """Return p_i = P(i in S) [n].

    Args:
        sampler: Bound sampler.
        population: The clients.
    """
    return design(sampler, population).inclusion()


def convexity(sampler: Sampler, population: Population, mu: Float[np.ndarray, " n"]) -> float:
    """Return mu_AS = min {sum_{i in C} w_i mu_i: P(S = C) > 0}, which is 0 where S may be empty.

    Args:
        sampler: Bound sampler.
        population: The clients.
        mu: mu_i >= 0 of each f_i [n].
    """
    drawn = design(sampler, population)
    return float(drawn.least(population.lambdas * mu))


def variance(sampler: Sampler, population: Population, gradients: Float[np.ndarray, "n d"]) -> float:
    """Return sigma^2_AS = E|sum_{i in S} w_i g_i|^2.

    Away from x* it is the second moment: the variance plus |sum_i lambda_i g_i|^2.

    Args:
        sampler: Bound sampler.
        population: The clients.
        gradients: g_i = grad f_i(x*) [n, d], for which sum_i lambda_i g_i = 0.
    """
    drawn = design(sampler, population)
    return float(drawn.second_moment(population.lambdas[:, None] * gradients))


def stratified_bound(sampler: Sampler, population: Population, gradients: Float[np.ndarray, "n d"]) -> float:
    """Return b sum_j |C_j|^2 max_{i in C_j} |v_i - mean of C_j|^2 >= `variance`, v_i = lambda_i g_i (Cohort Squeeze, Lemma 1).

    Args:
        sampler: Bound sampler.
        population: The clients.
        gradients: g_i = grad f_i(x*) [n, d].

    Raises:
        UserError: If the sampler does not draw from every stratum.
    """
    drawn = design(sampler, population)
    if not isinstance(drawn, Staged) or drawn.drawn < drawn.sizes.size:
        raise UserError("Lemma 1 is about samplers that draw from every stratum: leave size out")
    largest = np.zeros(drawn.sizes.size)
    np.maximum.at(largest, drawn.stratum, drawn.deviations(population.lambdas[:, None] * gradients))
    return float(drawn.sizes.size * (drawn.sizes**2 @ largest))


class Listed(NamedTuple):
    """A design with S = row k of `members` [subsets, n], of ones and zeros, with `probability` [k].

    Args:
        members: Which clients are in each subset, ones and zeros [subsets, n].
        probability: Probability of each subset.
    """

    members: "csr_array"
    probability: Float[np.ndarray, " subsets"]

    def inclusion(self) -> Float[np.ndarray, " n"]:
        return self.probability @ self.members

    def least(self, parts: Float[np.ndarray, " n"]) -> float:
        """Return the least sum_{i in S} parts_i / p_i."""
        return np.min(self.members @ (parts / self.inclusion()))

    def second_moment(self, vectors: Float[np.ndarray, "n d"]) -> float:
        """Return E|sum_{i in S} vectors_i / p_i|^2."""
        return self.probability @ np.sum((self.members @ (vectors / self.inclusion()[:, None])) ** 2, axis=1)


class Staged(NamedTuple):
    """A design with one uniform client of each of `drawn` uniform strata; client i is in `stratum` [n].

    Args:
        stratum: Stratum of each client [n].
        drawn: Number of strata that a cohort has a client of.
    """

    stratum: Int[np.ndarray, " n"]
    drawn: int

    @property
    def sizes(self) -> Int[np.ndarray, " b"]:
        return np.bincount(self.stratum)

    @property
    def rarity(self) -> float:
        """b / s for s of b strata."""
        return self.sizes.size / self.drawn

    def inclusion(self) -> Float[np.ndarray, " n"]:
        return 1 / (self.rarity * self.sizes[self.stratum])

    def least(self, parts: Float[np.ndarray, " n"]) -> float:
        """Return the least sum_{i in S} parts_i / p_i, from the least client of each stratum and the least strata."""
        least = np.full(self.sizes.size, np.inf)
        np.minimum.at(least, self.stratum, parts)
        return self.rarity * np.sort(self.sizes * least)[: self.drawn].sum()

    def second_moment(self, vectors: Float[np.ndarray, "n d"]) -> float:
        """Return E|sum_{i in S} vectors_i / p_i|^2: (b/s) times the variation within strata, plus that between their sums z_j.

        (b/s)^2 E|sum_{j of s} z_j|^2 = (b/s) ((1 - q) sum_j |z_j|^2 + q |sum_j z_j|^2), q = (s - 1) / (b - 1).
        """
        sums = self.sums(vectors)
        paired = (self.drawn - 1) / max(1, self.sizes.size - 1)
        within = self.sizes[self.stratum] @ self.deviations(vectors)
        between = (1 - paired) * np.sum(sums**2) + paired * np.sum(sums.sum(axis=0) ** 2)
        return self.rarity * (within + between)

    def deviations(self, vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return |vectors_i - mean of its stratum|^2 [n]."""
        means = self.sums(vectors) / self.sizes[:, None]
        return np.sum((vectors - means[self.stratum]) ** 2, axis=1)

    def sums(self, vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "b d"]:
        """Return the sum of the vectors of each stratum [b, d]."""
        sums = np.zeros((self.sizes.size, vectors.shape[1]))
        np.add.at(sums, self.stratum, vectors)
        return sums


class Inside(NamedTuple):
    """A design with `size` uniform clients, or all where there are no more, of one block with `probability` [b].

    Args:
        blocks: The block of each client, as strata.
        probability: Probability of each block [b].
        size: The most clients of a cohort.
    """

    blocks: Staged
    probability: Float[np.ndarray, " b"]
    size: int

    @property
    def shares(self) -> Float[np.ndarray, " b"]:
        """P(i in S | block j) for its clients [b]."""
        return np.minimum(1, self.size / self.blocks.sizes)

    def inclusion(self) -> Float[np.ndarray, " n"]:
        return (self.probability * self.shares)[self.blocks.stratum]

    def least(self, parts: Float[np.ndarray, " n"]) -> float:
        """Return the least sum_{i in S} parts_i / p_i, that of the least clients of a block."""
        scaled = parts / self.inclusion()
        return min(np.sort(scaled[self.blocks.stratum == j])[: self.size].sum() for j in range(self.probability.size))

    def second_moment(self, vectors: Float[np.ndarray, "n d"]) -> float:
        """Return E|sum_{i in S} vectors_i / p_i|^2.

        It is sum_j (|z_j|^2 + (1 - c_j) / c_j |C_j| / (|C_j| - 1) D_j) / q_j for the sums z_j of the blocks, the sums D_j of the
        squared distances from their means, and c_j = P(i in S | block j).
        """
        sizes, within = self.blocks.sizes, np.bincount(self.blocks.stratum, self.blocks.deviations(vectors))
        missed = (1 - self.shares) / self.shares * sizes / np.maximum(sizes - 1, 1)
        return np.sum((np.sum(self.blocks.sums(vectors) ** 2, axis=1) + missed * within) / self.probability)


class Coins(NamedTuple):
    """A design with client i in S with `probability` p_i, independently of all others."""

    probability: Float[np.ndarray, " n"]

    def inclusion(self) -> Float[np.ndarray, " n"]:
        return self.probability

    def least(self, parts: Float[np.ndarray, " n"]) -> float:
        """Return the least sum_{i in S} parts_i / p_i, over the clients with p_i = 1."""
        return parts[self.probability == 1].sum()

    def second_moment(self, vectors: Float[np.ndarray, "n d"]) -> float:
        """Return E|sum_{i in S} vectors_i / p_i|^2 = |sum_i vectors_i|^2 + sum_i (1 - p_i) / p_i |vectors_i|^2."""
        p = self.probability
        return np.sum(vectors.sum(axis=0) ** 2) + ((1 - p) / p) @ np.sum(vectors**2, axis=1)


class Repeated(NamedTuple):
    """A design of `draws` = K independent clients, i with `chance` q_i; one drawn k times has the weight k / (K q_i).

    Args:
        chance: q_i, the probability of client i in each draw [n].
        draws: K, the number of draws.
    """

    chance: Float[np.ndarray, " n"]
    draws: int

    def inclusion(self) -> Float[np.ndarray, " n"]:
        """Return P(i in S) = 1 - (1 - q_i)^K."""
        return 1 - (1 - self.chance) ** self.draws

    def least(self, parts: Float[np.ndarray, " n"]) -> float:
        """Return the least mean of K parts_i / q_i, that of the least client drawn K times."""
        return np.min(parts / self.chance)

    def second_moment(self, vectors: Float[np.ndarray, "n d"]) -> float:
        """Return E|mean of K vectors_i / q_i|^2 = |s|^2 + (sum_i |vectors_i|^2 / q_i - |s|^2) / K, s = sum_i vectors_i."""
        mean = np.sum(vectors.sum(axis=0) ** 2)
        return mean + (np.sum(vectors**2, axis=1) @ (1 / self.chance) - mean) / self.draws


@singledispatch
def design(sampler: Sampler, population: Population) -> Listed | Staged | Inside | Coins | Repeated:
    """Return the distribution of one draw of `sampler`; a sampler that is registered here has all the constants.

    Args:
        sampler: The sampler, bound to the clients.
        population: The clients.
    """
    raise UserError(f"no theory here is about cohorts of {type(sampler).__name__}: they are biased or not fixed")


@design.register
def _(sampler: Full, population):
    return Staged(np.arange(population.count), population.count)


@design.register(Nice)
@design.register(ShuffledNice)
def _(sampler, population):
    return Staged(np.arange(population.count), sampler.size)


@design.register(Stratified)
@design.register(ShuffledStratified)
def _(sampler, population):
    stratum = _groups(sampler, population)
    return Staged(stratum, getattr(sampler, "size", None) or int(stratum.max()) + 1)


def _groups(sampler: Any, population: Population) -> Int[np.ndarray, " n"]:
    """Return the stratum or block of each client [n]."""
    sizes = np.diff(np.asarray(sampler.starts))
    groups = np.empty(population.count, int)
    groups[np.asarray(sampler.order)] = np.repeat(np.arange(sizes.size), sizes)
    return groups


@design.register
def _(sampler: NonUniform, population):
    from scipy.sparse import eye_array

    return Listed(eye_array(population.count, format="csr"), np.asarray(sampler.probability, float))


@design.register
def _(sampler: Block, population):
    from scipy.sparse import csr_array

    q = np.asarray(sampler.probability, float)
    if sampler.size is not None:
        return Inside(Staged(_groups(sampler, population), 1), q, sampler.size)
    return Listed(csr_array((np.ones(population.count), np.asarray(sampler.order), np.asarray(sampler.starts))), q)


@design.register
def _(sampler: Subsets, population):
    from scipy.sparse import csr_array

    sizes, ids = np.asarray(sampler.sizes), np.asarray(sampler.members)
    drawn = ids[np.arange(ids.shape[1]) < sizes[:, None]]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    members = csr_array((np.ones(drawn.size), drawn, starts), shape=(sizes.size, population.count))
    return Listed(members, np.asarray(sampler.probability, float))


@design.register
def _(sampler: Independent, population):
    fixed_state(sampler, population)
    with jax.enable_x64(True):
        return Coins(np.asarray(expected_draws(sampler, population)))


@design.register
def _(sampler: WithReplacement, population):
    with jax.enable_x64(True):
        return Repeated(np.asarray(sampler.draw_probabilities(fixed_state(sampler, population), population)), sampler.size)


@partial(program, quick=True)
def expected_draws(sampler: Sampler, population: Population) -> Float[Array, " n"]:
    """Return how often each client is expected in the first cohort of a bound sampler.

    Args:
        sampler: The sampler, bound to the clients.
        population: The clients.
    """
    return sampler.expected_draws(sampler.start(population), population)


def fixed_state(sampler: Sampler, population: Population):
    """Return the only state of a sampler that does not learn; raise `UserError` for others.

    Args:
        sampler: The sampler, bound to the clients.
        population: The clients.
    """
    if sampler.learns_from_feedback or sampler.consults_before_draw:
        raise UserError("no theory here is about samplers with changing probabilities: take fixed ones")
    return sampler.start(population)
