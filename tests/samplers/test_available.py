"""Clients that come and go."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import turnout as t
from tests.helpers.federations import RARE, SHARES, VECTORS, Q, adaptive, chance, counted, four, play, subsets
from turnout.runs.session import Session
from turnout.samplers.diagnostics import NAMES as SAMPLING


@pytest.mark.tiers(quick=["nice", "full"], longer=["coins"])
@pytest.mark.parametrize("design", ["k-vib", "size", "coins", "nice", "full"])
def test_averages_are_unbiased_over_who_is_available_and_over_the_coins(design):
    """E[sum_{i in S} v_i / (q_i p_i)] = sum_i v_i, and `variance` is E|d - sum_{i available} v_i / q_i|^2 given who is."""
    inner = {
        "k-vib": adaptive(),
        "size": t.Independent(size=2.0, probability=t.BySize(sizes=np.array([1.0, 5.0, 2.0, 2.0]))),
        "coins": t.Independent(probability=[0.2, 0.4, 0.6, 0.8]),
        "nice": t.Nice(2),
        "full": t.Full(),
    }[design]
    population = t.Population(count=4, weights=SHARES)
    sampler = t.Available(inner, probability=Q).bind(population)
    _, known = sampler.start(population)
    if design == "k-vib":
        known = known._replace(own=jnp.array([4.0, 1.0, 0.0, 0.3]))
    mean = np.zeros(3)
    draw, expect, spread = (jax.jit(f) for f in (sampler.draw, sampler.expected_draws, sampler.variance))
    for on in subsets():
        state = (jnp.asarray(on), known)
        p = np.asarray(expect(state, population))
        assert np.all((p > 0) == on)
        cohort = draw(state, jax.random.key(0), population)
        ids, active = np.asarray(cohort.ids), np.asarray(cohort.active)
        assert np.all(on[ids[active]]) and int(cohort.available) == on.sum()
        np.testing.assert_allclose(cohort.weight[active], (SHARES / Q / np.where(p > 0, p, 1))[ids[active]], rtol=1e-12)
        size = min(2, on.sum())
        if design == "nice":
            cohorts = [np.isin(np.arange(4), c) for c in itertools.combinations(np.flatnonzero(on), size)]
            law = [(1 / len(cohorts), drawn) for drawn in cohorts]
        else:
            law = [(chance(drawn, p), drawn) for drawn in subsets()]
        counted = VECTORS / Q[:, None]
        estimates = [(w, (drawn / np.where(p > 0, p, 1)) @ counted) for w, drawn in law if w > 0]
        variance = sum(w * np.sum((d - on @ counted) ** 2) for w, d in estimates)
        np.testing.assert_allclose(spread(state, population, jnp.asarray(VECTORS)), variance, atol=1e-10)
        mean += chance(on, Q) * sum(w * d for w, d in estimates)
    np.testing.assert_allclose(mean, VECTORS.sum(0), rtol=1e-12)


@t.record
class Diary(t.Algorithm):
    """Notes in `pairs` [2, 2, n] how often each client was off or on, one round and the next; x is who is on.

    `met` counts those available, drawn and answered.
    """

    sampler: t.Sampler

    def start(self, ask, x):
        return x, jnp.zeros((2, 2, x.size)), jnp.zeros(3, "int32")

    def output(self, server):
        return server[0]

    def round(self, ask, server):
        before, pairs, met = server
        cohort = ask.draw(self.sampler)
        replies = ask(cohort, self.nothing, before)
        on = jnp.zeros(before.size).at[cohort.ids].add(cohort.active.astype(float))
        path = jnp.stack([1 - before, before])[:, None] * jnp.stack([1 - on, on])[None]
        pairs = pairs + jnp.where(ask.round > 1, path, 0)
        seen = [cohort.available, jnp.sum(cohort.active, dtype="int32"), jnp.sum(replies.answered, dtype="int32")]
        return on, pairs, met + jnp.stack(seen)

    @t.on_client
    def nothing(self, client, x):
        return t.Done(0 * x)


def coming_and_going(memory) -> Diary:
    return Diary(t.Available(t.Full(), probability=np.linspace(0.2, 0.9, 12), memory=memory))


def twelve() -> t.Problem:
    return t.Quadratic.random(12, 12, seed=1)


@pytest.mark.longer
@pytest.mark.parametrize("memory", [0.0, 0.7])
def test_availability_is_the_markov_chain_it_says(memory):
    """Given what came before the coins are independent, so that the counts of a row are binomial; a stationary chain is on in
    the share q of rounds, with variance q (1 - q) (1 + rho) / (1 - rho) / T for large T, and its autocorrelation is rho.
    """
    q, rounds = np.linspace(0.2, 0.9, 12), 6000
    pairs = np.asarray(play(coming_and_going(memory), twelve(), rounds, every=rounds, metrics=("distance",)).progress.server[1])
    for before, expected in ((0, (1 - memory) * q), (1, q + memory * (1 - q))):
        totals = pairs[before].sum(0)
        z = (pairs[before, 1] - totals * expected) / np.sqrt(totals * expected * (1 - expected))
        assert stats.chi2(12).sf(z @ z) > RARE
    share = pairs[:, 1].sum(0) / (rounds - 1)
    z = (share - q) / np.sqrt(q * (1 - q) * (1 + memory) / (1 - memory) / rounds)
    assert stats.chi2(12).sf(z @ z) > RARE
    correlation = (pairs[1, 1] / (rounds - 1) - share**2) / (share * (1 - share))
    np.testing.assert_allclose(correlation, memory, atol=0.08)


@pytest.mark.longer
def test_availability_is_stationary_from_the_first_round():
    q, seeds = np.linspace(0.2, 0.9, 12), list(range(300))
    swept = t.sweep(coming_and_going(0.9), twelve(), {}, seeds=seeds, rounds=1, metrics=("distance",))
    on = np.stack([trace.x for trace in swept.traces]).mean(0)
    z = (on - q) / np.sqrt(q * (1 - q) / len(seeds))
    assert stats.chi2(12).sf(z @ z) > RARE


@pytest.mark.slow
def test_availability_is_the_same_in_every_engine_and_goes_on_where_it_was_left():
    compiled, nodes = (play(coming_and_going(0.6), twelve(), 6, engine=engine) for engine in ("compiled", "nodes"))
    later = Session(coming_and_going(0.6), twelve(), seeds=t.Seeds.of(3), rounds=6)
    later.restore(play(coming_and_going(0.6), twelve(), 2).snapshot())
    for _ in later.play():
        pass
    for other in (nodes, later):
        jax.tree.map(np.testing.assert_array_equal, other.progress.server, compiled.progress.server)
        assert counted(other) == counted(compiled)


@pytest.mark.tiers(quick=[], longer=["compiled-repeat"])
@pytest.mark.parametrize(("engine", "missing"), [("compiled", "repeat"), ("nodes", "skip")])
def test_available_drawn_answered_and_aggregated_are_counted_apart(engine, missing):
    sampler = t.Available(t.Independent(size=3.0), probability=0.5, memory=0.5)
    session = play(Diary(sampler), twelve(), 8, engine=engine, faults=t.Faults(0.4, missing))
    met, totals = session.progress.server[2], session.trace.ledger.totals()
    assert (totals["available"], totals["drawn"], totals["aggregated"]) == tuple(met)
    assert totals["arrivals"] == met[2]
    assert (
        met[0] < 8 * 12 and met[1] < met[0] and (met[2] < met[1] if missing == "skip" else met[2] == met[1] < totals["contacts"])
    )


NOBODY = {
    "k-vib": lambda: t.MbGd(t.Available(adaptive(), probability=1e-12), lr=0.1),
    "optimal": lambda: t.MbGd(t.Available(t.Independent(size=2.0, probability=t.Optimal()), probability=1e-12), lr=0.1),
    "replacement": lambda: t.MbGd(t.Available(t.WithReplacement(t.KVib(rounds=9), size=2), probability=1e-12), lr=0.1),
    "sppm": lambda: t.Sppm(t.Available(adaptive(), probability=1e-12), t.solvers.GradientDescent(), gamma=1.0, inner=2),
    "power-of-choice": lambda: t.FedAvg(t.Available(t.PowerOfChoice(2, 3), probability=1e-12), lr=0.1),
    "afl": lambda: t.FedAvg(t.Available(t.Afl(2), probability=1e-12), lr=0.1),
}


@pytest.mark.tiers(quick=[], longer=["sppm"])
@pytest.mark.parametrize("name", NOBODY)
def test_a_round_with_nobody_available_is_a_draw_and_no_exchange(name):
    metrics = ("value", *SAMPLING) if name in ("k-vib", "replacement") else ("value",)
    before = Session(NOBODY[name](), four(), seeds=t.Seeds.of(3), rounds=3, metrics=metrics).progress
    before = jax.tree.map(np.array, (before.server, before.samplers))
    after = play(NOBODY[name](), four(), 3, metrics=metrics)
    jax.tree.map(np.testing.assert_array_equal, before, (after.progress.server, after.progress.samplers))
    totals = after.trace.ledger.totals()
    sites = [row for row in counted(after).values() if row["method"] == "draw"]
    assert [row["draws_arbitrary"] for row in sites] == [3] * len(sites)
    quiet = ("available", "drawn", "lost", "exchanges", "contacts", "arrivals", "aggregated", "queries_total", "bytes_up")
    assert not any(totals[name] for name in quiet)
    assert all(np.all(after.trace.columns[name] == 0) for name in metrics[1:])


@pytest.mark.slow
def test_the_chance_of_being_available_can_be_swept():
    algorithm = t.MbGd(t.Available(t.Independent(size=2.0), probability=0.5), lr=0.05)
    swept = t.sweep(algorithm, four(), {"sampler.probability": [0.3, 0.8]}, seeds=[3], rounds=4)
    for value, trace in zip([0.3, 0.8], swept.traces, strict=True):
        single = play(replace(algorithm, sampler=replace(algorithm.sampler, probability=value)), four(), 4).trace
        np.testing.assert_allclose(trace.x, single.x, rtol=1e-12)
        assert trace.ledger == single.ledger


@t.record
class Curious(t.Sampler):
    """Asks everyone before each round, and draws everyone."""

    everyone: t.Full = t.Full()
    supports_availability = True

    def refresh(self, state, ask, x):
        ask(ask.draw(self.everyone), self.hello, x)
        return state

    @t.on_client
    def hello(self, client, x):
        return t.Done(x)

    def draw(self, state, key, population):
        return self.everyone.draw(None, key, population)


@pytest.mark.longer
def test_a_sampler_within_another_asks_once():
    session = play(t.MbGd(t.Available(Curious(), probability=0.5), lr=0.05), four(), 2)
    assert [row["exchanges"] for row in counted(session).values() if row["method"].endswith("hello")] == [2]
