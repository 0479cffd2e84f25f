"""BL1 and BL2: against plain programs on matrices of low rank, and what a basis that is too small does."""

from functools import cache

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_fednl import compressed, optimum, projected, shares
from tests.algorithms.test_references import cohorts
from tests.helpers.gradients import client_gradient, client_hessian
from turnout.data.dataset import Dataset
from turnout.data.splits import Split

ROUNDS, D, RANK, MU = 50, 6, 3, 0.1
C = t.codecs
CODECS = {"rank-1": C.Eigenpairs(rank=1), "top-4": C.TopK(count=4)}


@cache
def narrow(seed=4, mu=MU, equal=False) -> t.Problem:
    """Six clients whose rows span two or three of six dimensions, each others."""
    generator = np.random.default_rng(seed)
    sizes = np.array([2, 3, 9, 20, 3, 9])
    spans = [generator.normal(size=(2 if k == 4 else 3, D)) for k in range(6)]
    features = np.concatenate([generator.normal(size=(m, len(span))) @ span for m, span in zip(sizes, spans, strict=True)])
    labels = np.where(features @ generator.normal(size=D) + generator.normal(size=len(features)) > 0, 1.0, -1.0)
    split = Split(np.arange(len(labels)), np.concatenate([[0], np.cumsum(sizes)]))
    return t.Logistic.of(Dataset("made", features, labels), split, mu=mu, weights=np.ones(6) if equal else sizes.astype(float))


def data_part(problem, i, x) -> np.ndarray:
    return client_hessian(problem, i, x) - MU * np.eye(D)


def bases(problem, x) -> np.ndarray:
    """The leading eigenvectors of the Hessians at x."""
    return np.array([np.linalg.eigh(data_part(problem, i, x))[1][:, ::-1][:, :RANK] for i in range(problem.clients)])


def sums(weights, spans, learned) -> np.ndarray:
    return MU * np.eye(D) + sum(w * v @ m @ v.T for w, v, m in zip(weights, spans, learned, strict=True))


def bl1_program(problem, draws, name, first, x):
    """Return x after all rounds."""
    spans, weights = bases(problem, x), shares(problem)
    seen = lambda i, x: spans[i].T @ data_part(problem, i, x) @ spans[i]  # noqa: E731
    learned = np.array([seen(i, x) * (first == "hessian") for i in range(problem.clients)])
    for cohort in draws:
        matrix, step = projected(sums(weights, spans, learned), MU), np.zeros(D)
        for i, _, weight in cohort:
            step += weight * client_gradient(problem, i, x)
            learned[i] += compressed(name, seen(i, x) - learned[i])
        x = x - np.linalg.solve(matrix, step)
    return x


BL1_RUNS = {"everyone": (t.Full(), "rank-1", "hessian"), "cohorts": (t.Nice(4), "top-4", "zero")}


@pytest.mark.tiers(quick=[], slow=["cohorts"])
@pytest.mark.parametrize("run", BL1_RUNS)
def test_bl1_is_its_numpy_program_and_sends_as_little(run):
    (sampler, name, first), problem = BL1_RUNS[run], narrow()
    trace = t.run(t.Bl1(sampler, CODECS[name], rank=RANK, first=first), problem, rounds=ROUNDS, seed=3)
    x = bl1_program(problem, cohorts(sampler, problem, 3, ROUNDS), name, first, np.zeros(D))
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    totals = trace.ledger.totals()
    # Of a rank-1 change a value and a vector; of the best four of six numbers these, and their places in a byte.
    asked, change = (6, 8 * (1 + RANK)) if run == "everyone" else (4, 4 * 8 + 1)
    whole = 6 * 8 * (D * RANK + RANK * (first == "hessian"))
    assert totals["bytes_up"] == whole + ROUNDS * asked * (8 * RANK + change)
    assert totals["exchanges"] == 1 + ROUNDS


@pytest.mark.slow
def test_bl1_is_fednl_in_fewer_numbers():
    """Eigenpairs do not depend on the basis: from the first Hessians both have one trajectory."""
    problem = narrow()
    new, old = (
        t.run(make(t.Full(), CODECS["rank-1"], **options), problem, rounds=8)
        for make, options in ((t.Bl1, {"rank": RANK}), (t.FedNl, {}))
    )
    np.testing.assert_allclose(new.x, old.x, rtol=0, atol=1e-11)
    rounds = lambda trace: trace.frame["bytes_up"][-1] - trace.frame["bytes_up"][0]  # noqa: E731
    assert rounds(new) * (D + 1 + D) == rounds(old) * (RANK + 1 + RANK)


def bl2_program(problem, draws, name, first, x):
    """Return x after all rounds."""
    n, spans, weights = problem.clients, bases(problem, x), shares(problem)
    learned = np.zeros((n, RANK, RANK))
    shift, vector = np.zeros(n), np.zeros((n, D))
    for number, cohort in enumerate(([(i, 0, 0) for i in range(n)], *draws)):
        for i, *_ in cohort:
            seen = spans[i].T @ data_part(problem, i, x) @ spans[i]
            if number:
                learned[i] += compressed(name, seen - learned[i])
            elif first == "hessian":
                learned[i] = seen
            shift[i] = np.linalg.norm(seen - learned[i])
            matrix = MU * np.eye(D) + spans[i] @ learned[i] @ spans[i].T
            vector[i] = matrix @ x + shift[i] * x - client_gradient(problem, i, x)
        x = np.linalg.solve(sums(weights, spans, learned) + weights @ shift * np.eye(D), weights @ vector)
    return x


BL2_RUNS = {"cohorts": (t.Nice(2), "rank-1", "hessian"), "coins": (t.Independent(size=3.0), "top-4", "zero")}


@pytest.mark.tiers(quick=[], slow=["coins"])
@pytest.mark.parametrize("run", BL2_RUNS)
def test_bl2_is_its_numpy_program_and_finds_the_optimum(run):
    (sampler, name, first), problem = BL2_RUNS[run], narrow()
    trace = t.run(t.Bl2(sampler, CODECS[name], rank=RANK, first=first), problem, rounds=ROUNDS, seed=3)
    x = bl2_program(problem, cohorts(sampler, problem, 3, ROUNDS), name, first, np.zeros(D))
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(trace.x, optimum(problem), rtol=0, atol=1e-6)
    if run == "cohorts":
        whole, change = D * RANK + RANK + RANK + 1, RANK + 1 + 1 + RANK
        assert trace.ledger.totals()["bytes_up"] == 8 * (6 * whole + ROUNDS * 2 * change)


MISTAKES = {
    "span": (lambda: t.Bl1(t.Full(), CODECS["rank-1"], rank=2), narrow, "rank"),
    "large": (lambda: t.Bl2(t.Full(), CODECS["rank-1"], rank=7), narrow, "at most as many"),
}


@pytest.mark.tiers(everything=["span"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name):
    make, problem, sentence = MISTAKES[name]
    with pytest.raises(t.UserError, match=sentence):
        t.run(make(), problem(), rounds=1)
