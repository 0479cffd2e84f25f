"""K-Vib's theorems, along runs and against what their proofs say."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.commands import config, turnout
from turnout.runs.setup import bind, scope
from turnout.theory import kvib

GENERATOR = np.random.default_rng(0)


def capped_loss(v, size):
    """min sum v_i^2 / p_i over p <= 1, sum p = K, by bisection for nu in p_i = min(1, v_i / nu)."""
    low, high = 0.0, v.sum()
    for _ in range(200):
        nu = (low + high) / 2
        low, high = (nu, high) if np.minimum(1, v / nu).sum() > size else (low, nu)
    return np.sum(v**2 / np.minimum(1, v / high))


@pytest.mark.tiers(longer=["1"])
@pytest.mark.parametrize("size", [1, 2.5, 4])
def test_the_least_loss_is_that_of_the_best_probabilities(size):
    for v in (GENERATOR.exponential(size=6), np.array([100.0, 1, 1, 1, 1, 1]), np.ones(6)):
        assert kvib.least_loss(v, size) == pytest.approx(capped_loss(v, size), rel=1e-9)
    assert kvib.least_loss(np.ones(6), size) == pytest.approx(36 / size)
    assert kvib.least_loss(np.array([3.0, 0, 0, 0, 0, 0]), size) == 9


@pytest.mark.longer
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 30))
def test_one_best_probability_costs_as_little_as_theorem_5_1_says(seed, size, rounds):
    """For any feedback that falls to its limit, with and without clients that are always drawn."""
    generator = np.random.default_rng(seed)
    limits = generator.exponential(size=6) ** 3
    excess = generator.exponential(size=(rounds, 6)) / np.sqrt(np.arange(1, rounds + 1))[:, None]
    feedback = limits + excess * generator.integers(0, 2)
    fixed = capped_loss(np.sqrt(np.sum(feedback**2, axis=0)), size)
    gap = fixed - sum(capped_loss(each, size) for each in feedback)
    bound = kvib.theorem_5_1(limits, np.sum((feedback - limits) ** 2, axis=0), rounds, size)
    assert -1e-9 * fixed <= gap <= bound + 1e-9 * fixed


def test_theorem_5_1_is_the_papers_formula_where_nobody_is_always_drawn():
    limits, deviations = np.array([1.0, 1.2, 0.9, 1.1]), np.array([0.3, 0.2, 0.4, 0.3])
    spread = np.sum(np.sqrt(deviations / 10))
    expected = 10 / 2 * spread * (2 * limits.sum() + spread)
    assert kvib.theorem_5_1(limits, deviations, 10, 2) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("z", [None, 1.0])
def test_theorem_5_2_is_the_bound_for_full_information_at_a_larger_feedback(z):
    """Theorem D.1 for feedback up to G' = G sqrt(N / (theta K)), and what mixing costs."""
    bound, rounds, n, size = 0.7, 300, 50, 4
    theta = (n / (rounds * size)) ** (1 / 3)
    larger, least, total = bound * np.sqrt(n / (theta * size)), z or size, n * bound * np.sqrt(rounds)
    full = (22 * n * larger / least + 2 * np.sqrt(6) * n * larger / size) * total + 22 * n * larger**2 / least
    expected = full + theta * bound**2 * n**2 * rounds / size
    assert kvib.theorem_5_2(bound, rounds, n, size, uncapped=z) == pytest.approx(expected, rel=1e-12)


def test_theorem_5_2_grows_as_the_paper_says():
    """N^2 times N^(1/3) T^(2/3) / K^(4/3), once T is large."""
    at = kvib.theorem_5_2(1.0, 1e9, 100, 10)
    assert kvib.theorem_5_2(1.0, 8e9, 100, 10) / at == pytest.approx(4, rel=0.01)
    assert kvib.theorem_5_2(1.0, 1e9, 800, 10) / at == pytest.approx(64 * 2, rel=0.01)
    assert kvib.theorem_5_2(1.0, 1e9, 100, 80) / at == pytest.approx(1 / 16, rel=0.01)
    assert kvib.theorem_5_2(3.0, 1e9, 100, 10) / at == pytest.approx(9)
    with pytest.raises(t.UserError, match="needs T K >= N, but 9 times 10 is less than 100"):
        kvib.theorem_5_2(1.0, 9, 100, 10)


def offsets(n: int):
    """Quadratics |x - b_i|^2 / 2 some of whose minimisers b_i are far away, and the b_i."""
    b = np.random.default_rng(1).normal(size=(n, 3)) * np.geomspace(0.1, 3, n)[:, None]
    return t.Quadratic.of(np.broadcast_to(np.eye(3), (n, 3, 3)).copy(), b), b


@pytest.mark.tiers(quick=[], longer=["5"])
@pytest.mark.parametrize("size", [2, 5])
def test_runs_have_no_more_regret_than_theorems_5_1_and_5_2_allow(size):
    """Of minibatch gradient descent with short steps, so that feedback hardly depends on the draws."""
    n, rounds = 12, 60
    problem, b = offsets(n)
    largest = 1.05 * np.max(np.linalg.norm(b, axis=1)) / n
    method = t.MbGd(t.Independent(t.KVib(bound=largest), size=float(size)), lr=1e-3)
    metrics = ("regret", "static_regret")
    traces = t.sweep(method, problem, {}, rounds=rounds, seeds=range(8), metrics=metrics).traces
    regret, static = (np.mean([trace.columns[name][-1] for trace in traces]) for name in metrics)
    allowed = kvib.theorem_5_2(largest, rounds, n, size)
    hindsight = kvib.theorem_5_1(np.zeros(n), np.full(n, rounds * largest**2), rounds, size)
    assert 0 < static <= allowed < kvib.theorem_5_2(largest, rounds, n, size, uncapped=1.0)
    assert 0 <= regret - static <= hindsight


@given(*(st.floats(0.01, 100) for _ in range(6)))
def test_theorem_4_1_is_a_bound_at_the_best_step(rounds, gap, smoothness, variance, quality, beta_2):
    """2 M / (T eta) + (beta_1 + 5/4 L sigma^2) eta + 5/8 sigma^2 beta_2 eta^2, which the proof minimises up to 1 / (8 L)."""
    steps = np.geomspace(1e-6, 1, 20_000) / (8 * smoothness)
    linear, square = quality + 1.25 * smoothness * variance, 0.625 * variance * beta_2
    least = np.min(2 * gap / (rounds * steps) + linear * steps + square * steps**2)
    bound = kvib.theorem_4_1(rounds, gap, smoothness, variance, quality, beta_2, rho=1.0)
    assert least <= bound * (1 + 1e-3) and bound <= 12 * least
    assert kvib.theorem_4_1(rounds, gap, smoothness, variance, quality, beta_2) == pytest.approx(32 * bound)


@pytest.mark.longer
def test_a_run_has_gradients_as_small_as_theorem_4_1_says():
    n, rounds, size = 12, 60, 4
    problem, b = offsets(n)
    centred = b - b.mean(0)
    method = t.MbGd(t.Independent(t.KVib(), size=float(size)), lr=1 / 8)
    traces = t.sweep(method, problem, {}, rounds=rounds, seeds=range(8), metrics=("gradient", "regret")).traces
    measured = np.min(np.mean([trace.columns["gradient"] for trace in traces], axis=0))
    quality = np.mean([trace.columns["regret"][-1] for trace in traces]) / rounds
    bound = kvib.theorem_4_1(
        rounds, np.sum(b.mean(0) ** 2) / 2, 1.0, np.mean(np.sum(centred**2, axis=1)), quality, kvib.utility(n, size, 1 / n)[1]
    )
    assert 0 < measured <= bound


def test_the_optimal_factor_is_in_the_papers_interval():
    """1 for all clients; N W and (N + (N - K) / K) W."""
    assert kvib.utility(10, 10, 0.1) == pytest.approx((1, 1))
    assert kvib.utility(10, 2, 0.2) == pytest.approx((2, 2 + 4 * 0.2))


@pytest.mark.longer
def test_bounds_of_a_configuration_are_those_of_its_sampler():
    problem, b = offsets(12)
    with scope("double"):
        sampler = bind(t.Independent(t.KVib(), size=4.0), problem, 60)
    found = kvib.regret_bounds(sampler, problem, 60, np.zeros(3))
    assert found.theta == pytest.approx(kvib.mixing(60, 12, 4), rel=1e-12)
    assert found.start is not None
    gap, smoothness, variance, feedback = found.start
    assert (gap, smoothness) == pytest.approx((np.sum(b.mean(0) ** 2) / 2, 1.0))
    assert variance == pytest.approx(np.mean(np.sum((b - b.mean(0)) ** 2, axis=1)))
    assert feedback == pytest.approx(np.max(np.linalg.norm(b, axis=1)) / 12)
    facts = found.facts()
    assert facts["static_regret"] == kvib.theorem_5_2(1.0, 60, 12, 4.0, found.theta) < facts["static_regret_capped"]
    with pytest.raises(t.UserError, match="about the sampler 'independent' with the probability 'k-vib'"):
        kvib.regret_bounds(t.Nice(2), problem, 60, np.zeros(3))
    with scope("double"):
        few = bind(t.Independent(t.KVib(), size=4.0), problem, 2)
    with pytest.raises(t.UserError, match="needs T K >= N"):
        kvib.regret_bounds(few, problem, 2, np.zeros(3))


@pytest.mark.parametrize(
    ("rounds", "mixing", "words"), [(3, None, "draws uniformly in all of the 3 rounds"), (4, None, None), (3, 0.5, None)]
)
def test_a_rule_that_can_only_draw_uniformly_says_so(rounds, mixing, words):
    """With T K = N it is, by its first scores and by its theta."""
    problem, _ = offsets(12)
    with scope("double"):
        algorithm = bind(t.MbGd(t.Available(t.Independent(t.KVib(mixing=mixing), size=4.0), 1.0), lr=0.1), problem, rounds)
        warnings = t.samplers.base.warnings_of(algorithm, problem.population)
        theta = float(algorithm.sampler.sampler.probability.theta(4.0, problem.population))
    assert (theta == 1) == (words is not None)
    assert len(warnings) == (words is not None) and all(words in warning for warning in warnings)


SAMPLER = {"kind": "independent", "size": 2.0, "probability": "k-vib"}


@pytest.mark.slow
def test_the_command_shows_the_theorems(tmp_path):
    file = config(tmp_path, sampler=SAMPLER, run={"rounds": 60})
    code, said, wrong = turnout("theory", file, "--out", tmp_path / "out")
    assert (code, wrong) == (0, ""), wrong
    facts = json.loads((tmp_path / "out" / "theory.json").read_text())["k-vib"]
    assert facts["static_regret"] == kvib.theorem_5_2(1.0, 60, facts["clients"], 2.0)
    for name in ("static_regret", "static_regret_capped", "hindsight", "gradient"):
        assert f"{facts[name]:,.4g}" in said
    assert turnout("figures", tmp_path / "out")[0] == 0
    for name in ("regret", "gradient"):
        assert b"Theorem" in (tmp_path / "out" / "figures" / f"{name}.svg").read_bytes()


@pytest.mark.tiers(quick=[], longer=["start1"])
@pytest.mark.parametrize("start", [None, kvib.AtStart(2.0, 3.0, 0.5, 1.0)])
def test_curves_end_at_the_bounds_of_all_rounds(start):
    """The paper's theta is that of each number of rounds; from T = N / K on, where it is 1."""
    bounds = kvib.RegretBounds(300, 50, 4.0, kvib.mixing(300, 50, 4), 0.1, start)
    curves, facts = bounds.curves(20), bounds.facts()
    assert curves["rounds"][0] == 13 and curves["rounds"][-1] == 300
    for name in {*curves} - {"rounds", "uniform"}:
        assert curves[name][-1] == facts[name]
    assert curves["static_regret"][0] == kvib.theorem_5_2(1.0, 13, 50, 4)
    assert ("gradient" in curves) == (start is not None)


@pytest.mark.longer
@pytest.mark.parametrize("rounds", [1, pytest.param(60, marks=pytest.mark.slow)])
def test_commands_warn_of_draws_that_stay_uniform(tmp_path, rounds):
    file = config(tmp_path, sampler=SAMPLER, run={"rounds": rounds})
    for command in (("describe", file), ("run", file, "--out", tmp_path / "out")):
        code, _, wrong = turnout(*command)
        assert code == 0
        assert wrong.count("turnout: warning: probability 'k-vib' draws uniformly") == (rounds == 1), wrong
