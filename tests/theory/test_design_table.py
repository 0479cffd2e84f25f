"""Designs side by side are those of table 4, in the paper's own formulas."""

import itertools

import numpy as np
import pytest

import turnout as t
from turnout.theory.design_table import table_4

GENERATOR = np.random.default_rng(0)
MU, STRATA = GENERATOR.uniform(0.5, 2, size=6), np.array([0, 1, 1, 2, 2, 2])
GRADIENTS = GENERATOR.normal(size=(6, 3))
GRADIENTS -= GRADIENTS.mean(0)


def square(v):
    return np.sum(v**2, axis=-1)


def by_hand(size):
    """mu_AS and sigma^2_AS of table 4, and the expected number of clients."""
    pairs = [list(chosen) for chosen in itertools.combinations(range(6), size)]
    blocks = [np.flatnonzero(STRATA == j) for j in range(3)]
    picks = [list(chosen) for chosen in itertools.product(*blocks)]
    sizes = np.array([len(block) for block in blocks])
    return {
        "full": (6, MU.mean(), 0),
        "nonuniform, equal p": (1, MU.min(), np.mean(square(GRADIENTS))),
        "nonuniform, importance": (1, MU.mean(), MU.mean() * np.mean(square(GRADIENTS) / MU)),
        "nice": (size, min(MU[s].mean() for s in pairs), np.mean([square(GRADIENTS[s].mean(0)) for s in pairs])),
        "block": (
            2,
            min(MU[block].sum() * 3 / 6 for block in blocks),
            np.mean([square(GRADIENTS[block].sum(0) * 3 / 6) for block in blocks]),
        ),
        "stratified": (
            3,
            min(sizes @ MU[s] / 6 for s in picks),
            np.mean([square(sizes @ GRADIENTS[s] / 6) for s in picks]),
        ),
    }


@pytest.mark.parametrize("sampler", [t.Stratified(strata=STRATA.tolist()), t.Nice(3), t.Independent(size=3.0)])
def test_designs_are_those_of_the_paper(sampler):
    """With the strata of the sampler, else of the split, and as many clients as the sampler draws."""
    strata = None if isinstance(sampler, t.Stratified) else STRATA
    population = t.Population(count=6, strata=strata)
    found = table_4(sampler.bind(population), population, MU, GRADIENTS)
    expected = by_hand(3)
    assert list(found) == list(expected)
    for name, facts in found.items():
        np.testing.assert_allclose(list(facts.values())[:3], expected[name], rtol=1e-12, atol=1e-12)
    blocks = [GRADIENTS[STRATA == j] for j in range(3)]
    lemma = 3 / 36 * sum(len(block) ** 2 * square(block - block.mean(0)).max() for block in blocks)
    assert found["stratified"]["lemma_1"] == pytest.approx(lemma) and lemma >= found["stratified"]["sigma2_as"]


def test_without_strata_there_are_four_designs():
    population = t.Population(count=6)
    assert list(table_4(t.Nice(2), population, MU, GRADIENTS)) == list(by_hand(2))[:4]
