"""FedNL and its kin: against plain programs on symmetric matrices, and against the rates of their theorems."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.helpers.examples import logistic, small
from tests.helpers.gradients import client_gradient, client_hessian, client_value
from turnout.codecs.base import round_trip
from turnout.core.messages import payload
from turnout.core.triangle import symmetric, triangle

ROUNDS, D = 50, 5
SIZE = D * (D + 1) // 2
C = t.codecs
CODECS = {"rank-1": C.Eigenpairs(rank=1), "top-4": C.TopK(count=4), "zero": None}


def compressed(name: str, matrix: np.ndarray) -> np.ndarray:
    """C of a symmetric matrix."""
    if name == "rank-1":
        values, vectors = np.linalg.eigh(matrix)
        best = np.argmax(np.abs(values))
        return values[best] * np.outer(vectors[:, best], vectors[:, best])
    kept = np.zeros_like(matrix)
    # A pair of entries has the square 2 m_ij^2 in the Frobenius norm.
    lower = [(abs(matrix[i, j]) * (1 if i == j else np.sqrt(2)), i, j) for i in range(len(matrix)) for j in range(i + 1)]
    for _, i, j in sorted(lower, reverse=True)[: 4 if name == "top-4" else 0]:
        kept[i, j] = kept[j, i] = matrix[i, j]
    return kept


def projected(matrix: np.ndarray, mu: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, mu)) @ vectors.T


def shares(problem) -> np.ndarray:
    return np.asarray(problem.population.shares)


def everyone(problem) -> list:
    return [(i, share, share) for i, share in enumerate(shares(problem))]


def optimum(problem) -> np.ndarray:
    """Newton's method in NumPy, whose steps are damped as long as they are long."""
    x, all_of_them = np.zeros(problem.start(None).size), everyone(problem)
    for _ in range(40):
        gradient, hessian = (client_sum(of, problem, all_of_them, x) for of in (client_gradient, client_hessian))
        step, value, length = np.linalg.solve(hessian, gradient), client_sum(client_value, problem, all_of_them, x), 1.0
        while client_sum(client_value, problem, all_of_them, x - length * step) > value + 1e-12 * abs(value):
            length /= 2
        x = x - length * step
    return x


def program(problem, draws, name, option, first, x):
    """Yield x and the H_i after 0, 1, ... rounds."""
    learned = np.array([client_hessian(problem, i, x) * (first == "hessian") for i in range(problem.clients)])
    yield x, learned.copy()
    for cohort in draws:
        hessian = np.tensordot(shares(problem), learned, 1)
        gradient, distance = np.zeros_like(x), 0.0
        for i, _, weight in cohort:
            gap = client_hessian(problem, i, x) - learned[i]
            gradient = gradient + weight * client_gradient(problem, i, x)
            distance += weight * np.linalg.norm(gap)
            learned[i] += compressed(name, gap)
        if cohort:
            matrix = projected(hessian, problem.mu) if option == "I" else hessian + distance * np.eye(len(x))
            x = x - np.linalg.solve(matrix, gradient)
        yield x, learned.copy()


RUNS = {
    "everyone": (t.Full(), "rank-1", "I", "hessian"),
    "shifted": (t.Nice(6), "top-4", "II", "zero"),
    "coins": (t.Independent(size=8.0), "rank-1", "II", "hessian"),
    "newton-zero": (t.Nice(9), "zero", "I", "hessian"),
}


@pytest.mark.tiers(quick=[], slow=["everyone"])
@pytest.mark.parametrize("run", RUNS)
def test_a_run_is_its_numpy_program(run):
    sampler, name, option, first = RUNS[run]
    problem = logistic()
    trace = t.run(t.FedNl(sampler, CODECS[name], option, first=first), problem, rounds=ROUNDS, seed=3)
    *_, (x, _) = program(problem, cohorts(sampler, problem, 3, ROUNDS), name, option, first, np.zeros(D))
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


def lipschitz(problem) -> float:
    """L: a row's Hessian s(a.x) a a' changes by max |s'| |a|^3 at most, s' being at most 1 / (6 sqrt 3)."""
    norms = np.linalg.norm(problem.rows[0], axis=1) ** 3
    return max(norms[a:b].mean() for a, b in zip(problem.offsets[:-1], problem.offsets[1:], strict=True)) / (6 * np.sqrt(3))


@cache
def conditioned(mu: float):
    """`logistic` with another regulariser: its condition number is of the order 1 / mu."""
    return replace(logistic(), mu=mu)


ALPHA = {"rank-1": lambda d: 1 / d, "top-4": lambda d: 8 / (d * (d + 1)), "zero": lambda d: 0.0}


@pytest.mark.tiers(longer=["zero-0.0001"], everything=["zero-0.1", "rank-1-0.1", "top-4-0.1", "top-4-0.0001", "rank-1-0.0001"])
@pytest.mark.parametrize("mu", [1e-1, 1e-4])
@pytest.mark.parametrize("name", CODECS)
def test_a_close_start_converges_at_the_theorems_rate_whatever_the_conditioning(name, mu):
    check_close_start(t.FedNl(t.Full(), CODECS[name], mu=mu), conditioned(mu), name)


def check_close_start(algorithm, problem, name) -> None:
    """Theorem 3.6: |x_t - x*|^2 halves in each round, and the potential with the errors of the Hessians falls by 1 - A."""
    best, constant, mu = optimum(problem), lipschitz(problem), problem.mu
    alpha = ALPHA[name](best.size)
    a, b = (alpha / 4, 6 / alpha - 7 / 2) if alpha else (0, 0)
    away = mu * min(np.sqrt(a / (8 * b)) if alpha else np.inf, 1 / np.sqrt(8)) / constant
    start = best + away * np.ones(best.size) / np.sqrt(best.size)
    trace = t.run(algorithm, problem, rounds=8, start=start)
    states = list(program(problem, 8 * [everyone(problem)], name, "I", "hessian", start))
    np.testing.assert_allclose(trace.x, states[-1][0], rtol=0, atol=1e-12)
    at_best = np.array([client_hessian(problem, i, best) for i in range(problem.clients)])
    distance = np.array([np.sum((x - best) ** 2) for x, _ in states])
    error = np.array([shares(problem) @ np.sum((learned - at_best) ** 2, axis=(1, 2)) for _, learned in states])
    potential = error + 6 * b * constant**2 * distance
    assert error[0] <= mu**2 / 8
    assert np.all(distance <= 0.5 ** np.arange(9) * distance[0] + 1e-26)
    # Of the entries of Hessians, and of x.
    rounding = 1e-26 * max(1.0, np.max(np.sum(at_best**2, axis=(1, 2)))) + 6 * b * constant**2 * 1e-30 * max(1.0, best @ best)
    if alpha:
        assert np.all(potential[1:] <= (1 - min(a, 1 / 3)) * potential[:-1] + rounding)
        assert error[-1] < error[0] / 2


@pytest.mark.longer
def test_learning_the_hessian_makes_the_rate_superlinear():
    """From a far start, the last steps of FedNL contract by less and less; Newton-Zero contracts by the same factor."""
    problem, best = conditioned(1e-2), optimum(conditioned(1e-2))
    factors = {}
    for name, codec in CODECS.items():
        draws = 40 * [everyone(problem)]
        xs = [x for x, _ in program(problem, draws, name, "I", "hessian", np.zeros(D))]
        trace = t.run(t.FedNl(t.Full(), codec), problem, rounds=5)
        np.testing.assert_allclose(trace.x, xs[5], rtol=0, atol=1e-11)
        away = np.array([np.linalg.norm(x - best) for x in xs])
        away = away[: np.argmax(away < 1e-11)] if np.any(away < 1e-11) else away
        factors[name] = away[1:] / away[:-1]
    for name in ("rank-1", "top-4"):
        assert factors[name][-1] < factors[name][1] / 5
    assert factors["zero"][-1] == pytest.approx(factors["zero"][-2], rel=1e-2)


def pp_program(problem, draws, name, first, x):
    """Yield x, the w_i, l_i, g_i and H_i at first and after each round."""
    n, weights = problem.clients, shares(problem)
    points, learned = np.tile(x, (n, 1)), np.array([client_hessian(problem, i, x) * (first == "hessian") for i in range(n)])
    shift, vector = np.zeros(n), np.zeros((n, len(x)))
    draws = iter(draws)
    for cohort in ([(i, 0, 0) for i in range(n)], *draws):
        for i, *_ in cohort:
            points[i], hessian = x, client_hessian(problem, i, x)
            # In the first pass nothing is compressed.
            learned[i] += compressed(name, hessian - learned[i])
            shift[i] = np.linalg.norm(learned[i] - hessian)
            vector[i] = learned[i] @ x + shift[i] * x - client_gradient(problem, i, x)
        x = np.linalg.solve(np.tensordot(weights, learned, 1) + weights @ shift * np.eye(len(x)), weights @ vector)
        yield x, points.copy(), shift.copy(), learned.copy()


PP_RUNS = {"nice": (t.Nice(3), "rank-1"), "coins": (t.Independent(size=3.0), "top-4")}


@pytest.mark.tiers(quick=[], slow=["coins"])
@pytest.mark.parametrize("run", PP_RUNS)
def test_partial_participation_is_its_numpy_program_and_within_its_bound(run):
    sampler, name = PP_RUNS[run]
    assert check_partial(t.FedNlPp(sampler, CODECS[name]), logistic(), name, seeds=[3], rounds=ROUNDS) < 1e-6


def check_partial(algorithm, problem, name, seeds, rounds) -> float:
    """Require runs to be those of the program, and these to be within the bound in each round.

    Returns the largest share of the first error that is left.
    """
    best, constant = optimum(problem), lipschitz(problem)
    start = best + 0.01 * np.ones(best.size)
    at_best = np.array([client_hessian(problem, i, best) for i in range(problem.clients)])
    traces = t.sweep(algorithm, problem, {}, seeds=seeds, rounds=rounds, every=rounds, start=start).traces
    for seed, trace in zip(seeds, traces, strict=True):
        states = list(pp_program(problem, cohorts(algorithm.sampler, problem, seed, rounds), name, "hessian", start))
        np.testing.assert_allclose(trace.x, states[-1][0], rtol=0, atol=1e-10)
        for x, points, _, learned in states:
            away = np.linalg.norm(points - best, axis=1)
            errors = np.linalg.norm(learned - at_best, axis=(1, 2))
            bound = shares(problem) @ ((2 * errors + 1.5 * constant * away) * away)
            assert problem.mu * np.linalg.norm(x - best) <= bound + 1e-15
    return max(np.linalg.norm(trace.x - best) for trace in traces) / np.linalg.norm(start - best)


@pytest.mark.slow
def test_partial_participation_keeps_its_sums_where_replies_are_lost():
    """What the server has learned is of the clients that it heard: it finds x* all the same, from zero and at random places."""
    problem = logistic()
    trace = t.run(
        t.FedNlPp(t.Nice(6), C.RandK(count=8), first="zero"), problem, rounds=150, seed=1, faults=t.Faults(0.3, "skip"), every=150
    )
    np.testing.assert_allclose(trace.x, optimum(problem), rtol=0, atol=1e-12)


def client_sum(of, problem, cohort, x):
    return sum(weight * of(problem, i, x) for i, _, weight in cohort)


def ls_program(problem, draws, name, x, c=0.25, gamma=0.5):
    """Yield x, H and the number of trials so far, at first and after each round."""
    learned, trials = np.array([client_hessian(problem, i, x) for i in range(problem.clients)]), 0
    yield x, np.tensordot(shares(problem), learned, 1), trials
    for cohort in draws:
        matrix, gradient = np.tensordot(shares(problem), learned, 1), client_sum(client_gradient, problem, cohort, x)
        direction = -np.linalg.solve(projected(matrix, problem.mu), gradient)
        value, length = client_sum(client_value, problem, cohort, x), 1.0
        trials += 1
        rounding = 4 * np.finfo(float).eps * abs(value)
        while (
            client_sum(client_value, problem, cohort, x + length * direction) - value
            > c * length * gradient @ direction + rounding
        ):
            length, trials = gamma * length, trials + 1
        for i, *_ in cohort:
            learned[i] += compressed(name, client_hessian(problem, i, x) - learned[i])
        x = x + length * direction
        yield x, np.tensordot(shares(problem), learned, 1), trials


LS_RUNS = {"rank-1": (t.Full(), "rank-1"), "zero": (t.Nice(9), "zero")}


@pytest.mark.tiers(quick=[], slow=["rank-1"])
@pytest.mark.parametrize("run", LS_RUNS)
def test_the_line_search_is_its_numpy_program_from_a_far_start(run):
    (sampler, name), problem, start = LS_RUNS[run], logistic(), 20 * np.ones(D)
    trace = t.run(t.FedNlLs(sampler, CODECS[name]), problem, rounds=ROUNDS, seed=3, start=start)
    states = list(ls_program(problem, cohorts(sampler, problem, 3, ROUNDS), name, start))
    np.testing.assert_allclose(trace.x, states[-1][0], rtol=0, atol=1e-10)
    totals, trials = trace.ledger.totals(), states[-1][-1]
    assert totals["exchanges"] == 1 + ROUNDS + trials
    assert totals["rejected"] == trials - ROUNDS > 0


@pytest.mark.parametrize("mu", [1e-1, 1e-3])
def test_the_line_search_falls_at_its_rate_also_where_plain_steps_overshoot(mu):
    problem, start, draws = conditioned(mu), 20 * np.ones(D), [everyone(conditioned(mu))]
    gaps, _ = check_line_search(problem, start)
    assert gaps[-1] < 1e-12
    _, (plain, _) = program(problem, draws, "rank-1", "I", "hessian", start)
    values = [client_sum(client_value, problem, draws[0], x) for x in (plain, start)]
    assert (values[0] > values[1]) == (mu < 1e-2)


def check_line_search(problem, start) -> tuple[np.ndarray, np.ndarray]:
    """Require f(x) - f(x*) to fall by its factor in each of 60 rounds of the program; return it, and the last x."""
    c, gamma, mu, draws = 0.25, 0.5, problem.mu, 60 * [everyone(problem)]
    states = list(ls_program(problem, draws, "rank-1", start))
    lowest = client_sum(client_value, problem, draws[0], optimum(problem))
    gaps = np.array([client_sum(client_value, problem, draws[0], x) - lowest for x, *_ in states])
    features = [problem.rows[0][a:b] for a, b in zip(problem.offsets[:-1], problem.offsets[1:], strict=True)]
    gram = sum(share * rows.T @ rows / len(rows) for share, rows in zip(shares(problem), features, strict=True))
    smooth = mu + np.linalg.eigvalsh(gram)[-1] / 4
    largest = np.array([max(np.linalg.eigvalsh(hessian)[-1], mu) for _, hessian, _ in states[:-1]])
    rate = 1 - 2 * c * mu / largest * min(1, 2 * gamma * (1 - c) * mu / smooth)
    assert np.all(gaps[1:] <= rate * gaps[:-1] + 1e-13 * max(1.0, gaps[0]))
    return gaps, states[-1][0]


def cubic(matrix, gradient, lipschitz) -> np.ndarray:
    """The step by a root of |h(r)| = r, whose r is found by SciPy."""
    values, vectors = np.linalg.eigh(matrix)
    inside = vectors.T @ gradient
    length = lambda r: np.linalg.norm(inside / (np.maximum(values, 0) + lipschitz * r / 2))  # noqa: E731
    most = np.sqrt(2 * np.linalg.norm(gradient) / lipschitz)
    r = brentq(lambda r: length(r) - r, 0, most, xtol=1e-300, rtol=1e-15) if most > 0 else 0.0
    return -vectors @ (inside / (np.maximum(values, 0) + lipschitz * r / 2))


def cr_program(problem, draws, name, x, lipschitz):
    """Yield x and l after 0, 1, ... rounds; l is that of the round."""
    learned = np.zeros((problem.clients, len(x), len(x)))
    for cohort in draws:
        hessian, distance = np.tensordot(shares(problem), learned, 1), 0.0
        for i, _, weight in cohort:
            gap = client_hessian(problem, i, x) - learned[i]
            distance += weight * np.linalg.norm(gap)
            learned[i] += compressed(name, gap)
        yield x, distance
        x = x + cubic(hessian + distance * np.eye(len(x)), client_sum(client_gradient, problem, cohort, x), lipschitz)
    yield x, 0.0


CR_RUNS = {"everyone": (t.Full(), "rank-1"), "cohorts": (t.Nice(9), "top-4")}


@pytest.mark.tiers(quick=[], slow=["cohorts"])
@pytest.mark.parametrize("run", CR_RUNS)
def test_cubic_steps_are_their_numpy_program(run):
    (sampler, name), problem = CR_RUNS[run], logistic()
    trace = t.run(t.FedNlCr(sampler, CODECS[name], lipschitz=2.0, first="zero"), problem, rounds=ROUNDS, seed=3)
    *_, (x, _) = cr_program(problem, cohorts(sampler, problem, 3, ROUNDS), name, np.zeros(D), 2.0)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)


def check_cubic(problem, start, name="rank-1", rounds=150) -> np.ndarray:
    """Return f(x) - f(x*), which falls as promised in each round."""
    best, constant, all_of_them = optimum(problem), lipschitz(problem), everyone(problem)
    xs, distances = zip(*cr_program(problem, rounds * [all_of_them], name, start, constant), strict=True)
    trace = t.run(t.FedNlCr(t.Full(), CODECS[name], constant, first="zero"), problem, rounds=rounds, start=start, every=rounds)
    np.testing.assert_allclose(trace.x, xs[-1], rtol=0, atol=1e-10 * max(1.0, np.linalg.norm(xs[-1])))
    gaps = np.array([client_sum(client_value, problem, all_of_them, x) for x in (*xs, best)])
    gaps = gaps[:-1] - gaps[-1]
    for gap, new, distance, x in zip(gaps, gaps[1:], distances, xs, strict=False):
        away = max(np.linalg.norm(x - best), 1e-15)
        share = min(1 / 2, problem.mu / (8 * max(distance, 1e-15)), np.sqrt(3 * problem.mu / (8 * constant * away)))
        assert new <= (1 - share) * gap + 1e-13 * max(1.0, gaps[0])
    return gaps


@pytest.mark.longer
def test_cubic_steps_fall_at_their_rate_from_a_far_start():
    assert check_cubic(conditioned(1e-2), 20 * np.ones(D))[-1] < 1e-12


def sparse() -> t.Problem:
    """Twelve clients with 1200 rows of 30 features, 0 or 1 and some rare, as in the a6a data."""
    generator = np.random.default_rng(0)
    features = (generator.random((1200, 30)) < generator.uniform(0.02, 0.5, 30)).astype(float)
    scores = features @ generator.normal(size=30) + generator.normal(size=1200) / 2
    dataset = t.data.Dataset("made", features, np.where(scores > 0, 1.0, -1.0))
    return t.Logistic.of(dataset, t.data.IidSplit(12).split(dataset), mu=1e-3)


def costs(algorithm: t.Algorithm, rounds: int) -> tuple[int, int]:
    """Exchanges and bytes from clients until f(x) - f(x*) <= 1e-6."""
    frame = t.run(algorithm, sparse(), rounds=rounds, metrics=("gap",)).frame
    reached = int(np.argmax(frame["gap"].to_numpy() <= 1e-6))
    assert reached > 0
    return frame["exchanges"][reached], frame["bytes_up"][reached]


@pytest.mark.everything
def test_learned_hessians_save_bytes_and_exchanges():
    """Bytes of Newton's method with matrices, and exchanges of it with products and of sketched Newton steps."""
    everyone, wide = t.Full(), {"gamma": 1e6, "inner": 1}
    exchanges, sent = costs(t.FedNlLs(everyone, C.Eigenpairs(rank=1)), 40)
    matrices = costs(t.Sppm(everyone, t.solvers.Newton(), **wide), 10)
    products = costs(t.Sppm(everyone, t.solvers.Newton(hessian="products"), **wide), 10)
    sketched = costs(t.Sppm(everyone, t.solvers.SketchedNewton(scale=1.0, floor=0.1), gamma=1000.0, inner=5), 60)
    assert sent < min(matrices[1], products[1], sketched[1])
    assert matrices[0] < exchanges < min(products[0], sketched[0])


@pytest.mark.tiers(longer=["1"])
@pytest.mark.parametrize("rank", [1, 2])
def test_eigenpairs_are_the_nearest_matrix_of_that_rank(rank):
    made = np.random.default_rng(rank).normal(size=(6, 6))
    matrix = made + made.T
    x = triangle(jnp.asarray(matrix))
    np.testing.assert_allclose(symmetric(x), matrix, atol=1e-15)
    assert float(jnp.linalg.norm(x)) == pytest.approx(np.linalg.norm(matrix))
    codec = C.Eigenpairs(rank=rank)
    coded = round_trip(codec)(x, None)
    values = np.sort(np.abs(np.linalg.eigvalsh(matrix)))[::-1]
    left = float(jnp.sum((x - coded) ** 2))
    assert np.linalg.matrix_rank(symmetric(coded)) == rank
    assert left == pytest.approx(np.sum(values[rank:] ** 2))
    assert left <= (1 - codec.contraction(x.size)) * np.sum(matrix**2)
    assert payload(codec.encode(x, None)) == 8 * rank * 7


def test_other_arrays_travel_whole():
    codec, x = C.Eigenpairs(rank=2), jax.random.normal(jax.random.key(0), (3, 4))
    for array in (x, x.reshape(-1)[:6]):
        np.testing.assert_array_equal(round_trip(codec)(array, None), array)
        assert codec.contraction(array.size) == 1


MISTAKES = {
    "zero": (lambda: t.FedNl(t.Full(), first="zero"), small, "take first = 'hessian'"),
    "shift": (lambda: t.FedNl(t.Full(), option="II"), small, "option = 'I'"),
    "mu": (lambda: t.FedNl(t.Full()), lambda: conditioned(0.0), "needs mu"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name):
    make, problem, sentence = MISTAKES[name]
    with pytest.raises(t.UserError, match=sentence):
        t.run(make(), problem(), rounds=1)
