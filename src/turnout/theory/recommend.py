"""Recommends a sampler: ranks those that a federation can have by the error that they leave, and says what memory they take."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from turnout.core.compiling import program
from turnout.core.errors import UserError
from turnout.problems.base import Population
from turnout.samplers import Block, Full, Independent, Nice, Sampler, ShuffledNice, ShuffledStratified, Stratified
from turnout.samplers.probabilities.waterfilling import capped
from turnout.theory.design_table import strata_of
from turnout.theory.designs import design, expected_draws
from turnout.theory.sampling_error import mean_variance

Memory = Literal["none", "scalars", "vectors"]
"""Memory of each client between rounds: none, one number at the server, or a vector there or at the client."""

KEPT: dict[Memory, str] = {"none": "none", "scalars": "a number a client", "vectors": "a vector a client"}

RETURNS = 2
"""Expected participations of the median client from which storing information about clients pays."""

UNEVEN = 1.05
"""Ratio of variances from which unequal probabilities pay."""

POINTS = 100
"""The most numbers of cohorts over which a floor is a mean."""

SMALLEST = 1e-12
"""A probability of clients that weigh nothing, which designs need to be positive."""

SHARE = 0.5
"""A sampler with memory is recommended if its error at best is at most this share of that of the best one without."""


@dataclass(frozen=True)
class Candidate:
    """A sampler that the federation can have.

    Args:
        name: Its name.
        clients: Expected number of clients in a cohort.
        memory: What the server stores of each client.
        floor: The error left by as many contacts as the configured run has; None where x* is not known.
        at_best: Whether the floor is that of a sampler that has learned all there is to learn.
        needs: The kind of the algorithm that it serves; None: it serves all.
    """

    name: str
    clients: float
    memory: Memory
    floor: float | None
    at_best: bool = False
    needs: str | None = None


@dataclass(frozen=True)
class Advice:
    """A recommended sampler, and what it was compared with.

    Args:
        sampler: Its name.
        reason: Why.
        gain: The variance of uniform independent draws over that of draws with p_i ~ lambda_i, if all |r_i| are equal.
        visits: Expected participations of the median client with the latter.
        candidates: The samplers, those with the least floor first.
        error: What a floor is the expectation of.
    """

    sampler: str
    reason: str
    gain: float
    visits: float
    candidates: tuple[Candidate, ...] = ()
    error: str = "|x - x*|^2"


def advise(
    population: Population,
    size: float,
    rounds: int,
    memory: Memory = "vectors",
    *,
    sampler: Sampler | None = None,
    steps: Float[np.ndarray, "n d"] | None = None,
    target: float | None = None,
    error: str = "|x - x*|^2",
    algorithm: str | None = None,
) -> Advice:
    """Return the recommended sampler for a federation.

    The floor of a sampler is E|(1/m) sum_{k <= m} v_{S_k}|^2 with v_S = sum_{i in S} lambda_i v_i / p_i, a mean over the second
    half of the numbers m of cohorts that `size` times `rounds` contacts make. To first order, with v_i = H^-1 grad f_i(x*), it is
    E|x - x*|^2 of the mean x of m cohorts' minimisers, and with v_i = (2 H)^(-1/2) grad f_i(x*) its E[f(x) - f*]. Without v_i,
    draws are compared by sum_i (1 - p_i) / p_i lambda_i^2, their variance for replies of equal norm, which is least for
    p_i = min(1, lambda_i / nu) (K-Vib, equation (10)).

    Args:
        population: The clients.
        size: Expected number of clients in a cohort.
        rounds: Number of rounds.
        memory: What the server may store of each client between rounds.
        sampler: The configured sampler, bound to the clients, whose strata are candidates too.
        steps: v_i [n, d], where x* is known.
        target: The floor to aim at; a sampler with memory is recommended where it is below every other floor.
        error: What a floor is the expectation of.
        algorithm: The kind of the configured algorithm; a sampler that needs another one is not recommended.

    Examples:
        >>> import turnout as t
        >>> from turnout.theory.recommend import advise
        >>> advise(t.Population(count=100), size=10, rounds=5).sampler
        'uniform'
    """
    n, weights = population.count, population.lambdas
    p = _capped(weights, min(size, n))
    uniform, unequal = variance(np.full(n, min(1.0, size / n)), weights), variance(p, weights)
    gain = uniform / unequal if unequal > 0 else 1.0 if uniform == 0 else np.inf
    visits = float(np.median(rounds * p))
    candidates = _candidates(population, size, rounds, p, gain, sampler, steps)
    if size >= n:
        name, reason = "full", "a cohort has all clients"
    elif steps is None:
        name, reason = _by_weights(candidates, gain)
    else:
        served = tuple(row for row in candidates if row.needs in (None, algorithm))
        name, reason = _by_floor(served, memory, visits, target)
    return Advice(name, reason, float(gain), visits, candidates, error)


def expected_size(sampler: Sampler, population: Population) -> float:
    """Return the expected number of clients in a cohort of the bound `sampler`.

    Args:
        sampler: The sampler, bound to the clients.
        population: The clients.
    """
    try:
        return float(design(sampler, population).inclusion().sum())
    except UserError:
        return float(np.sum(np.asarray(expected_draws(sampler, population))))


def _capped(scores: Float[np.ndarray, " n"], size: float) -> Float[np.ndarray, " n"]:
    """Return the probabilities min(1, scores / nu) [n] with the sum `size`."""
    return np.asarray(_capped_program(scores, np.asarray(size, float)), float)


_capped_program = program(capped, quick=True)


def variance(p: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> float:
    """Return sum_i (1 - p_i) / p_i lambda_i^2, the variance of sum_{i in S} lambda_i r_i / p_i for |r_i| = 1.

    Args:
        p: Inclusion probabilities p_i [n].
        weights: Client weights lambda_i [n].
    """
    p, weights = p[weights > 0], weights[weights > 0]
    return float(np.sum((1 - p) / p * weights**2))


def _candidates(population, size, rounds, p, gain, sampler, steps) -> tuple[Candidate, ...]:
    """Return the samplers with cohorts of about `size` clients, those with the least floor first."""
    strata, fixed = _strata(sampler, population), max(1, min(round(size), population.count))
    designs: dict[str, Sampler] = {"uniform": Nice(fixed), "uniform, shuffled": ShuffledNice(fixed)}
    if gain >= UNEVEN:
        designs["size"] = Independent(np.maximum(p, SMALLEST))
    if strata is not None:
        designs |= {"stratified": Stratified(strata), "stratified, shuffled": ShuffledStratified(strata), "block": Block(strata)}
    if steps is not None:
        norms = population.lambdas * np.linalg.norm(steps, axis=1)
        designs["last-norm"] = Independent(np.maximum(_capped(norms, min(size, population.count)), SMALLEST))
    rows = [_candidate(name, each, population, size * rounds, steps) for name, each in designs.items()]
    if steps is not None:
        rows += [
            replace(rows.pop(), memory="scalars", at_best=True),
            Candidate("drift, with fedvarp", size, "vectors", 0.0, at_best=True, needs="fedvarp"),
        ]
    return tuple(sorted(rows, key=lambda row: 0.0 if row.floor is None else row.floor))


def _strata(sampler: Sampler | None, population: Population) -> Int[np.ndarray, " n"] | None:
    """Return the strata of the sampler or of the split."""
    try:
        return strata_of(Full() if sampler is None else sampler, population)
    except UserError:
        return strata_of(Full(), population)


def _candidate(name: str, sampler: Sampler, population: Population, contacts: float, steps) -> Candidate:
    """Return a sampler without memory of clients; its floor is a mean over the second half of the cohorts."""
    sampler = sampler.bind(population)
    clients = expected_size(sampler, population)
    last = max(1, round(contacts / clients))
    if steps is None:
        return Candidate(name, clients, "none", None)
    numbers = np.unique(np.linspace((last + 1) // 2, last, POINTS).astype(int))
    floors = [mean_variance(sampler, population, steps, int(number)) for number in numbers]
    return Candidate(name, clients, "none", float(np.mean(floors)))


def _by_floor(candidates: tuple[Candidate, ...], memory: Memory, visits: float, target: float | None) -> tuple[str, str]:
    """Choose by the floors: memory is for runs in which the variance of draws binds."""
    plain = min((row for row in candidates if row.memory == "none"), key=lambda row: row.floor)
    found = f"it leaves the least error without memory of clients ({plain.floor:.3g})"
    if target is None or plain.floor <= target:
        enough = "" if target is None else f", less than the target of {target:g}"
        return plain.name, f"{found}{enough}"
    allowed = {"none": (), "scalars": ("scalars",), "vectors": ("scalars", "vectors")}[memory]
    learned = [row for row in candidates if row.memory in allowed and row.floor <= SHARE * plain.floor]
    if not learned or visits < RETURNS:
        rare = f"; the median client takes part {visits:.3g} times, too rarely for learning" if visits < RETURNS else ""
        return plain.name, f"{found}, though more than the target of {target:g}{rare}"
    best = min(learned, key=lambda row: (row.floor, row.memory))
    return best.name, (
        f"every sampler without memory leaves more than the target of {target:g} ({plain.name}: {plain.floor:.3g}), and the "
        f"median client takes part {visits:.3g} times; it takes {KEPT[best.memory]}"
    )


def _by_weights(candidates: tuple[Candidate, ...], gain: float) -> tuple[str, str]:
    """Choose where x* is not known."""
    if gain >= UNEVEN:
        return "size", "the clients' weights differ, and it needs no memory of clients"
    if any(row.name == "stratified, shuffled" for row in candidates):
        return "stratified, shuffled", "the clients have strata and hardly differ in weight; it needs no memory of clients"
    return "uniform", "the clients' weights hardly differ, and it needs no memory of clients"
