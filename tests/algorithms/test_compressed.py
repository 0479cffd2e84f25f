"""EF21, DIANA, EF-BV and MARINA against plain programs of their papers, and against the rates of their theorems."""

from functools import cache

import jax
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.helpers.examples import network, small
from tests.helpers.gradients import client_gradient
from tests.helpers.theorems import Theorem
from turnout.theory.compression import cohort_variance, ef21_step, efbv_steps
from turnout.theory.designs import inclusion

SAMPLERS = {"full": t.Full(), "nice": t.Nice(4)}


@t.record
class EvenPlaces(t.Codec):
    """Twice the numbers at even places: a fixed codec that passes for an unbiased one with omega = 1."""

    def encode(self, x, key):
        return (2 * x.reshape(-1)[::2],)

    def decode(self, payload, like, key):
        return jax.numpy.zeros(like.size, like.dtype).at[::2].set(payload[0]).reshape(like.shape)

    def variance(self, size):
        return 1.0


def even_places(v) -> np.ndarray:
    return 2 * v * (np.arange(v.size) % 2 == 0)


def top_two(v) -> np.ndarray:
    kept = np.argsort(-np.abs(v))[:2]
    return np.where(np.isin(np.arange(v.size), kept), v, 0)


def ef21(problem, sampler, trace) -> np.ndarray:
    x, memory, shares = np.zeros(3), np.zeros((6, 3)), np.asarray(problem.population.shares)
    for cohort in cohorts(sampler, problem, 2):
        for i, *_ in cohort:
            memory[i] += top_two(client_gradient(problem, i, x) - memory[i])
        x = x - 0.05 * shares @ memory
    return x


def diana(problem, sampler, trace) -> np.ndarray:
    x, memory, shares = np.zeros(3), np.zeros((6, 3)), np.asarray(problem.population.shares)
    for cohort in cohorts(sampler, problem, 2):
        g = shares @ memory
        for i, _, weight in cohort:
            m = even_places(client_gradient(problem, i, x) - memory[i])
            g, memory[i] = g + weight * m, memory[i] + m / 2
        x = x - 0.05 * g
    return x


def efbv(problem, sampler, trace) -> np.ndarray:
    x, memory, shares = np.zeros(3), np.zeros((6, 3)), np.asarray(problem.population.shares)
    for cohort in cohorts(sampler, problem, 2):
        g = shares @ memory
        for i, _, weight in cohort:
            m = even_places(client_gradient(problem, i, x) - memory[i])
            g, memory[i] = g + 0.7 * weight * m, memory[i] + 0.4 * m
        x = x - 0.05 * g
    return x


def marina(problem, sampler, trace) -> np.ndarray:
    """The rounds with a pass are those whose replies are vectors."""
    everyone = [(i, share, share) for i, share in enumerate(np.asarray(problem.population.shares))]
    passed = np.diff(trace.frame["vectors_up"]) > 0
    assert 0 < passed.sum() < passed.size
    x = np.zeros(3)
    g = sum(share * client_gradient(problem, i, x) for i, _, share in everyone)
    for whole, cohort in zip(passed, cohorts(sampler, problem, 2), strict=True):
        y = x - 0.05 * g
        if whole:
            g = sum(share * client_gradient(problem, i, y) for i, _, share in everyone)
        else:
            g = g + sum(w * even_places(client_gradient(problem, i, y) - client_gradient(problem, i, x)) for i, _, w in cohort)
        x = y
    return x


PROGRAMS = {
    "ef21": (lambda s: t.Ef21(s, t.codecs.TopK(count=2), lr=0.05), ef21),
    "diana": (lambda s: t.Diana(s, EvenPlaces(), lr=0.05), diana),
    "efbv": (lambda s: t.EfBv(s, EvenPlaces(), lr=0.05, rate=0.4, nu=0.7), efbv),
    "marina": (lambda s: t.Marina(s, EvenPlaces(), probability=0.5, lr=0.05), marina),
}


@pytest.mark.tiers(quick=[], longer=["diana-full"], slow=["efbv-nice"])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_is_its_numpy_program(name, sampler):
    make, program = PROGRAMS[name]
    trace = t.run(make(SAMPLERS[sampler]), small(), rounds=5, seed=2)
    np.testing.assert_allclose(trace.x, program(small(), SAMPLERS[sampler], trace), atol=1e-12)


@cache
def weighted() -> t.Quadratic:
    """Ten clients with weights from 1 to 2."""
    made, weights = t.Quadratic.random(10, 6, seed=5), np.linspace(1, 2, 10)
    return t.Quadratic.of(*made.rows, weights=weights / weights.sum())


class Known:
    """The minimiser of a quadratic, mu and the first errors."""

    def __init__(self, problem: t.Quadratic):
        self.shares = np.asarray(problem.population.shares)
        matrices, vectors = (np.asarray(part) for part in problem.rows)
        matrix, vector = np.tensordot(self.shares, matrices, 1), self.shares @ vectors
        self.x = np.linalg.solve(matrix, vector)
        self.gap = vector @ self.x / 2
        self.start = vectors
        self.at_optimum = matrices @ self.x - vectors
        self.mu = float(self.shares @ np.asarray(problem.constants().convexity))
        self.smoothness = np.asarray(problem.constants().smoothness)


EF21_RATES = {
    "top-k": (t.Full(), t.codecs.TopK(count=3), 0.5),
    "sign": (t.Full(), t.codecs.Sign(), 1 / 6),
    "rand-k": (t.Full(), t.codecs.RandK(count=3), 0.5),
    "participation": (t.Nice(5), t.codecs.TopK(count=3), 0.25),
}
"""Sampler, codec, and alpha times the probability to take part."""


def ef21_theorem(name, problem) -> Theorem:
    (sampler, codec, alpha), known = EF21_RATES[name], Known(problem)
    lr, theta = ef21_step(problem, sampler, codec), 1 - np.sqrt(1 - alpha)
    root = np.sqrt(2 * (1 - alpha)) / theta
    theirs = 1 / (known.shares @ known.smoothness + np.sqrt(known.shares @ known.smoothness**2) * root)
    assert lr == pytest.approx(min(theirs, theta / (2 * known.mu)))
    # g_i begins as C(grad f_i(x_0)), of clients in the first cohort.
    first = known.gap + lr / theta * (1 - alpha) * known.shares @ np.sum(known.start**2, axis=1)
    return Theorem(problem, t.Ef21(sampler, codec), "gap", first, 1 - lr * known.mu)


@pytest.mark.tiers(quick=[], longer=["participation"])
@pytest.mark.parametrize("name", EF21_RATES)
def test_ef21_falls_at_the_theorems_rate(name):
    ef21_theorem(name, weighted()).check(rounds=150, seeds=8)


UNBIASED = {
    "rand-k": (t.Full(), t.codecs.RandK(count=2), 2.0),
    "qsgd": (t.Full(), t.codecs.Qsgd(bits=3), (1 + 2**-7) ** 2 * min(6 / 36, 6**0.5 / 3)),
    "participation": (t.Nice(5), t.codecs.RandK(count=3), 1.0),
}
"""Sampler, codec and omega; QSGD's scale is rounded up to bfloat16."""


def diana_theorem(name, problem) -> Theorem:
    (sampler, codec, omega), known = UNBIASED[name], Known(problem)
    p, v = np.min(inclusion(sampler, problem.population)), cohort_variance(problem, sampler, codec)
    assert v == pytest.approx(known.shares.max() * (omega if p == 1 else (1 + omega) / p))
    lr = 1 / (np.max(known.smoothness) * (1 + 6 * v))
    first = known.x @ known.x + 4 * v * (1 + omega) / p * lr**2 * known.shares @ np.sum(known.at_optimum**2, axis=1)
    return Theorem(problem, t.Diana(sampler, codec), "distance", first, max(1 - lr * known.mu, 1 - p / (1 + omega) / 2))


@pytest.mark.tiers(quick=[], longer=["rand-k"])
@pytest.mark.parametrize("name", UNBIASED)
def test_diana_falls_at_the_theorems_rate(name):
    diana_theorem(name, weighted()).check(rounds=150, seeds=8)


EFBV_FACTORS = {
    "rand-k": (t.Full(), t.codecs.RandK(count=2), 2 / 3, lambda share: 2 * share / (1 + 2 * share)),
    "participation": (t.Nice(5), t.codecs.RandK(count=3), 3 / 4, lambda share: 4 * share / (1 + 4 * share)),
    "top-k": (t.Nice(5), t.codecs.TopK(count=3), 3 / 4, lambda share: 3 / 4),
}
"""Sampler, codec, r and r_av of the defaults by hand, from the largest lambda_i: omega = 2; omega = 1, p = 1/2; alpha = 1/2."""


def efbv_theorem(name, problem) -> Theorem:
    (sampler, codec, r, average), known = EFBV_FACTORS[name], Known(problem)
    constants, average = known.smoothness, average(known.shares.max())
    s = np.sqrt((1 + r) / (2 * r)) - 1
    lr = 1 / (known.shares @ constants + np.sqrt(known.shares @ constants**2) * np.sqrt(average / r) / s)
    assert efbv_steps(problem, sampler, codec).lr == pytest.approx(lr)
    first = known.gap + lr / 2 * average / (s * (1 + s) * r) * known.shares @ np.sum(known.start**2, axis=1)
    return Theorem(problem, t.EfBv(sampler, codec), "gap", first, max(1 - lr * known.mu, (1 + r) / 2))


@pytest.mark.tiers(quick=[], longer=["top-k"], slow=["participation"])
@pytest.mark.parametrize("name", EFBV_FACTORS)
def test_efbv_falls_at_the_theorems_rate(name):
    efbv_theorem(name, weighted()).check(rounds=150, seeds=8)


@pytest.mark.slow
def test_ef21_and_diana_are_efbv():
    """EF21 with cohorts has nu = p = 4/6."""
    problem, (top, rand) = small(), (t.codecs.TopK(count=2), t.codecs.RandK(count=1))
    for one, other in (
        (t.Ef21(t.Nice(4), top, lr=0.05), t.EfBv(t.Nice(4), top, lr=0.05)),
        (t.Diana(t.Nice(4), rand, lr=0.02), t.EfBv(t.Nice(4), rand, lr=0.02, rate=1 / 3, nu=1.0)),
    ):
        np.testing.assert_allclose(*(t.run(each, problem, rounds=10).x for each in (one, other)), rtol=0, atol=1e-13)


def test_many_clients_allow_efbv_longer_steps_than_ef21():
    """r_av = omega / (n + omega) falls with n, which EF21's constants do not."""
    codec, first = t.codecs.RandK(count=1), t.Quadratic.random(10, 6, seed=0)
    steps = {}
    for copies in (1, 100):
        problem = t.Quadratic.of(*(np.tile(rows, (copies, *(1,) * (rows.ndim - 1))) for rows in first.rows))
        steps[copies] = [efbv_steps(problem, t.Full(), codec).lr, ef21_step(problem, t.Full(), codec)]
    assert steps[100][0] > 3 * steps[1][0] and steps[100][1] == pytest.approx(steps[1][1])


def marina_theorem(name, problem) -> Theorem:
    (sampler, codec, _), known, p = UNBIASED[name], Known(problem), 0.3
    root = np.sqrt(2 * (1 - p) * cohort_variance(problem, sampler, codec) / p)
    lr = min(1 / (known.shares @ known.smoothness + np.sqrt(known.shares @ known.smoothness**2) * root), p / (2 * known.mu))
    return Theorem(problem, t.Marina(sampler, codec, p), "gap", known.gap, 1 - lr * known.mu)


@pytest.mark.tiers(quick=[], longer=["participation"])
@pytest.mark.parametrize("name", UNBIASED)
def test_marina_falls_at_the_theorems_rate(name):
    marina_theorem(name, weighted()).check(rounds=150, seeds=8)


@pytest.mark.tiers(quick=[], longer=["diana", "marina"])
@pytest.mark.parametrize("make", [t.Ef21, t.Diana, lambda s, c: t.Marina(s, c, 0.5)], ids=["ef21", "diana", "marina"])
def test_without_compression_all_are_gradient_descent_with_step_1_over_l(make):
    problem, known = weighted(), Known(weighted())
    lr = 1 / (known.smoothness.max() if make is t.Diana else known.shares @ known.smoothness)
    trace = t.run(make(t.Full(), t.codecs.Identity()), problem, rounds=6)
    # MARINA with p = 1/2 has a shorter step: p / (2 mu) is more than 1 / L here, so it has the same.
    np.testing.assert_allclose(trace.x, t.run(t.Gd(t.Full(), lr=lr), problem, rounds=6).x, atol=1e-12)


@pytest.mark.slow
def test_every_array_of_nested_parameters_is_compressed_by_itself():
    problem = network()
    leaves = jax.tree.leaves(problem.start(jax.random.key(0)))
    trace = t.run(t.Ef21(t.Full(), t.codecs.TopK(count=1), lr=0.1), problem, rounds=1, engine="nodes")
    each = sum(leaf.dtype.itemsize + -(-max(1, int(np.ceil(np.log2(leaf.size)))) // 8) for leaf in leaves)
    assert trace.ledger.totals()["bytes_up"] == problem.clients * each


MISTAKES = {
    "biased": (lambda: t.Diana(t.Full(), t.codecs.TopK(count=1), lr=0.1), small, "TopK is biased"),
    "biased-marina": (lambda: t.Marina(t.Full(), t.codecs.Sign(), 0.5), small, "Sign is biased"),
    "memories": (lambda: t.EfBv(t.Full(), t.codecs.RandK(count=1), rate=1.0), small, "errors of the memories do not fall"),
    "nu": (lambda: t.EfBv(t.Nice(3), t.codecs.TopK(count=1), nu=1.0), small, "above min_i p_i = 0.5: give lr"),
    "contraction": (lambda: t.Ef21(t.Full(), t.codecs.LowRank(rank=1)), network, "give lr"),
    "smoothness": (lambda: t.Ef21(t.Full(), t.codecs.TopK(count=1)), network, "no L_i of Network is known"),
    "cohorts": (lambda: t.Diana(t.Stratified([0, 0, 0, 1, 1, 1]), t.codecs.Identity()), small, "cohorts of Stratified: give lr"),
    "count": (lambda: t.Ef21(t.Full(), t.codecs.TopK(count=9), lr=0.1), small, "an array has 3"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name):
    make, problem, sentence = MISTAKES[name]
    with pytest.raises(t.UserError, match=sentence):
        t.run(make(), problem(), rounds=1)
