"""Samplers that ask before they draw, biased ones, clients that come and go, and what draws are judged by."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from test_conformance import client_gradient

import turnout as t
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.engines.quality import NAMES as SAMPLING
from turnout.samplers.base import samplers_in
from turnout.session import Session

ENGINES = pytest.mark.parametrize("engine", ["compiled", "nodes"])
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
RARE = 1e-3
"""How rarely chance alone fails a test."""


def four() -> t.Problem:
    """Four clients, three unknowns, unequal weights."""
    return t.Quadratic.of(*t.Quadratic.random(4, 3, seed=5).rows, weights=SHARES)


def with_rows() -> t.Problem:
    """Four clients with three or four rows each."""
    generator, bounds = np.random.default_rng(2), np.cumsum([0, 4, 3, 4, 3])
    dataset = Dataset("made", generator.normal(size=(14, 5)), np.where(generator.normal(size=14) > 0, 1.0, -1.0))
    return t.Logistic.of(dataset, Split(np.arange(14), bounds), mu=0.1, weights=SHARES)


def play(algorithm, problem, rounds, **options) -> Session:
    session = Session(algorithm, problem, seeds=t.Seeds.of(3), rounds=rounds, **options)
    for _ in session.play():
        pass
    return session


def counted(session) -> dict:
    return {row["path"]: row for row in session.trace.ledger.rows()}


def adaptive(**options) -> t.Independent:
    return t.Independent(size=2.0, probability=t.KVib(rounds=50), **options)


# Optimal probabilities.


@ENGINES
def test_optimal_probabilities_are_those_of_the_updates_that_follow(engine):
    """Minibatches are drawn by the clients' own keys, so that no regret means the very same keys."""
    sampler = t.Independent(size=2.0, probability=t.Optimal())
    algorithm = t.MbLocalGd(sampler, lr=0.05, batch=2, epochs=1)
    trace = play(algorithm, with_rows(), 2, engine=engine, metrics=("variance", "regret")).trace
    assert np.all(np.abs(trace.columns["regret"]) < 1e-12) and np.all(trace.columns["variance"][1:] > 1e-4)


def test_the_part_of_a_reply_that_is_like_the_parameters_is_what_counts():
    """Bfgs asks for the value beside the gradient."""
    sampler = t.Independent(size=2.0, probability=t.Optimal())
    trace = play(t.Sppm(sampler, t.Bfgs(smoothness=20.0), gamma=0.1, inner=2), four(), 3, metrics=("regret",)).trace
    assert np.all(np.abs(trace.columns["regret"]) < 1e-10)


@pytest.mark.parametrize("engines", [("nodes", "compiled"), ("compiled", "nodes")], ids=lambda engines: engines[0])
def test_a_preview_is_charged_a_scalar_from_everyone_unless_it_is_free(engines):
    paid, free = (
        play(t.MbGd(t.Independent(size=2.0, probability=t.Optimal(free=free)), lr=0.05), four(), 5, engine=engine)
        for free, engine in zip((False, True), engines, strict=True)
    )
    np.testing.assert_allclose(paid.trace.x, free.trace.x, rtol=1e-12)
    rows = counted(paid)
    asked = rows.pop("0.preview")
    assert rows.pop("0.consulted")["draws_arbitrary"] == asked["exchanges"] == 5
    assert asked["contacts"] == asked["arrivals"] == asked["queries_total"] == 5 * 4
    assert (asked["vectors_down"], asked["vectors_up"], asked["bytes_up"], asked["aggregated"]) == (1, 0, 8, 0)
    assert rows == counted(free)


@ENGINES
def test_a_preview_leaves_the_clients_states_alone(engine):
    """The control variates of those drawn are g_i, and those of the others zero still."""
    sampler = t.Independent(size=2.0, probability=t.Optimal())
    session = play(t.FedVarp(sampler, lr=0.05, steps=1, memory="clients"), four(), 1, engine=engine)
    drawn = counted(session)["0"]["drawn"]
    states, expected = session.progress.clients, np.stack([-0.05 * client_gradient(four(), i, np.zeros(3)) for i in range(4)])
    kept = np.any(states != 0, axis=1)
    assert 0 < drawn == kept.sum() < 4
    np.testing.assert_allclose(states, np.where(kept[:, None], expected, 0), atol=1e-14)


def test_who_did_not_answer_a_preview_can_still_be_drawn():
    population, rule = t.Population(count=4, weights=SHARES), t.Optimal()
    norms, told = jnp.array([1.0, jnp.nan, 0.5, 7.0]), jnp.array([True, True, True, False])
    scores = rule.scores(rule.preview(rule.start(population), norms, told), 2.0, population)
    np.testing.assert_allclose(scores, [1.0, 0.3 * 1.5 / 0.6, 0.5, 0.1 * 1.5 / 0.6])
    nobody = rule.preview(rule.start(population), norms, jnp.zeros(4, bool))
    np.testing.assert_allclose(rule.inclusion(nobody, 2.0, population), 2 * SHARES)
    sampler = t.Independent(size=2.0, probability=rule)
    faulty = play(t.MbGd(sampler, lr=0.05), four(), 20, faults=t.Faults(0.4, "skip"), metrics=("regret",))
    asked = counted(faulty)["0.preview"]
    assert asked["arrivals"] < asked["contacts"] == 80 and faulty.trace.columns["regret"][-1] > 1e-3


# Biased samplers.


def drawn_by(sampler, state, population, many: int) -> np.ndarray:
    """How often each set of clients is drawn, as an array [n, n] or [n], for cohorts of two or one."""
    cohorts = jax.vmap(lambda key: sampler(state, key, population))(jax.random.split(jax.random.key(0), many))
    assert np.all(cohorts.active)
    counts = np.zeros((population.count,) * cohorts.ids.shape[1])
    np.add.at(counts, tuple(np.sort(cohorts.ids, axis=1).T), 1)
    return counts


def agrees(counts: np.ndarray, chances: np.ndarray) -> bool:
    """Whether a chi-square test finds no difference."""
    assert np.all(counts[chances == 0] == 0)
    possible = chances > 0
    return possible.sum() == 1 or stats.chisquare(counts[possible], counts.sum() * chances[possible]).pvalue > RARE


def successive(q) -> np.ndarray:
    """The chances of pairs drawn one after the other without replacement."""
    pairs = np.zeros((len(q), len(q)))
    for i, k in itertools.permutations(range(len(q)), 2):
        pairs[min(i, k), max(i, k)] += q[i] * q[k] / (1 - q[i])
    return pairs


def test_candidates_are_drawn_by_their_weights_one_after_the_other():
    sampler, population = t.PowerOfChoice(1, 2), t.Population(count=4, weights=SHARES)
    assert agrees(drawn_by(sampler.consulted, sampler.start(population), population, 20_000), successive(SHARES))


def test_the_candidates_with_the_highest_losses_take_part():
    """Nobody takes part whose loss is lost or not a number, or who is not available."""
    population = t.Population(count=6)
    sampler = t.PowerOfChoice(2, 5).bind(population)

    def chosen(losses, told):
        state = sampler.preview(sampler.start(population), jnp.array(losses), jnp.array(told), population)
        cohort = sampler.draw(state, jax.random.key(0), population)
        return sorted(np.asarray(cohort.ids)[np.asarray(cohort.active)])

    losses = [3.0, -1.0, 9.0, np.nan, 5.0, 4.0]
    assert chosen(losses, [True, True, False, True, True, True]) == [4, 5]
    assert chosen(losses, [False, True, False, True, False, False]) == [1]
    assert chosen(losses, [False] * 6) == []
    some = replace(population, available=jnp.arange(6) > 2, presence=jnp.ones(6))
    asked = sampler.consulted(sampler.start(population), jax.random.key(1), some)
    assert sorted(np.asarray(asked.ids)[np.asarray(asked.active)]) == [3, 4, 5]


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


@pytest.mark.parametrize(
    ("settings", "chances"),
    [
        ({"dropped": 0.0, "sharpness": 2.0, "uniform": 0.0}, "softmax"),
        ({"dropped": 0.5, "sharpness": 2.0, "uniform": 0.0}, "upper half"),
        ({"dropped": 0.5, "sharpness": 2.0, "uniform": 1.0}, "uniform"),
    ],
)
@pytest.mark.parametrize("size", [1, 2])
def test_active_federated_learning_draws_by_a_softmax(settings, chances, size):
    population, values = t.Population(count=4), np.array([0.3, -0.2, 0.7, 0.1])
    sampler = replace(t.Afl(size, **settings), sizes=np.array([1.0, 4.0, 9.0, 1.0])).bind(population)
    cohort = t.Cohort.of(jnp.arange(4), 1.0, population, selection="arbitrary")
    losses = jnp.asarray(values / np.sqrt(sampler.sizes))
    state = sampler.observe(sampler.start(population), cohort, losses)
    np.testing.assert_allclose(state.values, values, rtol=1e-12)
    weight = {"softmax": np.exp(2 * values), "upper half": np.exp(2 * values) * (values > 0.2), "uniform": np.ones(4)}[chances]
    q = weight / weight.sum()
    assert agrees(drawn_by(sampler.draw, state, population, 20_000), q if size == 1 else successive(q))


@ENGINES
def test_valuations_are_losses_at_the_parameters_that_were_sent(engine):
    """Each reply carries one more scalar, and who was not drawn has no valuation."""
    session = play(t.FedAvg(t.Afl(2), lr=0.3), with_rows(), 1, engine=engine)
    state, rows = session.progress.samplers[0], counted(session)
    assert state.seen.sum() == 2 and rows["1"]["vectors_up"] == 1 and rows["1"]["bytes_up"] == 5 * 8 + 8
    expected = np.where(state.seen, np.sqrt(with_rows().sizes) * np.log(2), 0)
    np.testing.assert_allclose(state.values, expected, rtol=1e-12)


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
        lambda s: t.Sppm(s, t.LocalGd(corrected=False), gamma=1.0),
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
        (lambda: t.MbGd(t.Available(t.Nice(2), probability=[0.5, 0.0, 1.0, 1.0]), lr=0.1), r"in \(0, 1\], but one is 0"),
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


@t.record
class Teller(t.Algorithm):
    """Tells the sampler `lie` about every client, and moves nothing."""

    sampler: t.Sampler
    lie: float

    def round(self, ask, x):
        replies = ask(self.sampler, self.nothing, x)
        ask.observe(replies, jnp.full(replies.cohort.places, self.lie))
        return x + replies.average()

    @t.on_client
    def nothing(self, client, x):
        return t.Done(0 * x)


@pytest.mark.parametrize(("engine", "lie"), [("compiled", -1.0), ("compiled", np.nan), ("compiled", np.inf), ("nodes", -1.0)])
def test_feedback_that_is_no_norm_teaches_nothing_and_is_an_error(engine, lie):
    options = {"seeds": t.Seeds.of(3), "rounds": 4, "engine": engine, "metrics": ("value",)}
    session = Session(Teller(adaptive(), lie), four(), **options)
    before = jax.tree.map(np.array, session.progress.samplers)
    with pytest.raises(t.UserError, match="feedbacks to the sampler by round . were negative, NaN or infinite"):
        for _ in session.play():
            pass
    jax.tree.map(np.testing.assert_array_equal, before, session.progress.samplers)
    assert counted(session)["1"]["unusable"] == counted(session)["1"]["arrivals"] > 0


# Clients that come and go.

Q = np.array([0.9, 0.5, 0.25, 1.0])
VECTORS = np.random.default_rng(4).normal(size=(4, 3))


def subsets():
    return (np.array(which) for which in itertools.product([False, True], repeat=4))


def chance(which, p) -> float:
    return np.prod(np.where(which, p, 1 - p))


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
        known = known._replace(omega=jnp.array([4.0, 1.0, 0.0, 0.3]))
    mean = np.zeros(3)
    draw, expect, spread = (jax.jit(f) for f in (sampler.draw, sampler.expected, sampler.variance))
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


@pytest.mark.parametrize("memory", [0.0, 0.7])
def test_availability_is_the_markov_chain_it_says(memory):
    """Given what came before the coins are independent, so that the counts of a row are binomial; a stationary chain is on in
    the share q of rounds, with variance q (1 - q) (1 + rho) / (1 - rho) / T for large T, and its autocorrelation is rho.
    """
    q, rounds = np.linspace(0.2, 0.9, 12), 6000
    pairs = np.asarray(play(coming_and_going(memory), twelve(), rounds, every=rounds, metrics=("distance",)).progress.server[1])
    for before, chances in ((0, (1 - memory) * q), (1, q + memory * (1 - q))):
        many = pairs[before].sum(0)
        z = (pairs[before, 1] - many * chances) / np.sqrt(many * chances * (1 - chances))
        assert stats.chi2(12).sf(z @ z) > RARE
    share = pairs[:, 1].sum(0) / (rounds - 1)
    z = (share - q) / np.sqrt(q * (1 - q) * (1 + memory) / (1 - memory) / rounds)
    assert stats.chi2(12).sf(z @ z) > RARE
    correlation = (pairs[1, 1] / (rounds - 1) - share**2) / (share * (1 - share))
    np.testing.assert_allclose(correlation, memory, atol=0.08)


def test_availability_is_stationary_from_the_first_round():
    q, seeds = np.linspace(0.2, 0.9, 12), list(range(300))
    swept = t.sweep(coming_and_going(0.9), twelve(), {}, seeds=seeds, rounds=1, metrics=("distance",))
    on = np.stack([trace.x for trace in swept.traces]).mean(0)
    z = (on - q) / np.sqrt(q * (1 - q) / len(seeds))
    assert stats.chi2(12).sf(z @ z) > RARE


def test_availability_is_the_same_in_every_engine_and_goes_on_where_it_was_left():
    compiled, nodes = (play(coming_and_going(0.6), twelve(), 6, engine=engine) for engine in ("compiled", "nodes"))
    later = Session(coming_and_going(0.6), twelve(), seeds=t.Seeds.of(3), rounds=6)
    later.restore(play(coming_and_going(0.6), twelve(), 2).snapshot())
    for _ in later.play():
        pass
    for other in (nodes, later):
        jax.tree.map(np.testing.assert_array_equal, other.progress.server, compiled.progress.server)
        assert counted(other) == counted(compiled)


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
    "replacement": lambda: t.MbGd(t.Available(t.WithReplacement(2, t.KVib(rounds=9)), probability=1e-12), lr=0.1),
    "sppm": lambda: t.Sppm(t.Available(adaptive(), probability=1e-12), t.GradientDescent(), gamma=1.0, inner=2),
    "power-of-choice": lambda: t.FedAvg(t.Available(t.PowerOfChoice(2, 3), probability=1e-12), lr=0.1),
    "afl": lambda: t.FedAvg(t.Available(t.Afl(2), probability=1e-12), lr=0.1),
}


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
    masks = True

    def refresh(self, state, ask, x):
        ask(ask.draw(self.everyone), self.hello, x)
        return state

    @t.on_client
    def hello(self, client, x):
        return t.Done(x)

    def draw(self, state, key, population):
        return self.everyone.draw(None, key, population)


def test_a_sampler_within_another_asks_once():
    session = play(t.MbGd(t.Available(Curious(), probability=0.5), lr=0.05), four(), 2)
    assert [row["exchanges"] for row in counted(session).values() if row["method"].endswith("hello")] == [2]


# What draws are judged by.


def least(squares, size, replacement) -> float:
    """min sum_i squares_i / p_i over sum p = K, and p <= 1 without replacement, by a general solver."""
    some = squares > 0
    squares = squares[some]
    bound = None if replacement else 1
    if not replacement and squares.size <= size:
        return squares.sum()
    scale = squares.sum()
    found = minimize(
        lambda p: np.sum(squares / p) / scale,
        np.full(squares.size, min(1.0, size / squares.size)),
        jac=lambda p: -squares / p**2 / scale,
        bounds=[(1e-6, bound)] * squares.size,
        constraints={"type": "eq", "fun": lambda p: p.sum() - size, "jac": np.ones_like},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.fun * scale


JUDGED = {
    "independent": lambda: t.MbGd(adaptive(), lr=0.05),
    "replacement": lambda: t.MbGd(t.WithReplacement(2, t.KVib(rounds=50)), lr=0.05),
    "available": lambda: t.MbGd(t.Available(adaptive(), probability=Q, memory=0.2), lr=0.05),
    "first of two exchanges": lambda: t.Sppm(adaptive(), t.GradientDescent(smoothness=20.0, convexity=0.0), gamma=0.3, inner=2),
}


@pytest.mark.parametrize("name", JUDGED)
def test_sampling_metrics_are_their_definitions(name):
    """The variance is that of all that can be drawn, written out; the regrets are against a general solver's optimum."""
    rounds, problem = 4, four()
    runs = [play(JUDGED[name](), problem, r, metrics=("value", *SAMPLING)) for r in range(rounds + 1)]
    replacement, total = name == "replacement", np.zeros(4)
    loss = best = 0.0
    for before, after in itertools.pairwise(runs):
        algorithm = after.engine.algorithm
        sampler, state = algorithm.sampler, before.progress.samplers[0]
        if name == "available":
            state = after.progress.samplers[0][0], state[1]
        x, p = before.trace.x, np.asarray(sampler.expected(state, problem.population))
        on, q = (np.asarray(state[0]), Q) if name == "available" else (np.ones(4, bool), np.ones(4))
        vectors = np.stack([SHARES[i] / q[i] * client_gradient(problem, i, x) for i in range(4)]) * on[:, None]
        inverse = np.where(p > 0, 1 / np.where(p > 0, p, 1), 0)
        if replacement:
            chances = [(p[i] * p[k] / 4, np.eye(4)[i] + np.eye(4)[k]) for i in range(4) for k in range(4)]
        else:
            chances = [(chance(drawn, p), drawn) for drawn in subsets()]
        variance = sum(w * np.sum(((drawn * inverse) @ vectors - vectors.sum(0)) ** 2) for w, drawn in chances)
        squares = np.sum(vectors**2, axis=1)
        total += squares
        loss += squares @ inverse
        best += least(squares, p.sum(), replacement)
        row = {metric: after.trace.columns[metric][-1] for metric in SAMPLING}
        assert row["variance"] == pytest.approx(variance, rel=1e-9)
        assert row["regret"] == pytest.approx(loss - best, rel=1e-5, abs=1e-6 * loss)
        assert row["static_regret"] == pytest.approx(loss - least(total, 2.0, replacement), rel=1e-5, abs=1e-6 * loss)


def test_judging_changes_neither_the_run_nor_the_ledger():
    algorithm = t.MbLocalGd(t.Available(adaptive(), probability=0.7), lr=0.05, steps=2)
    plain = play(algorithm, four(), 5, metrics=("value",))
    judged, nodes = (play(algorithm, four(), 5, engine=e, metrics=("value", *SAMPLING)) for e in ("compiled", "nodes"))
    for other in (judged, nodes):
        np.testing.assert_allclose(plain.trace.x, other.trace.x, rtol=1e-12)
        assert counted(plain) == counted(other)
    for metric in SAMPLING:
        np.testing.assert_allclose(judged.trace.columns[metric], nodes.trace.columns[metric], rtol=1e-9, atol=1e-12)


def test_rows_report_the_mean_variance_since_the_row_before():
    each, pairs = (play(JUDGED["independent"](), four(), 6, metrics=("variance",), every=every).trace for every in (1, 2))
    means = each.columns["variance"][1:].reshape(3, 2).mean(1)
    np.testing.assert_allclose(pairs.columns["variance"][1:], means, rtol=1e-12)


def test_a_sweeps_cell_is_judged_like_the_single_run():
    algorithm, metrics = JUDGED["independent"](), ("value", *SAMPLING)
    swept = t.sweep(algorithm, four(), {"sampler.size": [1.5, 2.0]}, seeds=[3], rounds=4, metrics=metrics)
    single = play(algorithm, four(), 4, metrics=metrics).trace
    for metric in metrics:
        np.testing.assert_allclose(swept.traces[1].columns[metric], single.columns[metric], rtol=1e-9, atol=1e-12)


def test_every_sampler_that_looks_ahead_says_so_through_availability():
    for inner in (t.PowerOfChoice(2, 3), t.Afl(2), t.Independent(size=2.0, probability=t.Optimal(free=True)), adaptive()):
        outer = t.Available(inner, probability=0.5)
        for name in ("previews", "charges", "learns", "measures", "replacement"):
            assert getattr(outer, name) == getattr(inner, name)
        assert samplers_in(outer) == [outer, inner]
