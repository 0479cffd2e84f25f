"""Sampling designs written out: every cohort that a sampler can draw, from the words that define it."""

import itertools

import numpy as np

import turnout as t


def enumerate_subsets(sampler, population) -> list[tuple[float, tuple[int, ...], np.ndarray]]:
    """Return (probability, clients, weights lambda_i / p_i) of every cohort of a bound sampler over few clients.

    p_i is summed over the cohorts; of a shuffled sampler these are the cohorts of one draw.
    """
    n = population.count
    chances: dict[tuple[int, ...], float] = {}
    for chance, chosen in _cohorts(sampler, n):
        chosen = tuple(sorted(int(i) for i in chosen))
        chances[chosen] = chances.get(chosen, 0) + float(chance)
    chances = {chosen: chance for chosen, chance in chances.items() if chance > 0}
    share = np.full(n, 1 / n) if population.weights is None else np.asarray(population.weights)
    p = np.array([sum(chance for chosen, chance in chances.items() if i in chosen) for i in range(n)])
    return [(chance, chosen, (share / p)[list(chosen)]) for chosen, chance in chances.items()]


def _cohorts(sampler, n):
    """Yield the chance and the clients of every cohort."""
    if isinstance(sampler, t.Full):
        yield 1, range(n)
    elif isinstance(sampler, (t.Nice, t.ShuffledNice)):
        everyone = list(itertools.combinations(range(n), sampler.size))
        yield from ((1 / len(everyone), chosen) for chosen in everyone)
    elif isinstance(sampler, t.NonUniform):
        yield from ((p, [i]) for i, p in enumerate(sampler.probability))
    elif isinstance(sampler, t.Subsets):
        rows = zip(sampler.probability, sampler.members, sampler.sizes, strict=True)
        yield from ((p, row[:size]) for p, row, size in rows)
    elif isinstance(sampler, t.Block):
        for q, block in zip(sampler.probability, groups(sampler), strict=True):
            picks = list(itertools.combinations(block, min(sampler.size or n, len(block))))
            yield from ((q / len(picks), chosen) for chosen in picks)
    elif isinstance(sampler, (t.Stratified, t.ShuffledStratified)):
        strata = groups(sampler)
        stages = list(itertools.combinations(strata, getattr(sampler, "size", None) or len(strata)))
        for stage in stages:
            picks = list(itertools.product(*stage))
            yield from ((1 / len(stages) / len(picks), chosen) for chosen in picks)
    else:
        population = t.Population(count=n)
        p = np.asarray(sampler.expected_draws(sampler.start(population), population))
        for heads in itertools.product((False, True), repeat=n):
            yield np.prod(np.where(heads, p, 1 - p)), np.flatnonzero(heads)


def groups(sampler) -> list[np.ndarray]:
    """Return the clients of each stratum or block of a bound sampler."""
    return np.split(sampler.order, sampler.starts[1:-1])


STRATA = [0, 1, 1, 2, 2, 2]
COINS = [0.2, 0.36, 0.52, 0.68, 0.84, 1.0]

DESIGNS = {
    "full": t.Full(),
    "full-in-parts": t.Full(size=2),
    "nice-1": t.Nice(1),
    "nice-3": t.Nice(3),
    "shuffled-nice": t.ShuffledNice(2),
    "nonuniform": t.NonUniform([0.05, 0.1, 0.15, 0.2, 0.22, 0.28]),
    "independent": t.Independent(size=2.5),
    "coins": t.Independent(probability=COINS),
    "block": t.Block(blocks=STRATA, probability=[0.2, 0.3, 0.5]),
    "block-part": t.Block(blocks=STRATA, probability=[0.2, 0.3, 0.5], size=2),
    "block-one": t.Block(blocks=[0, 0, 0, 0, 1, 1], size=1),
    "block-uniform": t.Block(blocks=[2, 0, 1, 0, 2, 2]),
    "stratified": t.Stratified(strata=[0, 2, 1, 2, 1, 2]),
    "two-stage": t.Stratified(strata=STRATA, size=2),
    "shuffled-stratified": t.ShuffledStratified(strata=STRATA),
    "subsets": t.Subsets([[0, 1, 2], [5, 3, 4], [2, 3], [0], []], [0.3, 0.25, 0.2, 0.15, 0.1]),
}
"""Samplers over six clients: every kind whose average is unbiased."""

WEIGHTS = {"uniform": None, "unequal": np.array([0.3, 0.1, 0.1, 0.2, 0.25, 0.05])}


def six(weights: str) -> t.Population:
    """Six clients."""
    return t.Population(count=6, weights=WEIGHTS[weights])
