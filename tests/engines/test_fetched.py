"""Runs whose clients are not in memory: the same numbers, cohorts and ledger as in memory, and the same again when resumed."""

import gc
import weakref

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import ALGORITHMS, ASYNCHRONOUS, PROBABILITIES, PROBLEMS, SAMPLERS, logistic, small
from tests.helpers.fetched import as_fetched
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.problems.storage.fetched import Fetched
from turnout.problems.storage.store import store
from turnout.runs import disk
from turnout.runs.session import Session

TOLERANCE = 1e-12
EXAMPLES = {name: example.on(3.0) for name, example in ALGORITHMS.items()} | ASYNCHRONOUS


def agree(algorithm, problem, **options):
    """Assert that a run with rows and states that are fetched is the run in memory, and return it."""
    options = {"rounds": 4, **options}
    one, other = (t.run(algorithm, each, **options) for each in (problem, as_fetched(problem)))
    # A GPU keeps more digits than those of bfloat16 where it fuses operations, which depends on the program.
    mixed = 1e-6 if jax.default_backend() == "cpu" else 2.0**-8
    tolerance = mixed if options.get("precision") == "mixed" else TOLERANCE
    for left, right in zip(*(jax.tree.leaves((trace.x, trace.columns)) for trace in (one, other)), strict=True):
        np.testing.assert_allclose(right, left, rtol=tolerance, atol=tolerance)
    for column in ("round", "counts"):
        np.testing.assert_array_equal(other.columns[column], one.columns[column])
    return other


@pytest.mark.tiers(quick=[], longer=["mifa"], slow=["icgm", "fedbuff"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_algorithm(name):
    agree(EXAMPLES[name], small())


@pytest.mark.tiers(quick=[], slow=["available", "stratified"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler(name):
    agree(t.FedAvg(SAMPLERS[name], lr=0.05, steps=2), small())


@pytest.mark.tiers(quick=[], slow=["last-norm"])
@pytest.mark.parametrize("name", PROBABILITIES)
def test_samplers_that_learn_while_replies_are_lost(name):
    algorithm = t.Scaffold(t.Independent(size=3.0, probability=PROBABILITIES[name]), lr=0.05, steps=2)
    totals = agree(algorithm, small(), rounds=12, faults=t.Faults(0.3, "skip")).ledger.totals()
    assert totals["arrivals"] < totals["contacts"]


@pytest.mark.tiers(quick=[], slow=["logistic"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_passes_over_batches_on_every_problem(name):
    agree(t.Scaffold(t.Nice(4), lr=0.05, steps=2), PROBLEMS[name]())
    agree(t.FedAvg(t.Nice(4), lr=0.05, batch=3, epochs=2), PROBLEMS[name]())


OPTIONS = {
    "metrics": {"metrics": ("value", "gap", "gradient", "distance", "accuracy", "accuracy_10", "accuracy_90")},
    "judged draws": {"metrics": ("value", "variance", "regret")},
    "top-k with memory": {"exchange": t.Exchange(up=t.codecs.TopK(fraction=0.4), feedback="ef21")},
    "few clients at a time": {"memory": 1},
    "central privacy": {"privacy": t.Privacy(clip=1.0, noise_multiplier=1.0, delta=1e-5, seed=1)},
    "a clock": {"devices": t.Devices(seconds_per_query=0.1, latency=0.2)},
    "half precision": {"precision": "mixed"},
}


@pytest.mark.tiers(quick=[], slow=["judged draws", "metrics", "top-k with memory"])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option(name):
    agree(t.MbGd(t.Independent(size=4.0), lr=0.05), logistic(), **OPTIONS[name])


@pytest.mark.longer
def test_only_the_clients_of_cohorts_are_read():
    problem = as_fetched(t.Quadratic.random(clients=50, dimension=3, seed=0))
    source = jax.tree.leaves(problem.rows)[0].source
    trace = t.run(t.FedAvg(t.Nice(2), lr=0.05), problem, rounds=3, evaluate=5)
    # Three cohorts, one more that is read ahead, and the sample on which f is evaluated.
    assert np.unique(np.concatenate(source.reads)).size <= 2 * 4 + 5
    assert trace.ledger.totals()["contacts"] == 6


@pytest.mark.longer
def test_the_next_cohort_is_read_ahead():
    problem = as_fetched(t.Quadratic.random(clients=50, dimension=3, seed=0))
    source = jax.tree.leaves(problem.rows)[0].source
    t.run(t.FedAvg(t.Nice(2), lr=0.05), problem, rounds=10, every=10, evaluate=5)
    cohorts = [tuple(ids) for ids in source.reads if ids.size == 2]
    # Each cohort is read once, either ahead or when it is asked; that of the round after the last one may not be read yet.
    assert len(cohorts) == len(set(cohorts)) in (10, 11)


@pytest.mark.slow
def test_an_estimate_of_f_has_the_error_that_it_tells():
    problem = logistic()
    algorithm, start = t.FedAvg(t.Full(), lr=0.1), np.full(5, 0.3)
    whole = t.run(algorithm, problem, rounds=0, start=start, metrics=("value", "accuracy")).columns
    samples = [
        t.run(algorithm, as_fetched(problem), rounds=0, start=start, metrics=("value", "accuracy"), evaluate=5, seed=k).columns
        for k in range(120)
    ]
    for name in ("value", "accuracy"):
        estimates = np.array([float(columns[name][0]) for columns in samples])
        errors = np.array([float(columns[f"{name}_error"][0]) for columns in samples])
        # Mean and variance of estimates from simple random samples without replacement.
        np.testing.assert_allclose(estimates.mean(), whole[name][0], atol=4 * estimates.std() / np.sqrt(len(samples)))
        np.testing.assert_allclose(np.mean(errors**2), estimates.var(ddof=1), rtol=0.5)


def sessions(tmp_path, algorithm, problem, **options):
    for name in ("first", "second", "third"):
        (tmp_path / name).mkdir()
        yield Session(algorithm, problem, rounds=12, every=1, folder=tmp_path / name, **options)


@pytest.mark.slow
@pytest.mark.parametrize("missing", [None, t.Faults(0.3, "skip")])
def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path, monkeypatch, missing):
    monkeypatch.setattr(disk, "FROM", 2)
    problem = as_fetched(t.Quadratic.random(clients=9, dimension=3, seed=0))
    algorithm = t.Scaffold(t.Independent(t.KVib(rounds=12), size=4.0), lr=0.05, steps=2)
    whole, stopped, _ = sessions(tmp_path, algorithm, problem, faults=missing, evaluate=None)
    whole.run()
    chunks = stopped.play()
    while stopped.round < 5:
        next(chunks)
    snapshot = stopped.snapshot()
    next(chunks)
    resumed = Session(algorithm, problem, rounds=12, every=1, folder=tmp_path / "second", faults=missing)
    resumed.restore(snapshot)
    resumed.run()
    for left, right in zip(*(jax.tree.leaves((s.trace.x, s.trace.columns)) for s in (whole, resumed)), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.slow
def test_an_index_and_arrays_draw_by_the_same_probabilities(monkeypatch):
    problem = t.Quadratic.random(clients=30, dimension=3, seed=0)
    algorithm = t.MbGd(t.Independent(t.KVib(rounds=40), size=6.0), lr=0.01)
    runs = {}
    for name, smallest in (("arrays", 10**5), ("index", 2)):
        monkeypatch.setattr(disk, "FROM", smallest)
        runs[name] = [t.run(algorithm, as_fetched(problem), rounds=40, seed=k, every=40) for k in range(40)]
    ends = {name: np.array([float(trace.columns["value"][-1]) for trace in traces]) for name, traces in runs.items()}
    sizes = {name: np.array([trace.ledger.totals()["contacts"] for trace in traces]) for name, traces in runs.items()}
    for left, right in (ends.values(), sizes.values()):
        error = np.hypot(left.std(ddof=1), right.std(ddof=1)) / np.sqrt(40)
        assert abs(left.mean() - right.mean()) < 4 * error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mesh": 2}, "a mesh of devices does not go with clients on disk"),
        ({"evaluate": 3, "metrics": ("gradient",)}, "'gradient' needs all clients"),
        ({"evaluate": 1}, "leaves no standard error"),
        ({"metrics": ("value_error",)}, "set evaluate"),
        ({"evaluate": 3, "storage": "memory"}, "evaluate is for storage = 'disk'"),
        ({"metrics": ("dual_gap",)}, "dual_gap"),
    ],
)
def test_what_does_not_go_with_it_is_told(options, words):
    with pytest.raises(UserError, match=words):
        t.run(ALGORITHMS["feddcd"].make(t.Nice(3)), as_fetched(small()), rounds=2, **options)


def test_sweeps_and_rows_in_memory_are_told():
    with pytest.raises(UserError, match="a sweep does not go with clients on disk"):
        t.sweep(t.FedAvg(t.Nice(3), lr=0.1), as_fetched(small()), {"lr": [0.1, 0.2]}, rounds=2)
    with pytest.raises(UserError, match="needs rows in a client file"):
        t.run(t.FedAvg(t.Nice(3), lr=0.1), small(), rounds=2, storage="disk")


@pytest.mark.longer
def test_rows_can_be_read_into_memory():
    assert isinstance(store(as_fetched(small())), Fetched)
    agree(t.FedAvg(t.Nice(3), lr=0.05), small(), storage="memory")


@pytest.mark.slow
def test_feedback_that_is_too_large_is_told_in_a_sentence(monkeypatch):
    monkeypatch.setattr(disk, "FROM", 2)
    algorithm = t.MbGd(t.Independent(t.KVib(bound=1e-200, rounds=9), size=4.0), lr=0.01)
    with pytest.raises(UserError, match="too large beside that of others"):
        t.run(algorithm, as_fetched(small()), rounds=9)


@t.record
class Twice(t.Algorithm):
    """Averages the gradients of two cohorts that one sampler draws, and tells it of both at the end of the round."""

    sampler: t.Sampler
    lr: float = 0.01

    def start(self, ask, x):
        return x

    def round(self, ask, x):
        cohorts = [ask.draw(self.sampler) for _ in range(2)]
        replies = [ask(cohort, self.gradient, x) for cohort in cohorts]
        for reply in replies:
            ask.observe(reply)
        return jax.tree.map(lambda x, a, b: x - self.lr * (a + b) / 2, x, *(reply.average() for reply in replies))

    @t.on_client
    def gradient(self, client, x):
        return Done(client.grad(x))


@pytest.mark.slow
def test_an_index_that_two_cohorts_of_a_round_change_is_changed_in_order(monkeypatch):
    monkeypatch.setattr(disk, "FROM", 2)
    problem = t.Quadratic.random(clients=30, dimension=3, seed=0)
    algorithm = Twice(t.Independent(t.KVib(rounds=60), size=5.0))
    one, other = (t.run(algorithm, as_fetched(problem), rounds=60) for _ in range(2))
    np.testing.assert_array_equal(one.x, other.x)
    assert one.columns["value"][-1] < one.columns["value"][0]


@pytest.mark.slow
def test_a_problem_and_its_runs_leave_nothing():
    """Programs know objects by number, which does not keep them; a thread that reads ahead does until it has read."""
    problem = as_fetched(small())
    for algorithm in (t.Scaffold(t.Nice(3), lr=0.05), t.FedAvg(t.Nice(2), lr=0.05)):
        t.run(algorithm, problem, rounds=2)
    source = weakref.ref(jax.tree.leaves(problem.rows)[0].source)
    # The thread reads in the order in which it is asked, so it has read all that the runs asked for.
    assert [reader._thread.submit(int).result() for reader in source()._readers.values()]
    del problem
    gc.collect()
    assert source() is None
