"""DiSCO against a plain program, its theorem, and the bound on its products."""

import math

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_fednl import client_sum, everyone, optimum
from tests.algorithms.test_references import cohorts
from tests.helpers.examples import logistic
from tests.helpers.gradients import client_gradient, client_hessian, client_value

D, FIRST = 5, 4
"""Client 4 has few rows, and another Hessian than all together."""


def program(problem, draws, x, lam, relative, concordance):
    """Yield x and the number of products of the round, at first 0 of them."""
    yield x, 0
    for cohort in draws:
        g, hessian = client_sum(client_gradient, problem, cohort, x), client_sum(client_hessian, problem, cohort, x)
        inverse = np.linalg.inv(client_hessian(problem, FIRST, x) + lam * np.eye(D))
        v, r, products = np.zeros(D), g, 0
        u = s = inverse @ r
        while np.linalg.norm(r) > relative * np.linalg.norm(g) and products < 100:
            a = r @ s / (u @ hessian @ u)
            v, new = v + a * u, r - a * hessian @ u
            b = new @ inverse @ new / (r @ s)
            r, s, products = new, inverse @ new, products + 1
            u = s + b * u
        x = x - v / (1 + concordance * np.sqrt(v @ hessian @ v))
        yield x, products


@pytest.mark.tiers(quick=[], slow=["cohorts"])
@pytest.mark.parametrize("sampler", [t.Full(), t.Nice(8)], ids=["everyone", "cohorts"])
def test_a_run_is_its_numpy_program(sampler):
    problem, rounds = logistic(), 50
    trace = t.run(
        t.Disco(sampler, lam=0.3, relative=1e-3, concordance=2.0, delegate=t.Delegate(FIRST)), problem, rounds=rounds, seed=2
    )
    states = list(program(problem, cohorts(sampler, problem, 2, rounds), np.zeros(D), 0.3, 1e-3, 2.0))
    np.testing.assert_allclose(trace.x, states[-1][0], rtol=0, atol=1e-10)


def omega(n: float) -> float:
    return n - math.log1p(n)


def check_disco(problem, start, rounds=120) -> tuple[np.ndarray, t.Trace]:
    """Return the decrements of the program and the trace of the run, which falls as promised with as many products."""
    all_of_them = everyone(problem)
    # Along a line with slope u, |f'''| <= max |a.u| f'' <= (max |a| / sqrt mu) (f'')^(3/2).
    m = np.linalg.norm(problem.rows[0], axis=1).max() / np.sqrt(problem.mu) / 2
    constants, shares = problem.constants(), np.asarray(problem.population.shares)
    mu, smooth = shares @ constants.convexity, shares @ constants.smoothness
    relative = np.sqrt(mu / smooth) / 20
    draws = rounds * [all_of_them]
    xs = [x for x, _ in program(problem, draws, start, 0.5, relative, m)]
    apart = [
        np.linalg.norm(client_sum(client_hessian, problem, all_of_them, x) - client_hessian(problem, FIRST, x), 2) for x in xs
    ]
    lam = max(apart) * 1.1
    xs, products = zip(*program(problem, draws, start, lam, relative, m), strict=True)
    trace = t.run(t.Disco(t.Full(), lam=lam, concordance=m, delegate=t.Delegate(FIRST)), problem, rounds=rounds, start=start)
    np.testing.assert_allclose(trace.x, xs[-1], rtol=0, atol=1e-10 * max(1.0, np.linalg.norm(xs[-1])))
    products = np.array(products)
    assert max(products) <= math.ceil(np.sqrt(1 + 2 * lam / mu) * np.log(2 * np.sqrt(smooth / mu) / relative) / 2)
    values = np.array([client_sum(client_value, problem, all_of_them, x) for x in xs])
    decrements = []
    for x in xs:
        g, hessian = (client_sum(of, problem, all_of_them, x) for of in (client_gradient, client_hessian))
        decrements.append(m * np.sqrt(g @ np.linalg.solve(hessian, g)))
    clear = np.array(decrements[:-1]) > 1e-6
    np.testing.assert_array_equal(np.diff(trace.frame["exchanges"])[clear], 1 + 2 * products[1:][clear])
    falls = np.array([omega(n) / 2 for n in decrements])
    assert np.all(m**2 * (values[:-1] - values[1:]) >= falls[:-1] - 1e-11 * max(1.0, m**2 * values[0]))
    assert all(new <= old / 2 for old, new, n in zip(falls, falls[1:], decrements, strict=False) if 1e-5 < n <= 1 / 6)
    assert values[-1] < values[0] and decrements[-1] < decrements[0] / 2
    return np.array(decrements), trace


@pytest.mark.slow
def test_a_run_falls_as_the_theorem_says_and_takes_as_many_products():
    decrements, trace = check_disco(logistic(), 3 * np.ones(D))
    assert decrements[0] > 1 and np.linalg.norm(trace.x - optimum(logistic())) < 1e-9


def test_the_accuracy_must_be_known():
    with pytest.raises(t.UserError, match="needs relative"):
        t.run(t.Disco(t.Full(), lam=1.0), t.Logistic.of(*data(), mu=0.0), rounds=1)


def data():
    generator = np.random.default_rng(0)
    dataset = t.data.Dataset("made", generator.normal(size=(8, 2)), np.array([1.0, -1.0] * 4))
    return dataset, t.data.IidSplit(clients=2).split(dataset)
