"""DivFL: its cohorts are those of a greedy NumPy program, near the best ones, and its bias is measured."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.federations import ENGINES, counted, four, play
from tests.helpers.gradients import client_gradient
from tests.samplers.test_loss_biased import agrees, drawn_by

SHARES = np.array([0.1, 0.3, 0.1, 0.2, 0.15, 0.15])
SIX = t.Population(count=6, weights=SHARES)
GRADIENTS = np.random.default_rng(3).normal(size=(6, 3))


def fitted(size, gradients=GRADIENTS, **options):
    """The sampler, and its state after these gradients."""
    sampler = t.DivFl(size, **options).bind(SIX)
    return sampler, sampler.learned(sampler.start(SIX), jnp.asarray(gradients), jnp.ones(6, bool), SIX.shares)


def left(cohort, gradients=GRADIENTS, shares=SHARES) -> float:
    """sum_i lambda_i min_{j in S} |g_i - g_j|."""
    return shares @ np.linalg.norm(gradients[:, None] - gradients[list(cohort)], axis=2).min(axis=1)


def greedy(size, candidates=range(6), gradients=GRADIENTS, shares=SHARES) -> list[int]:
    chosen: list[int] = []
    for _ in range(size):
        chosen.append(min(set(candidates) - set(chosen), key=lambda j: left([*chosen, j], gradients, shares)))
    return chosen


@pytest.mark.longer
@pytest.mark.parametrize("size", [1, 3, 6])
def test_cohorts_are_those_of_a_greedy_program(size):
    sampler, state = fitted(size)
    np.testing.assert_allclose(state, np.linalg.norm(GRADIENTS[:, None] - GRADIENTS[None], axis=2), atol=1e-12)
    assert sampler.draw(state, jax.random.key(0), SIX).ids.tolist() == greedy(size)


@pytest.mark.tiers(longer=["4"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_what_greedy_cohorts_gain_is_near_the_most(size):
    """At least 1 - 1/e of it (Nemhauser et al., 1978); and the sum that is left bounds the error of the weighted gradients."""
    sampler, state = fitted(size)
    cohort = sampler.draw(state, jax.random.key(0), SIX).ids.tolist()
    farthest, best = np.max(state), min(left(s) for s in itertools.combinations(range(6), size))
    assert farthest - left(cohort) >= (1 - 1 / np.e) * (farthest - best)
    nearest = np.array(cohort)[np.argmin(np.asarray(state)[:, cohort], axis=1)]
    assert np.linalg.norm(SHARES @ (GRADIENTS - GRADIENTS[nearest])) <= left(cohort) + 1e-12


@pytest.mark.longer
def test_candidates_are_uniform_and_the_best_of_them_is_taken():
    """The law of one client is that over all pairs of candidates; with all as candidates cohorts are the greedy ones."""
    sampler, state = fitted(1, candidates=2)
    law = np.zeros(6)
    for pair in itertools.combinations(range(6), 2):
        law[greedy(1, pair)[0]] += 1 / 15
    assert agrees(drawn_by(sampler.draw, state, SIX, 20_000), law)
    sampler, state = fitted(4, candidates=6)
    assert sampler.draw(state, jax.random.key(1), SIX).ids.tolist() == greedy(4)
    sampler, state = fitted(6, candidates=1)
    assert sorted(sampler.draw(state, jax.random.key(1), SIX).ids.tolist()) == [*range(6)]


def test_clients_that_did_not_answer_have_the_mean_gradient():
    sampler = t.DivFl(2).bind(SIX)
    wrong = np.where(np.arange(6)[:, None] == 4, np.inf, GRADIENTS)
    state = sampler.learned(sampler.start(SIX), jnp.asarray(wrong), jnp.arange(6) != 2, SIX.shares)
    known = np.isin(np.arange(6), [2, 4], invert=True)
    filled = np.where(known[:, None], GRADIENTS, GRADIENTS[known].mean(0))
    np.testing.assert_allclose(state, np.linalg.norm(filled[:, None] - filled[None], axis=2), atol=1e-12)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_a_run_is_a_numpy_program(engine):
    """Federated averaging over the greedy cohort of each round's gradients, all of which are charged."""
    problem, x = four(), np.zeros(3)
    shares = np.asarray(problem.population.shares)
    session = play(t.FedAvg(t.DivFl(2), lr=0.1, steps=1), problem, 6, engine=engine)
    for _ in range(6):
        gradients = np.stack([client_gradient(problem, i, x) for i in range(4)])
        cohort = greedy(2, range(4), gradients, shares)
        x = x - 0.1 * shares[cohort] @ gradients[cohort] / shares[cohort].sum()
    np.testing.assert_allclose(session.trace.x, x, rtol=1e-9)
    assert sum(row["contacts"] for row in counted(session).values()) == (4 + 2) * 6


@pytest.mark.slow
def test_where_it_settles_is_not_the_minimum():
    """Half the step leaves it as far from the minimiser, to which all clients go: its floor is a bias, and no noise."""
    problem = four()
    matrices, targets = problem.rows
    shares = np.asarray(problem.population.shares)
    minimiser = np.linalg.solve(np.einsum("i,ijk->jk", shares, matrices), shares @ targets)

    def distances(sampler):
        algorithm = t.FedAvg(sampler, lr=0.02, steps=1)
        swept = t.sweep(algorithm, problem, {"lr": [0.02, 0.01]}, rounds=2000, every=2000)
        return [np.linalg.norm(trace.x - minimiser) for trace in swept.traces]

    larger, smaller = distances(t.DivFl(3))
    assert smaller > 0.9 * larger > 1e3 * max(distances(t.Full()))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.DivFl(7).bind(SIX), "wants 7 clients, but there are 6"),
        (lambda: t.DivFl(2, candidates=7).bind(SIX), "lower candidates"),
        (lambda: t.run(t.MbGd(t.DivFl(2), lr=0.05), four(), rounds=1), "does not go with an unbiased average"),
    ],
)
def test_what_does_not_fit_is_one_sentence(make, words):
    with pytest.raises(t.UserError, match=words):
        make()
