"""A cohort size that follows the steps of the parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.federations import SHARES, VECTORS, chance, subsets
from turnout.runs.session import Session
from turnout.samplers.adaptive_size import SizeState

FOUR = t.Population(count=4, weights=SHARES)


@t.record
class Walk(t.Algorithm):
    """Moves by given steps [rounds, d], whoever replies, and writes down K = n p_i of each round."""

    sampler: t.Sampler
    steps: np.ndarray

    def start(self, ask, x):
        return x, jnp.zeros(len(self.steps))

    def output(self, server):
        return server[0]

    def round(self, ask, server):
        cohort = ask.draw(self.sampler, self.gradient, server[0])
        ask.observe(ask(cohort, self.gradient, server[0]))
        size = 8 * cohort.probability[0]
        return server[0] + jnp.asarray(self.steps)[ask.round - 1], server[1].at[ask.round - 1].set(size)

    @t.on_client
    def gradient(self, client, x):
        """grad f_i(x)."""
        return t.Done(client.grad(x))


def sizes_by_hand(steps, smallest, largest, cosine, rate):
    """Return K in each round, by the formulas of the docstring."""
    k, mean, sizes = smallest, np.zeros(steps.shape[1]), []
    for step in [np.zeros(steps.shape[1]), *steps[:-1]]:
        lengths = np.sqrt(step @ step) * np.sqrt(mean @ mean)
        if lengths > 0:
            k = min(max(k * np.exp(rate * (cosine - step @ mean / lengths)), smallest / np.e), largest)
        if np.any(step != 0):
            mean = 0.98 * mean + 0.02 * step
        sizes.append(max(k, smallest))
    return np.array(sizes)


@pytest.mark.longer
@pytest.mark.parametrize(("cosine", "rate"), [(0.05, 0.2), (0.0, 2.0), (0.6, 1.0)])
def test_the_size_follows_the_formulas(cosine, rate):
    """Also in rounds without a step, and where K is at a bound."""
    steps = np.random.default_rng(3).normal(size=(60, 3))
    steps[:20] = np.abs(steps[:20])
    steps[20:40] = [-0.1, -0.2, -0.3]
    steps[[0, 7, 8, 30]] = 0
    sampler = t.AdaptiveSize(t.Independent(size=6.0), smallest=1.5, cosine=cosine, rate=rate)
    session = Session(Walk(sampler, steps), t.Quadratic.random(8, 3, seed=2), rounds=60).run()
    wanted = sizes_by_hand(steps, 1.5, 6.0, cosine, rate)
    np.testing.assert_allclose(session.progress.server[1], wanted, rtol=1e-12)
    assert wanted.min() == 1.5 and wanted.max() > 2


@pytest.mark.tiers(quick=[], longer=["rule1"])
@pytest.mark.parametrize("rule", [t.Uniform(), t.LastNorm()])
def test_averages_are_unbiased_at_any_size(rule):
    """E[sum_{i in S} v_i / p_i | state] = sum_i v_i over all subsets S, K is within its bounds, and `variance` is exact."""
    sampler = t.AdaptiveSize(t.Independent(rule, size=3.0), dimension=3).bind(FOUR)
    draw = jax.jit(jax.vmap(lambda known, key: sampler.draw(known, key, FOUR), (None, 0)))
    for size in (0.3, 1.0, 1.7, 3.0):
        known = sampler.start(FOUR)._replace(size=jnp.asarray(size))
        p = np.asarray(sampler.expected_draws(known, FOUR))
        assert p.sum() == pytest.approx(max(size, 1.0), rel=1e-12)
        draws = draw(known, jax.random.split(jax.random.key(0), 50))
        ids, active = np.asarray(draws.ids), np.asarray(draws.active)
        np.testing.assert_allclose(np.asarray(draws.weight)[active], (SHARES / p)[ids[active]], rtol=1e-12)
        law = [(chance(drawn, p), (drawn / p) @ VECTORS) for drawn in subsets()]
        total = VECTORS.sum(0)
        np.testing.assert_allclose(sum(w * estimate for w, estimate in law), total, atol=1e-12)
        spread = sum(w * np.sum((estimate - total) ** 2) for w, estimate in law)
        assert sampler.variance(known, FOUR, jnp.asarray(VECTORS)) == pytest.approx(spread, rel=1e-10)


@pytest.mark.slow
def test_noise_makes_cohorts_large_and_a_common_direction_keeps_them_small():
    """At the minimiser only the clients' differences move x; clients with one minimiser agree far away from it."""

    def contacts(shift):
        forms = np.broadcast_to(np.eye(10), (40, 10, 10))
        optima = np.random.default_rng(1).normal(size=(40, 10))
        problem = t.Quadratic.of(forms, optima - optima.mean(0) if shift is None else np.full((40, 10), shift))
        algorithm = t.MbGd(t.AdaptiveSize(t.Independent(size=20.0)), lr=0.02)
        return t.run(algorithm, problem, rounds=150).ledger.totals()["contacts"]

    alike, apart = contacts(1.0), contacts(None)
    assert alike < 2 * 150 and apart > 4 * 150


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_a_cosine_of_tau_implies_the_norm_test(tau):
    """E<d, m> >= tau |m| sqrt(E|d|^2) gives E|d - E d|^2 <= (1 / tau^2 - 1) |E d|^2, for the draws of four clients."""
    generator, held = np.random.default_rng(7), 0
    for _ in range(300):
        vectors, p = generator.normal(size=(4, 3)) + generator.normal(size=3), generator.uniform(0.1, 1, size=4)
        law = [(chance(drawn, p), (drawn / p) @ vectors) for drawn in subsets()]
        mean, square = vectors.sum(0), sum(w * estimate @ estimate for w, estimate in law)
        m = mean + generator.normal(size=3)
        if mean @ m >= tau * np.linalg.norm(m) * np.sqrt(square):
            held += 1
            assert square - mean @ mean <= (1 / tau**2 - 1) * (mean @ mean) * (1 + 1e-12)
    assert held > 10


@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.5])
def test_successive_steps_that_agree_lower_a_quadratic(gamma):
    """E f(x') = f(x) - gamma |grad f(x)|^2 / 2 - E<d, d'> / (2 gamma), over all draws of four clients."""
    generator = np.random.default_rng(5)
    factors, optima, x = generator.normal(size=(4, 3, 3)), generator.normal(size=(4, 3)), generator.normal(size=3)
    forms, p = factors @ factors.swapaxes(1, 2), generator.uniform(0.1, 1, size=4)

    def gradients(x):
        return SHARES[:, None] * np.einsum("ijk,ik->ij", forms, x - optima)

    def value(x):
        return np.sum(gradients(x) * (x - optima)) / 2

    steps = [(chance(drawn, p), -gamma * (drawn / p) @ gradients(x)) for drawn in subsets()]
    inner = sum(w * d @ (-gamma * gradients(x + d).sum(0)) for w, d in steps)
    slope = gradients(x).sum(0)
    wanted = value(x) - gamma * slope @ slope / 2 - inner / (2 * gamma)
    assert sum(w * value(x + d) for w, d in steps) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.longer
def test_a_rule_that_asks_before_the_draw_is_asked():
    problem = t.Quadratic.random(8, 3, seed=2)
    algorithm = t.MbGd(t.AdaptiveSize(t.Independent(t.Optimal(), size=4.0)), lr=0.02)
    session = Session(algorithm, problem, rounds=3).run()
    assert isinstance(session.progress.samplers[0], SizeState)
    assert {row["path"]: row["contacts"] for row in session.trace.ledger.rows()}["0.preview"] == 3 * 8


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.AdaptiveSize(t.Independent(size=3.0)).bind(FOUR), "needs the number of parameters"),
        (lambda: t.AdaptiveSize(t.Independent(probability=0.5), dimension=3).bind(FOUR), "a size and a rule"),
        (lambda: t.AdaptiveSize(t.Independent(probability=[0.5] * 4, size=2.0), dimension=3).bind(FOUR), "a size and a rule"),
        (lambda: t.AdaptiveSize(t.Independent(size=3.0), smallest=4.0, dimension=3).bind(FOUR), "smallest = 4 above the size 3"),
        (lambda: t.AdaptiveSize(t.Independent(size=5.0), dimension=3).bind(FOUR), "wants 5 clients, but there are 4"),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(t.UserError, match=words):
        make()
