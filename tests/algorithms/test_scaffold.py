"""SCAFFOLD against a plain program of its paper, and where it goes when clients take unequal numbers of steps."""

import jax
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_local_sgd import order_of, ridge
from tests.algorithms.test_references import cohorts
from tests.helpers.gradients import client_gradient
from turnout.core.seeds import Seeds
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.experiment.config import Reader
from turnout.runs.session import Session

SHARES = np.array([0.3, 0.05, 0.25, 0.1, 0.1, 0.2])
STEPS = [1, 7, 2, 4, 3, 5]
SIZES = (1, 13, 2, 6, 5, 9)
OPTIONS = pytest.mark.parametrize(("option", "missing"), [("I", "repeat"), ("II", "skip")], ids=["I", "II"])


def quadratic() -> t.Quadratic:
    """Six clients with unequal weights, curvatures in [1, 10] and far-off optima."""
    made = t.Quadratic.random(6, 3, seed=4)
    return t.Quadratic.of(*made.rows, weights=SHARES)


def optimum(matrices, vectors) -> np.ndarray:
    return np.linalg.solve(np.tensordot(SHARES, matrices, 1), SHARES @ vectors)


def scaffold_round(x, c, variates, cohort, gradients, gradient, option, lr, server_lr):
    """One round of the paper's Algorithm 1, lambda_i in the place of 1 / N; `gradients(i)` are the oracles of i's local steps."""
    moved, change, total = np.zeros_like(x), np.zeros_like(x), sum(share for _, share in cohort)
    for i, share in cohort:
        y, oracles = x, gradients(i)
        for oracle in oracles:
            y = y - lr * (oracle(y) - variates[i] + c)
        new = gradient(i, x) if option == "I" else variates[i] - c + (x - y) / (len(oracles) * lr)
        moved, change = moved + share / total * (y - x), change + share * (new - variates[i])
        variates[i] = new
    return x + server_lr * moved, c + change


RUNS = [("I", t.Nice(3), None, t.Faults(0.0, "repeat")), ("II", t.Independent(size=3.0), 3.0, None)]


@pytest.mark.tiers(quick=[], longer=["I"])
@pytest.mark.parametrize(("option", "sampler", "decay", "faults"), RUNS, ids=["I", "II"])
def test_a_run_is_its_numpy_program(option, sampler, decay, faults):
    """Local steps on all rows, their number differing from client to client, and for option II a rate that falls."""
    problem = quadratic()
    falls = None if decay is None else t.schedules.Inverse(decay)
    algorithm = t.Scaffold(sampler, lr=0.05, steps=STEPS, option=option, server_lr=0.8, schedule=falls)
    trace = t.run(algorithm, problem, rounds=5, seed=1, faults=faults)
    x, c, variates = np.zeros(3), np.zeros(3), np.zeros((6, 3))
    for number, cohort in enumerate(cohorts(sampler, problem, 1)):
        if not cohort:
            continue
        x, c = scaffold_round(
            x, c, variates, [(i, share) for i, share, _ in cohort],
            lambda i: [lambda y: client_gradient(problem, i, y)] * STEPS[i],
            lambda i, y: client_gradient(problem, i, y), option, 0.05 / (1 + number / (decay or np.inf)), 0.8,
        )  # fmt: skip
    np.testing.assert_allclose(trace.x, x, atol=1e-12)


@pytest.mark.slow
def test_epochs_divide_by_the_steps_taken():
    """Minibatches: E_i = epochs ceil(n_i / batch), the last batch of a pass counting as a step however small it is."""
    problem, sampler = ridge(SIZES), t.Nice(4)
    trace = t.run(t.Scaffold(sampler, lr=0.1, batch=2, epochs=2), problem, rounds=5, seed=3)
    x, c, variates, steps = np.zeros(3), np.zeros(3), np.zeros((6, 3)), 0
    for number, cohort in enumerate(cohorts(sampler, problem, 3), start=1):
        key = Seeds.of(3).exchange(number, 0)
        x, c = scaffold_round(
            x, c, variates, [(i, share) for i, share, _ in cohort],
            lambda i, key=key: batches(problem, i, jax.random.fold_in(key, i), 2, 2), None, "II", 0.1, 1.0,
        )  # fmt: skip
        steps += sum(2 * -(-SIZES[i] // 2) for i, *_ in cohort)
    np.testing.assert_allclose(trace.x, x, atol=1e-12)
    assert trace.ledger.totals()["queries_total"] == steps


def batches(problem, i, key, batch, epochs) -> list:
    """Return the gradients of client i's batches, in the order in which it meets them."""
    features, targets = (part[problem.offsets[i] : problem.offsets[i + 1]] for part in problem.rows)
    orders = [order_of(jax.random.fold_in(key, epoch), len(targets)) for epoch in range(epochs)]
    parts = [order[start : start + batch] for order in orders for start in range(0, len(targets), batch)]

    def gradient(part):
        a, b = features[part], targets[part]
        return lambda y: a.T @ (a @ y - b) / len(b) + problem.mu * y

    return [gradient(part) for part in parts]


@pytest.mark.longer
@OPTIONS
def test_it_converges_to_the_optimum_with_unequal_numbers_of_steps(option, missing):
    problem, nothing_lost = quadratic(), t.Faults(0.0, missing)
    algorithm = t.Scaffold(t.Nice(3), lr=0.02, steps=STEPS, option=option)
    trace = t.run(algorithm, problem, rounds=1500, every=1500, faults=nothing_lost)
    np.testing.assert_allclose(trace.x, optimum(*problem.rows), rtol=0, atol=1e-12)


@pytest.mark.longer
def test_federated_averaging_does_not():
    """It stops where sum_i lambda_i (I - (I - lr A_i)^E_i) (x - x_i*) = 0, which is not where the gradient vanishes."""
    problem = quadratic()
    trace = t.run(t.FedAvg(t.Full(), lr=0.02, steps=STEPS), problem, rounds=1500, every=1500)
    matrices, vectors = problem.rows
    powers = [np.linalg.matrix_power(np.eye(3) - 0.02 * a, steps) for a, steps in zip(matrices, STEPS, strict=True)]
    pulls = SHARES[:, None, None] * (np.eye(3) - np.array(powers))
    optima = np.linalg.solve(matrices, vectors[..., None])[..., 0]
    fixed = np.linalg.solve(pulls.sum(0), np.einsum("nij,nj->i", pulls, optima))
    np.testing.assert_allclose(trace.x, fixed, rtol=0, atol=1e-12)
    best = optimum(matrices, vectors)
    assert np.linalg.norm(fixed - best) > 0.1 * np.linalg.norm(best)


@pytest.mark.longer
def test_it_converges_to_the_optimum_with_unequal_numbers_of_batches():
    """All rows of a client are alike, so that its minibatch gradients are exact, while E_i = 2 ceil(n_i / 2) is 2 to 14."""
    generator = np.random.default_rng(6)
    features, targets = np.repeat(generator.normal(size=(6, 3)), SIZES, axis=0), np.repeat(generator.normal(size=6), SIZES)
    split = Split(np.arange(sum(SIZES)), np.concatenate([[0], np.cumsum(SIZES)]))
    problem = t.Ridge.of(Dataset("made", features, targets), split, mu=0.5, weights=SHARES)
    algorithm = t.Scaffold(t.Nice(4), lr=0.02, batch=2, epochs=2)
    trace = t.run(algorithm, problem, rounds=1500, every=1500)
    first = features[problem.offsets[:-1]]
    matrices = np.einsum("ni,nj->nij", first, first) + 0.5 * np.eye(3)
    expected = optimum(matrices, targets[problem.offsets[:-1], None] * first)
    np.testing.assert_allclose(trace.x, expected, rtol=0, atol=1e-12)


@OPTIONS
def test_the_servers_variate_is_the_mean_of_its_clients(option, missing):
    """c = sum_i lambda_i c_i after every round, whatever replies are lost."""
    algorithm = t.Scaffold(t.Nice(3), lr=0.02, steps=STEPS, option=option)
    session = Session(algorithm, quadratic(), seeds=Seeds.of(0), rounds=8, faults=t.Faults(0.4, missing))
    for _ in session.play():
        variates = session.progress.clients
        np.testing.assert_allclose(session.progress.server.variate, SHARES @ variates, atol=1e-13)
    assert np.linalg.norm(variates) > 0.1


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([1, 2, 3], "one whole number of at least 1, or a list of 6"),
        ([1, 1, 0, 1, 1, 1], "at least 1, but entry 2 is 0"),
        (np.ones(7, int), "one whole number of at least 1, or a list of 6"),
    ],
    ids=["short", "zero", "long"],
)
@pytest.mark.parametrize("make", [t.FedAvg, t.Scaffold, t.FedVarp])
def test_unusable_numbers_of_steps_are_one_sentence(make, steps, words):
    with pytest.raises(t.UserError, match=f"{make.__name__}.steps must be {words}"):
        t.run(make(t.Full(), lr=0.1, steps=steps), quadratic(), rounds=1)


def test_a_configuration_gives_every_client_its_steps():
    tables = {
        "problem": {"kind": "ridge", "data": "made"},
        "split": {"kind": "iid", "clients": 3},
        "sampler": {"kind": "full"},
        "algorithm": {"kind": "scaffold", "lr": 0.1, "steps": [1, 2, 3], "option": "I"},
    }
    experiment = Reader("made.toml", "", tables).experiment("made")
    assert experiment.algorithm == t.Scaffold(t.Full(), lr=0.1, steps=[1, 2, 3], option="I")
    assert "steps = [\n" in experiment.to_toml()
    for wrong in ([1, 0], 0, 1.5):
        tables["algorithm"]["steps"] = wrong
        with pytest.raises(t.UserError, match=r"algorithm\.steps: must be"):
            Reader("made.toml", "", tables).experiment("made")


@pytest.mark.slow
def test_nodes_with_steps_of_their_own_give_the_compiled_run():
    algorithm, faults = t.Scaffold(t.Nice(3), lr=0.05, steps=STEPS), t.Faults(0.0, "skip")
    one, other = (t.run(algorithm, quadratic(), rounds=2, engine=engine, faults=faults) for engine in ("compiled", "nodes"))
    np.testing.assert_allclose(one.x, other.x, rtol=1e-12)
    assert one.ledger.totals() == other.ledger.totals()
