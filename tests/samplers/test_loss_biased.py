"""Samplers that favour clients with large losses."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import turnout as t
from tests.helpers.federations import ENGINES, RARE, SHARES, counted, four, play, with_rows
from tests.helpers.gradients import client_gradient
from turnout.runs.session import Session


def drawn_by(sampler, state, population, count: int) -> np.ndarray:
    """How often each set of clients is drawn, as an array [n, n] or [n], for cohorts of two or one."""
    cohorts = jax.vmap(lambda key: sampler(state, key, population))(jax.random.split(jax.random.key(0), count))
    assert np.all(cohorts.active)
    counts = np.zeros((population.count,) * cohorts.ids.shape[1])
    np.add.at(counts, tuple(np.sort(cohorts.ids, axis=1).T), 1)
    return counts


def agrees(counts: np.ndarray, probabilities: np.ndarray) -> bool:
    """Whether a chi-square test finds no difference."""
    assert np.all(counts[probabilities == 0] == 0)
    possible = probabilities > 0
    return possible.sum() == 1 or stats.chisquare(counts[possible], counts.sum() * probabilities[possible]).pvalue > RARE


def successive(q) -> np.ndarray:
    """The probabilities of pairs drawn one after the other without replacement."""
    pairs = np.zeros((len(q), len(q)))
    for i, k in itertools.permutations(range(len(q)), 2):
        pairs[min(i, k), max(i, k)] += q[i] * q[k] / (1 - q[i])
    return pairs


@pytest.mark.longer
def test_candidates_are_drawn_by_their_weights_one_after_the_other():
    sampler, population = t.PowerOfChoice(1, 2), t.Population(count=4, weights=SHARES)
    assert agrees(drawn_by(sampler.consulted_cohort, sampler.start(population), population, 20_000), successive(SHARES))


@pytest.mark.longer
def test_the_candidates_with_the_highest_losses_take_part():
    """Nobody takes part whose loss is lost or not a number, or who is not available."""
    population = t.Population(count=6)
    sampler = t.PowerOfChoice(2, 5).bind(population)

    def chosen(losses, answered):
        state = sampler.observe_consulted(sampler.start(population), jnp.array(losses), jnp.array(answered), population)
        cohort = sampler.draw(state, jax.random.key(0), population)
        return sorted(np.asarray(cohort.ids)[np.asarray(cohort.active)])

    losses = [3.0, -1.0, 9.0, np.nan, 5.0, 4.0]
    assert chosen(losses, [True, True, False, True, True, True]) == [4, 5]
    assert chosen(losses, [False, True, False, True, False, False]) == [1]
    assert chosen(losses, [False] * 6) == []
    some = replace(population, available=jnp.arange(6) > 2, presence=jnp.ones(6))
    asked = sampler.consulted_cohort(sampler.start(population), jax.random.key(1), some)
    assert sorted(np.asarray(asked.ids)[np.asarray(asked.active)]) == [3, 4, 5]


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_greedy_choice_is_a_numpy_program(engine):
    """With everyone a candidate, federated averaging follows the two clients with the highest losses."""
    problem, x = four(), np.zeros(3)
    matrices, targets = problem.rows
    session = play(t.FedAvg(t.PowerOfChoice(2, 4), lr=0.05), problem, 4, engine=engine)
    for _ in range(4):
        losses = [x @ a @ x / 2 - b @ x for a, b in zip(matrices, targets, strict=True)]
        top = np.argsort(losses)[-2:] if np.any(x) else np.array([0, 1])
        steps = np.stack([-0.05 * client_gradient(problem, i, x) for i in top])
        x = x + SHARES[top] @ steps / SHARES[top].sum()
    np.testing.assert_allclose(session.trace.x, x, rtol=1e-12)
    asked = counted(session)["0.preview"]
    assert (asked["contacts"], asked["arrivals"], asked["bytes_up"], asked["vectors_down"]) == (16, 16, 8, 1)


@pytest.mark.tiers(quick=[], longer=["2-settings2-uniform"])
@pytest.mark.parametrize(
    ("settings", "distribution"),
    [
        ({"dropped": 0.0, "sharpness": 2.0, "uniform": 0.0}, "softmax"),
        ({"dropped": 0.5, "sharpness": 2.0, "uniform": 0.0}, "upper half"),
        ({"dropped": 0.5, "sharpness": 2.0, "uniform": 1.0}, "uniform"),
    ],
)
@pytest.mark.parametrize("size", [1, 2])
def test_active_federated_learning_draws_by_a_softmax(settings, distribution, size):
    population, values = t.Population(count=4), np.array([0.3, -0.2, 0.7, 0.1])
    sampler = replace(t.Afl(size, **settings), sizes=np.array([1.0, 4.0, 9.0, 1.0])).bind(population)
    cohort = t.Cohort.of(jnp.arange(4), 1.0, population, selection="arbitrary")
    losses = jnp.asarray(values / np.sqrt(sampler.sizes))
    state = sampler.observe(sampler.start(population), cohort, losses)
    np.testing.assert_allclose(state.values, values, rtol=1e-12)
    weight = {"softmax": np.exp(2 * values), "upper half": np.exp(2 * values) * (values > 0.2), "uniform": np.ones(4)}[
        distribution
    ]
    q = weight / weight.sum()
    assert agrees(drawn_by(sampler.draw, state, population, 20_000), q if size == 1 else successive(q))


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_valuations_are_losses_at_the_parameters_that_were_sent(engine):
    """Each reply carries one more scalar, and who was not drawn has no valuation."""
    session = play(t.FedAvg(t.Afl(2), lr=0.3), with_rows(), 1, engine=engine)
    state, rows = session.progress.samplers[0], counted(session)
    assert state.observed.sum() == 2 and rows["1"]["vectors_up"] == 1 and rows["1"]["bytes_up"] == 5 * 8 + 8
    expected = np.where(state.observed, np.sqrt(with_rows().sizes) * np.log(2), 0)
    np.testing.assert_allclose(state.values, expected, rtol=1e-12)


@pytest.mark.slow
def test_biased_samplers_run_alike_in_both_engines_and_under_availability():
    for sampler in (t.PowerOfChoice(2, 3), t.Available(t.Afl(3), probability=0.6)):
        sessions = [play(t.FedAvg(sampler, lr=0.05), four(), 5, engine=engine) for engine in ("compiled", "nodes")]
        np.testing.assert_allclose(*(session.trace.x for session in sessions), atol=1e-13)
        assert counted(sessions[0]) == counted(sessions[1])


@pytest.mark.parametrize("sampler", [t.PowerOfChoice(2, 3), t.Afl(2), t.Available(t.Afl(2), probability=0.5)])
@pytest.mark.parametrize(
    "make",
    [
        lambda s: t.MbGd(s, lr=0.05),
        lambda s: t.FedVarp(s, lr=0.05),
        lambda s: t.Sppm(s, t.solvers.LocalGd(corrected=False), gamma=1.0),
    ],
)
def test_biased_samplers_do_not_go_with_unbiased_averages(make, sampler):
    with pytest.raises(t.UserError, match="biased sampler does not go with an unbiased average"):
        Session(make(sampler), four(), seeds=t.Seeds.of(0), rounds=1)


@t.record
class Silent(t.Algorithm):
    """Draws without saying what it will ask."""

    sampler: t.Sampler

    def round(self, ask, x):
        return x + ask(ask.draw(self.sampler), self.nothing, x).mean()

    @t.on_client
    def nothing(self, client, x):
        return t.Done(0 * x)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Silent(t.PowerOfChoice(2, 3)), "Silent does not say what"),
        (lambda: Silent(t.Available(t.Independent(size=2.0, probability=t.Optimal()), probability=0.5)), "does not say what"),
        (lambda: t.FedAvg(t.PowerOfChoice(2, 5), lr=0.1), "wants 5 clients, but there are 4"),
        (lambda: t.FedAvg(t.PowerOfChoice(3, 2), lr=0.1), "raise candidates"),
        (lambda: t.FedAvg(t.Afl(5), lr=0.1), "wants 5 clients"),
        (lambda: t.MbGd(t.Available(t.Block(blocks=[0, 1, 1, 0]), probability=0.5), lr=0.1), "Block draws from all clients"),
        (lambda: t.MbGd(t.Available(t.Nice(2), probability=[0.5, 0.5]), lr=0.1), "needs 1 or 4 probabilities"),
        (lambda: t.MbGd(t.Available(t.Nice(2), probability=[0.5, 0.0, 1.0, 1.0]), lr=0.1), "greater than 0, but entry 1 is 0"),
        (lambda: t.MbGd(t.Available(t.Nice(2), probability=0.5, memory=1.5), lr=0.1), "at most 1"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(make, words):
    with pytest.raises(t.UserError, match=words) as error:
        Session(make(), four(), seeds=t.Seeds.of(0), rounds=1)
    assert "\n" not in str(error.value)


def test_biased_samplers_cannot_be_judged():
    with pytest.raises(t.UserError, match="draws by no probabilities"):
        Session(t.FedAvg(t.Afl(2), lr=0.1), four(), seeds=t.Seeds.of(0), rounds=1, metrics=("regret",))
