"""I-CGM: the delegate's steps against plain programs, the optimum with the paper's parameters, and what users get wrong."""

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.federations import SHARES, four, play, with_rows
from turnout.core.seeds import Seeds
from turnout.experiment.config import Reader
from turnout.runs.setup import bind
from turnout.samplers.full_pass import cohort_size

LAM, SEED = 1.5, 3


def key(number, exchange, i):
    """Client i's key in an exchange of a round."""
    return jax.random.fold_in(Seeds.of(SEED).exchange(number, exchange), i)


def gradients(problem, x) -> np.ndarray:
    return problem.rows[0] @ x - problem.rows[1]


def model_step(x, y, g, first, slope, eta, damping):
    """Equation (8), with q before the control variate."""
    return (eta * y + LAM * x + damping * (first - g) - slope) / (LAM + eta)


@pytest.mark.longer
def test_a_random_number_of_steps_of_a_fixed_delegate():
    """x is y_K, K = 1 + Geom(p) by the delegate's key, eta = L_i of the delegate."""
    problem, i, damping = four(), 2, 0.7
    algorithm = t.Icgm(t.Nice(2), t.Exact(), LAM, probability=0.4, damping=damping, delegate=t.Delegate(i))
    session = play(algorithm, problem, 4)
    eta, x, steps = np.linalg.eigvalsh(problem.rows[0][i])[-1], np.zeros(3), []
    for number in range(1, 5):
        y, g, first = x, SHARES @ gradients(problem, x), gradients(problem, x)[i]
        steps.append(int(jax.random.geometric(jax.random.split(key(number, 0, i))[0], 0.4)))
        for _ in range(steps[-1]):
            y = model_step(x, y, g, first, gradients(problem, y)[i], eta, damping)
        x = y
    assert len(set(steps)) > 1
    np.testing.assert_allclose(session.trace.x, x, atol=1e-12)
    totals = session.trace.ledger.totals()
    assert (totals["draws_arbitrary"], totals["draws_random"], totals["draws_delegate"]) == (5 * 2, 0, 4)
    assert totals["vectors_down"] == totals["vectors_up"] == 5 * 4 + 4
    assert totals["queries_slowest"] == 5 + sum(steps)


@pytest.mark.longer
def test_the_flattest_of_a_fixed_number_of_steps_of_any_delegate():
    """With eta too small the iterates run away, so that the flattest is not the last; a random delegate is told x too."""
    problem, eta = four(), 1.0
    algorithm = t.Icgm(t.Nice(3), t.Exact(), LAM, steps=5, smoothness=eta, delegate=t.Nice(1))
    session = play(algorithm, problem, 4)
    x, best = np.zeros(3), []
    for number in range(1, 5):
        i = int(t.Nice(1).draw(None, Seeds.of(SEED).draw(number, 0), problem.population).ids[0])
        y, g, first, lengths, points = x, SHARES @ gradients(problem, x), gradients(problem, x)[i], [], []
        for _ in range(5):
            y = model_step(x, y, g, first, gradients(problem, y)[i], eta, 1.0)
            points.append(y)
            lengths.append(np.linalg.norm(gradients(problem, y)[i] + g - first + LAM * (y - x)))
        best.append(int(np.argmin(lengths)))
        x = points[best[-1]]
    assert min(best) < 4
    np.testing.assert_allclose(session.trace.x, x, atol=1e-12)
    totals = session.trace.ledger.totals()
    assert (totals["draws_arbitrary"], totals["draws_random"], totals["draws_delegate"]) == (5 * 2, 4, 0)
    assert (totals["vectors_down"], totals["vectors_up"]) == (5 * 4 + 2 * 4, 5 * 4 + 4)
    assert totals["queries_slowest"] == 5 + 4 * 6


@pytest.mark.slow
def test_minibatches():
    """One batch for both points of a difference, and a new one for each step of the delegate."""
    problem = with_rows()

    def gradient(i, key, x):
        mine = slice(problem.offsets[i], problem.offsets[i + 1])
        features, targets = (part[mine] for part in problem.rows)
        drawn = np.asarray(jax.random.randint(key, (2,), 0, len(targets), "int32"))
        a, b = features[drawn], targets[drawn]
        return a.T @ (-b / (1 + np.exp(b * (a @ x)))) / 2 + problem.mu * x

    algorithm = t.Icgm(t.Nice(2), t.Sarah(probability=0.0), LAM, steps=2, smoothness=2.0, batch=2)
    session = play(algorithm, problem, 2, engine="nodes")
    x = np.zeros(5)
    g = sum(share * gradient(i, key(0, 0, i), x) for i, share in enumerate(SHARES))
    for number in (1, 2):
        batches = [jax.random.fold_in(jax.random.split(key(number, 0, 0))[1], k) for k in range(3)]
        first, y, found = gradient(0, batches[0], x), x, []
        for k in range(3):
            slope = gradient(0, batches[k], y)
            found.append((np.linalg.norm(slope + g - first + LAM * (y - x)), y))
            y = model_step(x, y, g, first, slope, 2.0, 1.0)
        new = min(found[1:], key=lambda one: one[0])[1]
        for i in map(int, t.Nice(2).draw(None, Seeds.of(SEED).draw(number, 1), problem.population).ids):
            batch = key(number, 1, i)
            g = g + SHARES[i] * 2 * (gradient(i, batch, new) - gradient(i, batch, x))
        x = new
    np.testing.assert_allclose(session.trace.x, x, atol=1e-12)
    np.testing.assert_allclose(session.progress.server.estimate.gradient, g, atol=1e-12)


@pytest.mark.tiers(quick=[], longer=["rg-svrg"])
@pytest.mark.parametrize("estimator", [t.RgSaga(), t.RgSvrg()], ids=["rg-saga", "rg-svrg"])
def test_the_papers_parameters_find_the_optimum_in_a_hundred_rounds(estimator):
    """lam = sqrt(n) / m delta + Delta_1 and p = delta / L, with delta and Delta_1 of the quadratics, their clients much alike."""
    n, m = 12, 3
    made = t.Quadratic.random(n, 5, 1.0, 10.0, seed=1)
    matrices = 0.9 * made.rows[0].mean(0) + 0.1 * made.rows[0]
    problem = t.Quadratic.of(matrices, made.rows[1])
    mean = matrices.mean(0)
    delta = np.sqrt(np.linalg.norm(np.mean([(a - mean) @ (a - mean) for a in matrices], axis=0), 2))
    lam = np.sqrt(n) / m * delta + np.linalg.norm(matrices[0] - mean, 2)
    algorithm = t.Icgm(t.Nice(m), estimator, float(lam), probability=float(delta / problem.constants().smoothness.max()))
    session = play(algorithm, problem, 100, every=100)
    start, end = (np.sum(np.mean(gradients(problem, x), axis=0) ** 2) for x in (np.zeros(5), session.trace.x))
    assert end <= 1e-12 * start


def build(**options):
    return lambda: t.Icgm(**{"sampler": t.Nice(2), "estimator": t.RgSaga(), "lam": 1.0, "steps": 2} | options)


def flat() -> t.Problem:
    """One whose clients' smoothness is not known."""
    return t.Problem(rows=np.zeros(4), offsets=np.arange(5), population=t.Population(count=4))


@pytest.mark.parametrize(
    ("make", "problem", "words"),
    [
        (build(lam=0.0), four, "lam must be greater than 0"),
        (build(lam=-1.0), four, "lam must be greater than 0"),
        (build(steps=None, probability=0.0), four, "probability must be greater than 0"),
        (build(steps=None, probability=1.1), four, "probability must be at most 1"),
        (build(damping=0.0), four, "damping must be greater than 0"),
        (build(probability=0.5), four, "either a number of steps of the delegate or the probability"),
        (build(delegate=t.Delegate(4)), four, "names client 4, but they are 0 to 3"),
        (build(sampler=t.Nice(5)), four, "wants 5 clients, but there are 4"),
        (build(sampler=t.Available(t.Nice(2), 0.5)), four, "take a sampler without availability"),
        (build(), flat, "needs smoothness: Problem does not know"),
    ],
)
def test_a_mistake_is_one_sentence(make, problem, words):
    with pytest.raises(t.UserError, match=words):
        bind(make(), problem())


@pytest.mark.parametrize(
    ("sampler", "size"),
    [
        (t.Nice(3), 3),
        (t.ShuffledNice(2), 2),
        (t.NonUniform([0.1, 0.2, 0.3, 0.4]), 1),
        (t.Independent(size=2.4), 2),
        (t.Block([0, 0, 0, 1]), 3),
        (t.Full(), 4),
        (t.Full(size=3), 3),
    ],
    ids=str,
)
def test_a_full_pass_asks_as_many_at_a_time_as_the_sampler(sampler, size):
    problem = four()
    assert cohort_size(bind(sampler, problem), problem.population) == size


def test_a_configuration_says_it_all():
    tables = {
        "problem": {"kind": "ridge", "data": "made"},
        "split": {"kind": "iid", "clients": 3},
        "sampler": {"kind": "nice", "size": 2},
        "algorithm": {
            "kind": "icgm",
            "lam": 2.0,
            "probability": 0.1,
            "estimator": {"kind": "rg-svrg", "probability": 0.2},
            "delegate": {"kind": "nice", "size": 1},
        },
    }
    experiment = Reader("made.toml", "", tables).experiment("made")
    expected = t.Icgm(t.Nice(2), t.RgSvrg(0.2), 2.0, probability=0.1, delegate=t.Nice(1))
    assert experiment.algorithm == expected
    assert 'kind = "rg-svrg"' in experiment.to_toml()
    tables["algorithm"] |= {"estimator": "saga", "delegate": {"kind": "delegate", "client": 1}}
    found = Reader("made.toml", "", tables).experiment("made").algorithm
    assert (found.estimator, found.delegate) == (t.Saga(), t.Delegate(1))
