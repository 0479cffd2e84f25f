"""Checks of a sampler: its draws against the probabilities it declares, and all that an algorithm owes."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.cohort import Cohort
from turnout.core.local_methods import norm
from turnout.core.records import record, static
from turnout.core.seeds import Seeds
from turnout.core.tree import add
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.reply_usage import survey
from turnout.engines.state import begin, play_round
from turnout.engines.sweep import in_batches
from turnout.problems.base import Problem
from turnout.runs.setup import bind, prepare, scope
from turnout.samplers import Sampler
from turnout.testing import algorithms
from turnout.testing.case import ROUNDS, Case

RUNS = 8192
"""Runs of `ROUNDS` draws each, with seeds of their own."""

TOGETHER = 1024
"""Runs that are computed at a time."""

FALSE_ALARM = 1e-6
"""How likely a sampler is refused whose draws are as it declares."""


class Draws(NamedTuple):
    """What the draws of a run add up to: for each client [n] how often it was drawn, the sum of its expansions and the largest.

    `lowest` and `highest` are the least and the largest id in a place in use, `places` those with a client that has another
    place in the same cohort, and `weights` those whose weight is not finite or not above 0.
    """

    hits: Float[Array, " n"]
    expansions: Float[Array, " n"]
    largest: Float[Array, " n"]
    lowest: Int[Array, ""]
    highest: Int[Array, ""]
    places: Int[Array, ""]
    weights: Int[Array, ""]

    @classmethod
    def none(cls, n: int) -> "Draws":
        """Return the sums over no draws."""
        zeros, zero = jnp.zeros(n, jnp.result_type(float)), jnp.zeros((), "int32")
        return cls(zeros, zeros, zeros, zero, zero, zero, zero)

    def plus(self, cohort: Cohort) -> "Draws":
        """Return the sums with one more cohort."""
        n = self.hits.size
        ids, active = jnp.asarray(cohort.ids, "int32"), jnp.asarray(cohort.active)
        inside = active & (ids >= 0) & (ids < n)
        places = jnp.where(inside, ids, n)
        expansion = jnp.asarray(cohort.expansion, self.hits.dtype)
        hits = jnp.zeros_like(self.hits).at[places].add(inside.astype(self.hits.dtype), mode="drop")
        good = jnp.isfinite(cohort.weight) & (cohort.weight > 0) & jnp.isfinite(cohort.probability) & (cohort.probability > 0)
        return Draws(
            self.hits + hits,
            self.expansions.at[places].add(expansion, mode="drop"),
            self.largest.at[places].max(expansion, mode="drop"),
            jnp.minimum(self.lowest, jnp.min(jnp.where(active, ids, 0))),
            jnp.maximum(self.highest, jnp.max(jnp.where(active, ids, 0))),
            self.places + jnp.sum(hits > 1, dtype="int32"),
            self.weights + jnp.sum(active & ~good, dtype="int32"),
        )


class Server(NamedTuple):
    """The parameters, and the sums over the draws so far."""

    x: PyTree
    draws: Draws


@record
class Probe(Algorithm):
    """x <- x - mean_{i in S} grad f_i(x) / (1 + |mean|): a short step, which any sampler serves."""

    sampler: Sampler
    clients: int = static(default=0, repr=False)

    def bind(self, problem):
        return replace(self, clients=problem.clients)

    def start(self, ask, x):
        return Server(x, Draws.none(self.clients))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        cohort = ask.draw(self.sampler, self.gradient, server.x)
        replies = ask(cohort, self.gradient, server.x)
        ask.observe(replies)
        mean = replies.mean()
        return Server(add(server.x, mean, -1 / (1 + norm(mean))), server.draws.plus(cohort))

    @on_client
    def gradient(self, client, x):
        """grad f_i(x)."""
        return Done(client.grad(x))


class SamplerCase(Case):
    """A sampler and a problem, with its draws in many runs."""

    def __init__(self, sampler: Sampler, problem: Problem):
        super().__init__(Probe(sampler), problem, type(sampler).__name__)
        self.sampler = sampler

    @cached_property
    def bound(self) -> Sampler:
        """The sampler fitted to the problem."""
        return bind(self.sampler, self.problem, ROUNDS)

    @cached_property
    def cohort(self) -> Cohort:
        """The shapes and types of a cohort, and what is known of it before any draw."""
        population = self.problem.population
        with scope(self.problem.precision):
            draw = lambda key: self.bound.draw(self.bound.start(population), key, population)  # noqa: E731
            return jax.eval_shape(draw, jax.random.key(0))

    @cached_property
    def draws(self) -> Draws:
        """The sums over the draws of each run [runs, ...]."""
        with scope(self.problem.precision):
            job = prepare(self.problem, Seeds.of(0), None, None)
            algorithm = bind(self.algorithm, self.problem, ROUNDS)
            sites = survey(job, algorithm).sites
            return jax.tree.map(np.asarray, many_runs(job, algorithm, jnp.arange(RUNS, dtype="int32"), sites=sites).draws)


@partial(jax.jit, static_argnames="sites")
def many_runs(job, algorithm: Algorithm, seeds: Int[Array, " runs"], *, sites) -> Any:
    """Return what the server holds after `ROUNDS` rounds with each of the `seeds`."""

    def one(seed):
        own = replace(job, seeds=jax.tree.map(lambda _: seed, job.seeds))
        first = begin(CompiledAsk, own, algorithm, sites)
        return lax.fori_loop(0, ROUNDS, lambda _, old: play_round(CompiledAsk, own, algorithm, sites, old), first).server

    return in_batches(one, seeds, TOGETHER)


def ids_name_clients(case: SamplerCase) -> None:
    """Every place in use holds the number of a client, from 0 to n - 1."""
    n, draws = case.problem.clients, case.draws
    for ids in (draws.highest, draws.lowest):
        wrong = ids[(ids < 0) | (ids >= n)]
        if wrong.size:
            case.fail(f"draws client {wrong[0]}, but the {n} clients are 0 to {n - 1}: mark empty places by active = False")


def clients_are_drawn_once(case: SamplerCase) -> None:
    """No client has two places of one cohort, unless the sampler says that it draws with replacement."""
    if case.sampler.replacement != "with" and case.draws.places.any():
        case.fail("draws a client twice for one cohort: draw without replacement, or count it once with a larger expansion")


def weights_are_finite(case: SamplerCase) -> None:
    """Every place in use has a finite weight and a finite probability above 0."""
    if case.draws.weights.any():
        case.fail("gives drawn clients weights that are not finite or not above 0: declare their inclusion probabilities")


def draws_match_the_declared_probabilities(case: SamplerCase) -> None:
    """sum_{i in S} expansion_i v_i is unbiased for sum_i v_i: the mean expansion of every client is 1.

    A client that is not drawn counts 0. The mean over many runs is compared by the empirical Bernstein inequality (Maurer and
    Pontil, 2009, Theorem 4), Bonferroni over the clients: a sampler whose draws are as declared fails with probability
    `FALSE_ALARM` at most. Cohorts that are declared biased, or delegates, promise no such thing.
    """
    if case.cohort.biased or case.cohort.selection == "delegate":
        return
    means = case.draws.expansions / ROUNDS
    mean, allowed = means.mean(axis=0), deviation(means, case.draws.largest.max(axis=0))
    wrong = np.abs(mean - 1) > allowed
    if not wrong.any():
        return
    i = int(np.argmax(np.abs(mean - 1) / allowed))
    share = case.draws.hits[:, i].mean() / ROUNDS
    if share == 0:
        case.fail(
            f"never draws client {i} in {RUNS * ROUNDS} draws: give every client an inclusion probability above 0, and draw by it"
        )
    case.fail(
        f"draws client {i} in {share:.1%} of the draws, but declares {share / mean[i]:.1%} (false alarm {FALSE_ALARM:g}): give "
        "Cohort.of the probability with which each client is drawn"
    )


def deviation(means: Float[np.ndarray, "runs n"], largest: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return how far each client's mean over the runs may be from its expectation, all clients together.

    A mean of N values in [0, b] with the sample variance V is within sqrt(2 V log(4 / a) / N) + 7 b log(4 / a) / (3 (N - 1)) of
    its expectation with probability 1 - a.
    """
    runs, n = means.shape
    largest = np.where(largest > 0, largest, largest.max(initial=1))
    log = math.log(4 * n / FALSE_ALARM)
    return np.sqrt(2 * means.var(axis=0, ddof=1) * log / runs) + 7 * largest * log / (3 * (runs - 1))


CHECKS: dict[str, Callable[[SamplerCase], None]] = {
    "states_keep_their_types": algorithms.states_keep_their_types,
    "ids_name_clients": ids_name_clients,
    "clients_are_drawn_once": clients_are_drawn_once,
    "weights_are_finite": weights_are_finite,
    "draws_match_the_declared_probabilities": draws_match_the_declared_probabilities,
    "engines_agree": algorithms.engines_agree,
    "ledger_counts_what_nodes_send": algorithms.ledger_counts_what_nodes_send,
    "compiles_once": algorithms.compiles_once,
    "resumes_to_the_bit": algorithms.resumes_to_the_bit,
    "goes_on_to_the_bit": algorithms.goes_on_to_the_bit,
}
"""The checks of a sampler by name."""


def case(sampler: Sampler, problem: Problem) -> SamplerCase:
    """Return what the checks of a sampler are given.

    Args:
        sampler: The sampler, with its hyper-parameters.
        problem: A problem with a few clients and unknowns.
    """
    return SamplerCase(sampler, problem)
