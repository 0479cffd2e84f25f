"""What every algorithm owes: one table, all tests."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import ADAPTIVE, PROBLEMS, ROWS, logistic, quadratic, with_leaves
from turnout.core.seeds import Seeds
from turnout.engines import compiled
from turnout.runs.session import Session

rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
all_rows = pytest.mark.parametrize("row", [*ROWS, *ADAPTIVE], ids=lambda row: row.name)
FAULTS = {"none": None, "skip": t.Faults(0.3, "skip"), "repeat": t.Faults(0.3, "repeat")}


def play(algorithm, problem, rounds=6, precision="double", **options) -> t.Trace:
    """Play a run, whose parameters keep their shapes and have the type of the run."""
    trace = t.run(algorithm, problem, rounds=rounds, precision=precision, **options)
    first = problem.start(jax.random.key(0))
    assert jax.tree.structure(trace.x) == jax.tree.structure(first)
    for leaf, like in zip(jax.tree.leaves(trace.x), jax.tree.leaves(first), strict=True):
        assert (leaf.shape, leaf.dtype) == (like.shape, np.float32 if precision == "single" else np.float64)
    return trace


def close(a, b, tolerance=1e-11):
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


# Under faults it is the handling of replies and states that differs, which three kinds of algorithm cover.
NODES = [
    *((row, problem, "none") for row in ROWS if "one-step" not in row.name for problem in PROBLEMS),
    *((row, "logistic", faults) for row in (ROWS[0], ROWS[-2], ROWS[-1]) for faults in ("skip", "repeat")),
    *((row, "logistic", faults) for row in ADAPTIVE for faults in ("none", "skip")),
    *((row, "network", "none") for row in ADAPTIVE),
]


@pytest.mark.parametrize(("row", "problem", "faults"), NODES, ids=lambda part: getattr(part, "name", part))
def test_nodes_with_shuffled_arrival_give_the_compiled_run(row, problem, faults):
    algorithm = row.make(t.Independent(size=3.0))
    one, other = (
        play(algorithm, PROBLEMS[problem](), rounds=3, seed=4, faults=FAULTS[faults], engine=engine)
        for engine in ("compiled", "nodes")
    )
    close(one.x, other.x)
    assert one.sites == other.sites
    np.testing.assert_array_equal(one.columns["counts"], other.columns["counts"])


@all_rows
def test_new_hyperparameters_and_seeds_do_not_compile_again(row):
    algorithm = row.make(t.Nice(3))
    play(algorithm, quadratic())
    before = compiled._advance._cache_size()
    play(with_leaves(algorithm, row.other), quadratic(), seed=5)
    assert compiled._advance._cache_size() == before


@all_rows
def test_a_sweeps_cell_is_the_single_run(row):
    algorithm = row.make(t.Nice(3))
    ((name, value),) = row.other.items()
    swept = t.sweep(algorithm, quadratic(), {name: [value, 2 * value]}, seeds=[3, 8], rounds=4)
    for cell, trace in zip(swept.cells, swept.traces, strict=True):
        single = play(with_leaves(algorithm, cell.settings), quadratic(), rounds=4, seed=cell.seed)
        close(trace.x, single.x)
        np.testing.assert_array_equal(trace.columns["counts"], single.columns["counts"])


@rows
@pytest.mark.parametrize("problem", PROBLEMS)
def test_an_empty_cohort_changes_nothing_and_costs_nothing(row, problem):
    nobody = t.Independent(probability=1e-12, capacity=2)
    trace = play(row.make(nobody), PROBLEMS[problem](), rounds=3)
    still = play(row.make(nobody), PROBLEMS[problem](), rounds=0)
    close(trace.x, still.x, 0)
    totals = trace.ledger.totals()
    assert totals["exchanges"] == totals["contacts"] == totals["bytes_down"] == totals["bytes_up"] == 0
    assert totals["draws_arbitrary"] == 3


@pytest.mark.parametrize("row", [row for row in ROWS if row.gradient_step], ids=lambda row: row.name)
@pytest.mark.parametrize("problem", ["quadratic", "logistic"])
def test_everyone_taking_one_step_is_gradient_descent(row, problem):
    problem = PROBLEMS[problem]()
    x = np.zeros(5)
    for _ in range(6):
        x = x - row.gradient_step * gradient(problem, x)
    close(play(row.make(t.Full()), problem).x, x)


def gradient(problem, x) -> np.ndarray:
    """The gradient of f at x, in NumPy."""
    weights = problem.population.weights
    weights = np.full(problem.clients, 1 / problem.clients) if weights is None else weights
    return sum(weight * client_gradient(problem, i, x) for i, weight in enumerate(weights))


def client_gradient(problem, i, x) -> np.ndarray:
    mine = slice(problem.offsets[i], problem.offsets[i + 1])
    features, targets = (part[mine] for part in problem.rows)
    if isinstance(problem, t.Quadratic):
        return features[0] @ x - targets[0]
    slopes = -targets / (1 + np.exp(targets * (features @ x)))
    return features.T @ slopes / len(targets) + problem.mu * x


@rows
def test_the_ledger_is_a_hand_count(row):
    trace = play(row.make(t.Nice(4)), quadratic(), rounds=3)
    totals, size = trace.ledger.totals(), 5 * 8
    exchanges = 3 * row.exchanges
    # A line search rejects what it must; tests of solvers look at that.
    rejected = totals["rejected"] if "bfgs" in row.name or "products" in row.name else 0
    queries = (totals["queries_slowest"], totals["queries_total"])
    if row.queries is not None:
        queries = 3 * row.queries, 3 * 4 * row.queries
    assert totals == pytest.approx(
        {
            "draws_arbitrary": 0,
            "draws_random": 3,
            "draws_delegate": 0,
            "available": 3 * quadratic().clients,
            "drawn": 12,
            "lost": 0,
            "exchanges": exchanges,
            "rejected": rejected,
            "iterations": exchanges - rejected,
            "cohorts": 3,
            "reasks": exchanges - 3,
            "contacts": 4 * exchanges,
            "arrivals": 4 * exchanges,
            "aggregated": 4 * exchanges,
            "unusable": 0,
            "missed": 0,
            "queries_slowest": queries[0],
            "queries_total": queries[1],
            "vectors_down": 4 * exchanges * row.vectors[0],
            "vectors_up": 4 * exchanges * row.vectors[1],
            "bytes_down": 4 * exchanges * (row.vectors[0] * size + row.bytes_down),
            "bytes_up": 4 * exchanges * (row.vectors[1] * size + 8 * row.scalars_up),
        }
    )


@all_rows
@pytest.mark.parametrize("problem", ["quadratic", "network"])
def test_everything_stays_in_single_precision(row, problem):
    play(row.make(t.Nice(3)), PROBLEMS[problem](), precision="single")


@rows
@pytest.mark.parametrize("missing", ["skip", "repeat"])
def test_a_repeated_reply_is_used_once_and_a_skipped_one_not_at_all(row, missing):
    faults = t.Faults(0.4, missing)
    trace = play(row.make(t.Nice(4)), quadratic(), seed=1, faults=faults)
    totals = trace.ledger.totals()
    if missing == "repeat":
        close(trace.x, play(row.make(t.Nice(4)), quadratic(), seed=1).x, 0)
        assert totals["arrivals"] == 4 * 6 * row.exchanges < totals["contacts"]
    else:
        assert totals["arrivals"] < totals["contacts"] == 4 * 6 * row.exchanges


@rows
def test_a_lost_reply_is_never_passed_over_in_silence(row):
    with pytest.raises(t.UserError, match="replies were lost by round"):
        play(row.make(t.Nice(4)), quadratic(), faults=t.Faults(0.5))


@all_rows
def test_splitting_the_work_into_chunks_changes_nothing(row):
    """A cohort computed two clients at a time, and a run stopped and restored after three rounds."""
    problem, algorithm = logistic(), row.make(t.Nice(5))
    whole = play(algorithm, problem)
    session = Session(algorithm, problem, seeds=Seeds.of(0), rounds=6)
    session.engine.job = replace(session.engine.job, chunk=2)
    chunks = session.play()
    while session.round < 3:
        next(chunks)
    kept = session.snapshot()
    again = Session(algorithm, problem, seeds=Seeds.of(0), rounds=6)
    again.restore(kept)
    for _ in again.play():
        pass
    close(again.trace.x, whole.x)
    np.testing.assert_array_equal(again.trace.columns["counts"], whole.columns["counts"])


CONTRACTIONS = {
    "mbgd": (lambda full: t.MbGd(full, lr=0.1), (1 - 0.1 * 1.0) ** 2),
    "fedavg": (lambda full: t.FedAvg(full, lr=0.1, steps=4), (1 - 0.1 * 1.0) ** 8),
    "mblocalgd": (lambda full: t.MbLocalGd(full, lr=0.1, steps=4), (1 - 0.1 * 1.0) ** 8),
    "sppm": (lambda full: t.Sppm(full, t.solvers.Bfgs(), gamma=2.0, inner=30), (1 + 2.0 * 1.0) ** -2),
    "scaffold": (lambda full: t.Scaffold(full, lr=0.1, steps=4), (1 - 0.1 * 1.0) ** 8),
}


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_the_error_falls_at_the_theorems_rate(name):
    """With all clients alike f_i = f, mu = 1 and L = 10 there is neither drift nor noise: local descent contracts |x - x*|^2
    by (1 - lr mu)^(2E) a round, the proximal point by (1 + gamma mu)^-2, and on the slowest eigenvector exactly so."""
    make, factor = CONTRACTIONS[name]
    one = t.Quadratic.random(1, 5, seed=3)
    problem = t.Quadratic.of(np.repeat(one.rows[0], 6, axis=0), np.repeat(one.rows[1], 6, axis=0))
    trace = play(make(t.Full()), problem, rounds=200, metrics=("distance",))
    error = trace.columns["distance"]
    assert np.all(error[1:] <= factor * error[:-1] * (1 + 1e-5) + 1e-24)
    above = error > 1e-20
    late = np.log(error[above])[above.sum() // 2 :]
    assert np.exp(np.polyfit(np.arange(late.size), late, 1)[0]) == pytest.approx(factor, rel=0.02)
