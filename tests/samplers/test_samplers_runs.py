"""Samplers inside runs: the same in every engine, charged for what they ask, and with a state that lasts."""

import numpy as np
import pytest

import turnout as t
from tests.experiment.test_config import GOOD
from tests.helpers.enumeration import DESIGNS
from tests.helpers.examples import logistic, quadratic
from turnout.core.errors import Caution
from turnout.data import Dataset, Split
from turnout.experiment.config import Reader
from turnout.problems.logistic import NonconvexLogistic
from turnout.runs.session import Session
from turnout.runs.setup import bind
from turnout.samplers.base import samplers_in
from turnout.samplers.clustering import optimal_strata

ENGINES = ["compiled", "nodes"]


def play(sampler, problem, rounds, **options) -> Session:
    session = Session(t.MbGd(sampler, lr=0.02), problem, seeds=t.Seeds.of(3), rounds=rounds, **options)
    for _ in session.play():
        pass
    return session


def ledger(session) -> list[dict]:
    return session.trace.ledger.rows()


IN_TURN = ["shuffled-nice", "nonuniform", "shuffled-stratified", "subsets"]


@pytest.mark.tiers(quick=[], slow=["subsets"])
@pytest.mark.parametrize("name", IN_TURN)
def test_engines_agree(name):
    problem = t.Quadratic.random(6, 3, seed=2)
    sessions = [play(DESIGNS[name], problem, 7, engine=engine) for engine in ENGINES]
    np.testing.assert_allclose(*(session.trace.x for session in sessions), atol=1e-13)
    assert ledger(sessions[0]) == ledger(sessions[1])


@t.record
class Census(t.Algorithm):
    """Counts in x how often each client was drawn, `draws` times a round."""

    sampler: t.Sampler
    draws: int

    def round(self, ask, x):
        return ask.loop(self.draws, lambda x: x + ask(self.sampler, self.here, x).average(), x)

    @t.on_client
    def here(self, client, x):
        return t.Done((np.arange(x.size, dtype="int32") == client.id).astype(x.dtype))


@pytest.mark.tiers(quick=["3-2-sampler0"], longer=["1-6-sampler0", "3-2-sampler1"])
@pytest.mark.parametrize("sampler", [t.ShuffledNice(4), t.ShuffledStratified(strata=[0, 1, 2, 3] * 3)])
@pytest.mark.parametrize(("draws", "rounds"), [(1, 6), (3, 2)])
def test_two_epochs_in_a_run_visit_everyone_twice(sampler, draws, rounds):
    """Twelve clients in cohorts of four, however six draws fall into rounds: each visit counts lambda_i / p_i = 1/4."""
    session = Session(Census(sampler, draws), t.Quadratic.random(12, 12), seeds=t.Seeds.of(0), rounds=rounds, metrics=("value",))
    for _ in session.play():
        pass
    np.testing.assert_allclose(session.progress.server, 2 * np.full(12, 1 / 4), rtol=1e-12)
    assert session.trace.ledger.totals()["exchanges"] == 6


@pytest.mark.tiers(quick=[], longer=["sampler1"])
@pytest.mark.parametrize("sampler", [t.ShuffledNice(5), t.Stratified(by="gradients", clusters=3, every=3)])
def test_a_run_that_is_left_goes_on_with_the_samplers_state(sampler):
    whole = play(sampler, quadratic(), 5)
    early = play(sampler, quadratic(), 2)
    later = Session(t.MbGd(sampler, lr=0.02), quadratic(), seeds=t.Seeds.of(3), rounds=5)
    later.restore(early.snapshot())
    for _ in later.play():
        pass
    np.testing.assert_array_equal(later.trace.x, whole.trace.x)


@pytest.mark.tiers(quick=["9-1"], longer=["1-5", "2-3"])
@pytest.mark.parametrize(("every", "grades"), [(None, 1), (1, 5), (2, 3), (9, 1)])
def test_strata_by_gradients_are_asked_for_and_charged(every, grades):
    """Five rounds, 12 clients, 4 strata: a pass over all is three selections, one exchange, and a vector down and up for each."""
    session = play(t.Stratified(by="gradients", clusters=4, every=every), quadratic(), 5)
    rows = {row["path"]: row for row in ledger(session)}
    draw, asked = rows["refresh.0.0.then.0"], rows["refresh.0.0.then.1"]
    assert (draw["draws_arbitrary"], asked["method"]) == (3 * grades, "sampler.gradient")
    assert (asked["exchanges"], asked["contacts"], asked["queries_total"]) == (grades, 12 * grades, 12 * grades)
    assert (asked["vectors_down"], asked["vectors_up"], asked["reasks"]) == (1, 1, 0)
    assert (rows["0"]["draws_arbitrary"], rows["1"]["contacts"]) == (5, 20)


@pytest.mark.longer
@pytest.mark.parametrize("problem", [quadratic, pytest.param(logistic, marks=pytest.mark.slow)])
def test_strata_by_gradients_are_the_same_in_every_engine(problem):
    sessions = [play(t.Stratified(by="gradients", clusters=3, every=2), problem(), 4, engine=engine) for engine in ENGINES]
    for one, other in zip(*(session.progress.samplers[0] for session in sessions), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(*(session.trace.x for session in sessions), atol=1e-13)
    assert ledger(sessions[0]) == ledger(sessions[1])


def gradients(problem, x) -> np.ndarray:
    matrices, vectors = problem.rows
    return matrices @ x - vectors


@pytest.mark.parametrize(("rounds", "made_after"), [(1, 0), (2, 0), (3, 2), (4, 2)])
def test_strata_are_the_best_for_the_gradients_when_they_were_made(rounds, made_after):
    """With every = 2 strata are made before rounds 1, 3, ...: at the models after rounds 0, 2, ..."""
    sampler = t.Stratified(by="gradients", clusters=4, every=2)
    order, starts = (np.asarray(part) for part in play(sampler, quadratic(), rounds).progress.samplers[0])
    x = play(sampler, quadratic(), made_after).progress.server
    best = optimal_strata(gradients(quadratic(), np.asarray(x)), 4)
    result = {frozenset(part.tolist()) for part in np.split(order, starts[1:-1])}
    assert result == {frozenset(np.flatnonzero(best == j).tolist()) for j in range(4)}


@pytest.mark.slow
def test_strata_made_again_keep_a_sweep_equal_to_its_runs():
    algorithm = t.MbGd(t.Stratified(by="gradients", clusters=3, every=2), lr=0.1)
    swept = t.sweep(algorithm, quadratic(), {"lr": [0.02, 0.05], "sampler.every": [1, 2]}, rounds=3)
    for cell, trace in zip(swept.cells, swept.traces, strict=True):
        sampler = t.Stratified(by="gradients", clusters=3, every=cell.settings["sampler.every"])
        single = t.run(t.MbGd(sampler, lr=cell.settings["lr"]), quadratic(), rounds=3)
        np.testing.assert_allclose(trace.x, single.x, atol=1e-13)
        assert trace.ledger.totals() == single.ledger.totals()


@pytest.mark.slow
def test_lost_gradients_and_a_diverging_model_leave_valid_strata():
    sampler, faults = t.Stratified(by="gradients", clusters=3, every=1), t.Faults(loss=0.5, missing="skip")
    sessions = [play(sampler, quadratic(), 4, engine=engine, faults=faults) for engine in ENGINES]
    orders = [np.asarray(session.progress.samplers[0][0]) for session in sessions]
    np.testing.assert_array_equal(*orders)
    np.testing.assert_array_equal(np.sort(orders[0]), np.arange(12))
    with pytest.warns(Caution, match="diverged at round 3"):
        assert t.run(t.MbGd(sampler, lr=1e200), quadratic(), rounds=6, every=3).diverged == 3


def test_a_samplers_own_sampler_is_found_after_it():
    bound = bind(t.MbGd(t.Stratified(by="gradients", clusters=3), lr=0.1), quadratic())
    assert samplers_in(bound) == [bound.sampler, bound.sampler.everyone]
    assert samplers_in(t.MbGd(t.Nice(2), lr=0.1)) == [t.Nice(2)]


@pytest.mark.parametrize(
    "table",
    [
        {"kind": "stratified", "by": "gradients", "clusters": 10, "every": 50},
        {"kind": "stratified", "by": "rows", "clusters": 3, "size": 2},
        {"kind": "block", "blocks": [0, 1, 1], "probability": [0.5, 0.5]},
        {"kind": "nonuniform", "probability": [0.25, 0.75]},
        {"kind": "importance"},
        {"kind": "subsets", "subsets": [[0, 1], [2]], "probability": [0.5, 0.5]},
        {"kind": "shuffled-nice", "size": 3},
        {"kind": "shuffled-stratified"},
    ],
)
def test_samplers_are_configured_and_written(table):
    import tomllib

    tables = {**tomllib.loads(GOOD), "sampler": table}
    experiment = Reader("made.toml", "", tables).experiment("made")
    written = tomllib.loads(experiment.to_toml())
    assert table.items() <= written["sampler"].items()
    assert Reader("made.toml", "", written).experiment("made").algorithm == experiment.algorithm


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"kind": "stratified", "by": "magic", "clusters": 2}, "sampler.by: must be"),
        ({"kind": "stratified", "by": "rows"}, "needs the number of clusters"),
        ({"kind": "stratified", "strata": "all"}, "sampler.strata: must be"),
        ({"kind": "block", "blocks": [0.5]}, "sampler.blocks: must be"),
        ({"kind": "nonuniform", "probability": [0.5, -0.5]}, "sampler.probability: must be"),
        ({"kind": "nonuniform"}, "probability is missing"),
        ({"kind": "subsets", "subsets": [[0], 1], "probability": [0.5, 0.5]}, "sampler.subsets: must be"),
        ({"kind": "shuffled-nice", "size": 0}, "sampler.size: must be"),
        ({"kind": "importance", "size": 1}, "unknown key 'size'"),
    ],
)
def test_a_sampler_configured_wrongly_is_one_sentence(table, words):
    import tomllib

    with pytest.raises(t.UserError, match=words) as error:
        Reader("made.toml", "", {**tomllib.loads(GOOD), "sampler": table}).experiment("made")
    assert "\n" not in str(error.value)


def two_clients():
    return Dataset("made", np.eye(4), np.array([1.0, -1.0, 1.0, -1.0])), Split(np.arange(4), np.array([0, 2, 4]))


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (lambda: t.Problem((np.ones((3, 2)), np.ones(3)), np.arange(4), t.Population(count=3)), "which Problem does not know"),
        (lambda: t.Quadratic.of(np.array([1.0, 0.0])[:, None, None] * np.eye(2), np.ones((2, 2))), "that of client 1 is 0"),
        (lambda: NonconvexLogistic.of(*two_clients(), mu=0.0, alpha=0.6), "that of client 0 is -0.15"),
    ],
)
def test_importance_needs_strong_convexity(problem, words):
    with pytest.raises(t.UserError, match=words):
        t.Importance().fit(problem())
    with pytest.raises(t.UserError, match="fit it to one"):
        t.Importance().bind(t.Population(count=3))


@pytest.mark.parametrize("scale", [0.01, 100.0])
@pytest.mark.parametrize("weights", [None, np.array([0.5, 0.3, 0.2])])
def test_importance_makes_every_client_as_convex_as_the_mean(scale, weights):
    """p_i is in proportion to lambda_i mu_i, so that mu_AS = min_i lambda_i mu_i / p_i is as large as can be."""
    mu = scale * np.array([1.0, 4.0, 2.0])
    problem = t.Quadratic.of(mu[:, None] * [1.0, 1.5], np.ones((3, 2)), weights)
    shares = np.full(3, 1 / 3) if weights is None else weights
    p = t.Importance().fit(problem).probability
    np.testing.assert_allclose(shares * mu / p, shares @ mu, rtol=1e-12)
