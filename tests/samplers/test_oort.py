"""Oort: utilities and draws are those of a NumPy program, and its bias is measured."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.federations import ENGINES, counted, four, play, with_rows
from tests.samplers.test_loss_biased import agrees, drawn_by, successive

ROWS, LOSSES = np.array([2.0, 5.0, 1.0, 4.0, 3.0]), np.array([0.5, -0.4, 9.0, 0.2, 0.7])
LAST, SECONDS = np.array([3, 1, 2, 3, 0]), np.array([1.0, 4.0, 2.0, 8.0, 5.0])
FIVE = t.Population(count=5)


def fitted(size, **options) -> t.Oort:
    return replace(t.Oort(size, **options), sizes=ROWS).bind(FIVE)


def after(sampler, last, rounds):
    """The state after `rounds` draws, in which client i replied for the last time in draw `last`[i]."""
    state = sampler.start(FIVE)
    for number in range(1, rounds + 1):
        state = sampler.advance(state, None)
        cohort = t.Cohort.of(jnp.arange(5), 1.0, FIVE, selection="arbitrary", active=jnp.asarray(last == number))
        state = sampler.observe(state, cohort, jnp.asarray(LOSSES))
    return state


def utilities(last, number, preferred=np.inf) -> np.ndarray:
    """u_i of those that replied, in draw `number`; 0 for the others."""
    values, known = ROWS * np.abs(LOSSES), last > 0
    top = np.sort(values[known])[min(int(0.95 * known.sum()), known.sum() - 1)]
    bonus = np.sqrt(0.1 * np.log(number) / np.maximum(last, 1))
    slow = np.where(preferred < SECONDS, (preferred / SECONDS) ** 2, 1)
    return np.where(known, (np.minimum(values, top) + bonus) * slow, 0)


@pytest.mark.longer
@pytest.mark.parametrize("preferred", [None, 3.0])
def test_utilities_are_a_numpy_program(preferred):
    """Losses count by their size times the rows; who was last drawn long ago, and who is fast, counts more."""
    sampler = fitted(2, seconds=SECONDS, preferred=preferred)
    result = sampler.utilities(after(sampler, LAST, 3), jnp.asarray(LAST > 0))
    np.testing.assert_allclose(result, utilities(LAST, 4, preferred or np.inf), rtol=1e-12)


@pytest.mark.longer
def test_utilities_are_clipped_at_their_quantile():
    """Of 40 clients the two with the highest losses count as much as the third."""
    population = t.Population(count=40)
    sampler = replace(t.Oort(2), sizes=np.ones(40)).bind(population)
    everyone = t.Cohort.of(jnp.arange(40), 1.0, population, selection="arbitrary")
    state = sampler.observe(sampler.advance(sampler.start(population), None), everyone, jnp.arange(40.0))
    result = np.asarray(sampler.utilities(state, jnp.ones(40, bool))) - np.sqrt(0.1 * np.log(2))
    np.testing.assert_allclose(result, np.minimum(np.arange(40), 38), rtol=1e-12)


@pytest.mark.tiers(quick=[], slow=["exploit"])
@pytest.mark.parametrize("way", ["exploit", "explore", "both"])
def test_cohorts_have_the_law_of_the_algorithm(way):
    """Pairs are drawn by utilities above the cut-off, by speeds, or one by each, without replacement."""
    if way == "exploit":
        last, epsilon = np.array([1, 1, 1, 1, 0]), 0.0
        u = utilities(last, 2)
        law = successive(np.where(u >= 0.95 * np.sort(u)[-2], u, 0) / u[u >= 0.95 * np.sort(u)[-2]].sum())
    elif way == "explore":
        last, epsilon = np.array([1, 0, 0, 0, 0]), 1.0
        speed = np.where(last == 0, 1 / SECONDS, 0)
        law = successive(speed / speed.sum())
    else:
        last, epsilon = np.array([1, 1, 0, 0, 0]), 0.5
        u, speed = utilities(last, 2), np.where(last == 0, 1 / SECONDS, 0)
        best = np.where(u >= 0.95 * u.max(), u, 0)
        law = np.zeros((5, 5))
        for i, k in itertools.product(range(5), repeat=2):
            law[min(i, k), max(i, k)] += best[i] * speed[k] / (best.sum() * speed.sum())
    sampler = fitted(2, seconds=SECONDS, exploration=epsilon, decay=1.0, least=0.0)
    assert agrees(drawn_by(sampler.draw, after(sampler, last, 1), FIVE, 20_000), law)


@pytest.mark.tiers(quick=[], slow=["0-3"])
@pytest.mark.parametrize(("known", "available"), [(0, 5), (5, 5), (2, 5), (0, 3), (2, 1), (1, 0)])
def test_no_place_is_empty_while_there_are_clients(known, available):
    last, sampler = (np.arange(5) < known).astype(int), fitted(3)
    population = replace(FIVE, available=jnp.arange(5) >= 5 - available, presence=jnp.ones(5))
    cohort = sampler.draw(after(sampler, last, 1), jax.random.key(0), population)
    ids = np.asarray(cohort.ids)[np.asarray(cohort.active)]
    assert len(set(ids.tolist())) == min(3, available) and np.all(ids >= 5 - available)


@pytest.mark.longer
def test_exploration_decays_to_its_least():
    """Of ten clients, known all but three, epsilon 0.5 explores two of four places, 0.25 one, and never fewer."""
    population = t.Population(count=10)
    sampler = replace(t.Oort(4, exploration=0.5, decay=0.5, least=0.25), sizes=np.ones(10)).bind(population)
    known = t.Cohort.of(jnp.arange(10), 1.0, population, selection="arbitrary", active=jnp.arange(10) < 7)
    for number, explored in enumerate([2, 1, 1]):
        state = sampler.start(population)._replace(round=jnp.asarray(number, "int32"))
        state = state._replace(last=jnp.where(known.active, 1, 0).astype("int32"))
        ids = np.asarray(sampler.draw(state, jax.random.key(number), population).ids)
        assert np.sum(ids >= 7) == explored


def test_a_loss_that_is_no_number_is_worth_nothing():
    sampler = fitted(2)
    everyone = t.Cohort.of(jnp.arange(5), 1.0, FIVE, selection="arbitrary")
    state = sampler.observe(sampler.advance(sampler.start(FIVE), None), everyone, jnp.array([1.0, np.nan, np.inf, 2.0, 0.5]))
    np.testing.assert_allclose(state.values, [2.0, 0.0, 0.0, 8.0, 1.5], rtol=1e-12)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_replies_carry_the_loss_at_the_parameters_that_were_sent(engine):
    session = play(t.FedAvg(t.Oort(2), lr=0.3), with_rows(), 1, engine=engine)
    state, rows = session.progress.samplers[0], counted(session)
    assert int(state.round) == 1 and np.sum(state.last == 1) == 2
    assert rows["1"]["vectors_up"] == 1 and rows["1"]["bytes_up"] == 5 * 8 + 8
    expected = np.where(state.last, with_rows().sizes * np.log(2), 0)
    np.testing.assert_allclose(state.values, expected, rtol=1e-12)


@pytest.mark.slow
def test_where_it_settles_is_not_the_minimum():
    """Its mean over many seeds is off the minimiser, beyond four standard errors, and that of all clients is not."""
    problem = four()

    def settled(sampler):
        traces = t.sweep(t.FedAvg(sampler, lr=0.05), problem, {}, seeds=range(40), rounds=300, every=300).traces
        return np.array([trace.x for trace in traces]) - minimiser

    matrices, targets = problem.rows
    weights = np.asarray(problem.population.shares)
    minimiser = np.linalg.solve(np.einsum("i,ijk->jk", weights, matrices), weights @ targets)
    off = settled(t.Oort(2))
    error = np.linalg.norm(off.std(0)) / np.sqrt(40)
    assert np.linalg.norm(off.mean(0)) > 4 * error
    assert np.linalg.norm(settled(t.Full())) < 1e-6 < np.linalg.norm(off.mean(0))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.Oort(2).bind(FIVE), "fit it to a problem"),
        (lambda: fitted(6), "wants 6 clients, but there are 5"),
        (lambda: fitted(2, preferred=1.0), "give seconds"),
        (lambda: fitted(2, seconds=[1.0, 2.0]), "needs 5 seconds"),
        (lambda: fitted(2, seconds=np.array([1.0, np.inf, 1.0, 1.0, 1.0])), "needs finite seconds"),
    ],
)
def test_what_does_not_fit_is_one_sentence(make, words):
    with pytest.raises(t.UserError, match=words):
        make()


def test_averages_over_its_cohorts_are_refused():
    with pytest.raises(t.UserError, match="biased sampler does not go with an unbiased average"):
        t.run(t.MbGd(t.Oort(2), lr=0.05), four(), rounds=1)
