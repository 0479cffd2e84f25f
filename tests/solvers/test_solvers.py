"""Cohort solvers: they reach the proximal point, at their known rates, and pay for every exchange."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import turnout as t
from tests.helpers.examples import logistic, network, quadratic
from tests.helpers.gradients import client_gradient, gradient
from turnout.core.seeds import Seeds
from turnout.runs.session import Session

SOLVERS = {
    "gd": (t.solvers.GradientDescent(), 200_000),
    "agd": (t.solvers.AcceleratedGradient(), 5000),
    "cg": (t.solvers.ConjugateGradient(), 400),
    "bfgs": (t.solvers.Bfgs(), 300),
    "lbfgs": (t.solvers.Lbfgs(), 300),
    "newton": (t.solvers.Newton(), 10),
    "newton-products": (t.solvers.Newton(hessian="products"), 10),
    "aicn": (t.solvers.Aicn(concordance=1e-3), 40),
    "scaffnew": (t.solvers.Scaffnew(), 6000),
    "localgd": (t.solvers.LocalGd(steps=3), 100_000),
    "giant": (t.solvers.Giant(), 4000),
    # With floor >= 1/2 the metric is above half of every Hessian, so that the fixed steps converge.
    "sketch": (t.solvers.SketchedNewton(floor=0.6), 100_000),
}

every_solver = pytest.mark.parametrize("name", SOLVERS)


def proximal_point(problem, gamma, x=None) -> np.ndarray:
    """prox_{gamma f}(x) of a quadratic problem, by NumPy."""
    matrices, vectors = (part.mean(0) for part in problem.rows)
    x = np.zeros(vectors.shape) if x is None else x
    return np.linalg.solve(matrices + np.eye(x.size) / gamma, vectors + x / gamma)


@pytest.mark.tiers(
    quick=["agd-10000.0-*", "cg-10000.0-*", "lbfgs-10000.0-*", "newton-10000.0-*", "aicn-10000.0-*"],
    longer=["agd-10.0-1000000.0", "cg-*", "lbfgs-*", "newton-*", "aicn-*", "bfgs-*", "scaffnew-*"],
)
@pytest.mark.parametrize("gamma", [0.1, 1e6])
@pytest.mark.parametrize("condition", [10.0, 1e4])
@every_solver
def test_the_proximal_point_is_reached(name, condition, gamma):
    solver, steps = SOLVERS[name]
    problem = t.Quadratic.random(6, 10, smallest=1.0, largest=condition, seed=1)
    trace = t.run(t.Sppm(t.Full(), solver, gamma, inner=steps), problem, rounds=1)
    np.testing.assert_allclose(trace.x, proximal_point(problem, gamma), atol=1e-10)


@pytest.mark.tiers(quick=[], slow=["newton"])
@pytest.mark.parametrize("name", SOLVERS)
def test_the_proximal_point_of_a_logistic_loss_is_reached(name):
    """Clients of very different sizes and unequal weights lambda, and a cohort whose weights do not sum to one."""
    solver, steps = SOLVERS[name]
    if name == "aicn":
        solver = replace(solver, concordance=5.0)
    problem, gamma = logistic(), 5.0
    cohort = t.Independent(probability=0.6)
    bound = cohort.bind(problem.population)
    drawn = bound.draw(None, Seeds.of(4).draw(1, 0), problem.population)
    weights = {int(i): float(w) for i, w, a in zip(drawn.ids, drawn.weight, drawn.active, strict=True) if a}
    assert abs(sum(weights.values()) - 1) > 0.05

    def phi(y):
        value, slope = 0.5 * y @ y / gamma, y / gamma
        for i, weight in weights.items():
            features, labels = (part[problem.offsets[i] : problem.offsets[i + 1]] for part in problem.rows)
            value = value + weight * (np.mean(np.logaddexp(0, -labels * (features @ y))) + problem.mu / 2 * y @ y)
            slope = slope + weight * client_gradient(problem, i, y)
        return value, slope

    rough = minimize(phi, np.zeros(5), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    found = t.run(t.Sppm(cohort, solver, gamma, inner=min(steps, 20_000)), problem, rounds=1, seed=4).x
    assert np.linalg.norm(phi(found)[1]) < 1e-10
    np.testing.assert_allclose(found, rough, atol=1e-6)


def exchanges_of(solver, inner=5, **options):
    trace = t.run(t.Sppm(t.Nice(4), solver, gamma=2.0, inner=inner, **options), quadratic(), rounds=3)
    return trace.ledger.totals()


@pytest.mark.tiers(quick=[], longer=["GradientDescent-int", "Bfgs-int", "Newton-int", "LocalGd-int0"])
@pytest.mark.parametrize(
    ("solver", "each"),
    [
        (t.solvers.GradientDescent(), 1),
        (t.solvers.AcceleratedGradient(), 1),
        (t.solvers.ConjugateGradient(), 1),
        (t.solvers.Bfgs(), 1),
        (t.solvers.Newton(), 1),
        (t.solvers.Aicn(), 1),
        (t.solvers.Scaffnew(), 1),
        (t.solvers.SketchedNewton(), 1),
        (t.solvers.LocalGd(corrected=False), 1),
        (t.solvers.LocalGd(), 2),
    ],
    ids=lambda part: type(part).__name__,
)
def test_every_step_is_paid(solver, each):
    totals = exchanges_of(solver)
    assert totals["exchanges"] == 3 * 5 * each
    assert totals["iterations"] == totals["exchanges"] - totals["rejected"]
    assert totals["contacts"] == 4 * totals["exchanges"]


def test_a_line_search_pays_for_rejected_points():
    """With L 1000 times too small the first steps overshoot: each halving is an exchange, and known as rejected."""
    totals = exchanges_of(t.solvers.Bfgs(smoothness=0.01, convexity=0.0), inner=20)
    assert totals["exchanges"] == 60
    assert totals["rejected"] >= 3 * 2


@pytest.mark.longer
def test_products_with_the_hessian_are_exchanges():
    """An accepted point costs one exchange for its gradient and at most d products, for a quadratic of d unknowns."""
    matrix, products = (
        exchanges_of(t.solvers.Newton(), inner=1),
        exchanges_of(t.solvers.Newton(hessian="products", products=7), inner=1),
    )
    assert matrix["exchanges"] == 3 and matrix["bytes_up"] == 3 * 4 * 8 * (1 + 5 + 25)
    assert 3 * (1 + 4) <= products["exchanges"] <= 3 * (1 + 7)
    assert products["vectors_down"] == 4 * (3 + 2 * (products["exchanges"] - 3))


def test_newton_needs_one_step_on_a_quadratic():
    problem = t.Quadratic.random(6, 10, largest=1e4, seed=1)
    trace = t.run(t.Sppm(t.Full(), t.solvers.Newton(), 3.0, inner=1), problem, rounds=1)
    np.testing.assert_allclose(trace.x, proximal_point(problem, 3.0), atol=1e-11)


@pytest.mark.longer
def test_accelerated_gradient_keeps_nesterovs_rate():
    """phi(y_k) - phi* <= (L + mu) / 2 (1 - sqrt(mu / L))^k |x - y*|^2 (Nesterov, 2018, theorem 2.2.3)."""
    problem, gamma = t.Quadratic.random(1, 10, largest=1000.0, seed=1), 1e9
    exact = proximal_point(problem, gamma)
    for k in (1, 10, 50, 150, 300):
        trace = t.run(t.Sppm(t.Full(), t.solvers.AcceleratedGradient(), gamma, inner=k), problem, rounds=1)
        gap = (trace.x - exact) @ problem.rows[0][0] @ (trace.x - exact) / 2
        assert gap <= (1000 + 1) / 2 * (1 - np.sqrt(1 / 1000)) ** k * exact @ exact


@pytest.mark.slow
def test_uncorrected_local_steps_stay_away_from_the_proximal_point():
    problem = quadratic()
    exact = proximal_point(problem, 2.0)
    near, far = (
        t.run(t.Sppm(t.Full(), t.solvers.LocalGd(steps=20, corrected=corrected), 2.0, inner=4000), problem, rounds=1).x
        for corrected in (True, False)
    )
    assert np.linalg.norm(near - exact) < 1e-9 < 1e-3 < np.linalg.norm(far - exact)


@pytest.mark.longer
def test_scaffnews_control_variates_sum_to_zero():
    """sum_i h_i = 0 after every mean: with equal weights, h_i + (p / lr) (y - z_i) keeps the sum."""
    session = Session(t.Sppm(t.Full(), t.solvers.Scaffnew(), 2.0, inner=7), quadratic(), seeds=Seeds.of(1), rounds=4)
    for _ in session.play():
        z, h, _ = session.progress.clients
        if session.round:
            assert np.linalg.norm(h) > 1e-3
            np.testing.assert_allclose(np.asarray(h).sum(0), 0, atol=1e-10)


@pytest.mark.tiers(quick=[], longer=["Bfgs-1e-06"])
@pytest.mark.parametrize("accuracy", [1e-2, 1e-6])
@pytest.mark.parametrize(
    "solver", [t.solvers.GradientDescent(), t.solvers.Bfgs(), t.solvers.Newton()], ids=lambda s: type(s).__name__
)
def test_auto_stops_as_soon_as_the_error_is_certified(solver, accuracy):
    """|y - prox|^2 <= b, and one step less would not have been certified."""
    from turnout.theory.bounds import tolerance

    problem, gamma = quadratic(), 4.0
    b = tolerance(accuracy, gamma, 1.0)
    auto = t.run(t.Sppm(t.Full(), solver, gamma, inner="auto", accuracy=accuracy), problem, rounds=1)
    exact = proximal_point(problem, gamma)
    assert np.sum((auto.x - exact) ** 2) <= b
    used = auto.ledger.totals()["exchanges"]
    before = t.run(t.Sppm(t.Full(), solver, gamma, inner=used - 1), problem, rounds=1).x if used > 1 else np.zeros(5)
    if isinstance(solver, t.solvers.GradientDescent):
        # The point certified last is the one before the last step.
        slope = gradient(problem, before) + before / gamma
        assert slope @ slope <= b * (1 + 1 / gamma) ** 2
    coarse = t.run(t.Sppm(t.Full(), solver, gamma, inner="auto", accuracy=100 * accuracy), problem, rounds=1)
    assert coarse.ledger.totals()["exchanges"] <= used


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (lambda: t.Sppm(t.Nice(2), t.solvers.Bfgs(), 1.0, inner="auto"), "needs accuracy"),
        (lambda: t.Sppm(t.Nice(2), t.solvers.Scaffnew(), 1.0, inner="auto", accuracy=0.1), "does not go with Scaffnew"),
        (lambda: t.Sppm(t.Nice(2), t.solvers.Bfgs(convexity=0.0), 1.0, inner="auto", accuracy=0.1), "strongly convex"),
        (lambda: t.Sppm(t.Nice(2), t.solvers.Bfgs(), gamma=0.0), "gamma must be greater than 0"),
    ],
)
def test_what_cannot_stop_by_itself_says_so(algorithm, words):
    with pytest.raises(t.UserError, match=words):
        t.run(algorithm(), quadratic(), rounds=1)


def test_a_solver_without_what_it_needs_says_so():
    with pytest.raises(t.UserError, match="Bfgs needs smoothness: Network does not know it"):
        t.run(t.Sppm(t.Nice(2), t.solvers.Bfgs(), gamma=1.0), network(), rounds=1)

    @t.record
    class Rough(t.Quadratic):
        """A problem without Hessians."""

        twice_differentiable = False

    problem = Rough.of(*quadratic().rows)
    for solver in (t.solvers.Newton(), t.solvers.Aicn(), t.solvers.Giant(), t.solvers.LocalNewton(), t.solvers.SketchedNewton()):
        with pytest.raises(t.UserError, match="needs second derivatives: Rough has none"):
            t.run(t.Sppm(t.Nice(2), solver, gamma=1.0), problem, rounds=1)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.5, pytest.param(1e6, marks=pytest.mark.slow)])
def test_local_newton_takes_the_mean_of_what_clients_find(gamma):
    """Two Newton steps of each client on its own logistic loss, in NumPy; phi decreases enough for the whole mean."""
    problem, x, after = logistic(), np.zeros(5), []
    for i in range(problem.clients):
        features, labels = (part[problem.offsets[i] : problem.offsets[i + 1]] for part in problem.rows)
        z = x
        for _ in range(2):
            chance = 1 / (1 + np.exp(-features @ z))
            hessian = features.T @ (features * (chance * (1 - chance))[:, None]) / len(labels)
            hessian = hessian + (problem.mu + 1 / gamma) * np.eye(5)
            z = z - np.linalg.solve(hessian, client_gradient(problem, i, z) + (z - x) / gamma)
        after.append(z)
    trace = t.run(t.Sppm(t.Full(), t.solvers.LocalNewton(steps=2), gamma, inner=1), problem, rounds=1)
    np.testing.assert_allclose(trace.x, problem.population.weights @ after, rtol=1e-9)


def sketched_by_hand(problem, cohorts, gamma, solver, power):
    """Curvature-sketched steps with increasing weights, in NumPy: Q <- decay Q + sketch, then x <- x - a B^-1 grad."""
    constants = problem.constants()
    mu, smoothness = constants.convexity.min(), constants.smoothness.max()
    theta = mu + solver.floor * (smoothness - mu)
    x, total, curvature, count = np.zeros(5), 0.0, np.zeros((5, 5)), 0.0
    for k, cohort in enumerate(cohorts):
        curvature, count, gradient = solver.decay * curvature, solver.decay * count + 1, np.zeros(5)
        for i, weight in cohort:
            slope = client_gradient(problem, i, x)
            gradient += weight * slope
            u = (slope - mu * x) / np.linalg.norm(slope - mu * x)
            features, labels = (part[problem.offsets[i] : problem.offsets[i + 1]] for part in problem.rows)
            chance = 1 / (1 + np.exp(-features @ x))
            curvature += weight * np.mean(chance * (1 - chance) * (features @ u) ** 2) * np.outer(u, u)
        metric = theta * np.eye(5) + solver.scale * curvature / count
        total += (k + 1) ** power
        x = x - (k + 1) ** power / total * np.linalg.solve(metric + np.eye(5) / gamma, gradient)
    return x


@pytest.mark.longer
def test_the_sketch_is_its_numpy_program():
    problem, sampler = logistic(), t.Nice(4)
    solver = t.solvers.SketchedNewton(floor=0.02, scale=0.6, decay=0.7)
    trace = t.run(t.Sppm(sampler, solver, gamma=1e9, inner=1, averaging=0.5), problem, rounds=6, seed=2)
    cohorts = []
    for number in range(1, 7):
        cohort = sampler.draw(None, Seeds.of(2).draw(number, 0), problem.population)
        cohorts.append([(int(i), float(w)) for i, w in zip(cohort.ids, cohort.weight, strict=True)])
    np.testing.assert_allclose(trace.x, sketched_by_hand(problem, cohorts, 1e9, solver, 0.5), atol=1e-12)
    assert trace.ledger.totals()["queries_total"] == 4 * 6 * 2


@pytest.mark.longer
def test_first_schedule_and_averaging():
    """Options of SPPM-AS against the update written out, on exact proximal points of all clients."""
    problem, x, total = quadratic(), np.zeros(5), 0.0
    algorithm = t.Sppm(
        t.Full(), t.solvers.Newton(), gamma=3.0, inner=1, first=4, schedule=t.schedules.Inverse(2.0), averaging=1.0
    )
    trace = t.run(algorithm, problem, rounds=5)
    for k in range(5):
        total += k + 1
        x = x + (k + 1) / total * (proximal_point(problem, 3.0 / (1 + k / 2.0), x) - x)
    np.testing.assert_allclose(trace.x, x, atol=1e-12)
    assert trace.ledger.totals()["exchanges"] == 4 + 4


@pytest.mark.longer
def test_the_first_steps_of_a_decreasing_rate():
    """lr / (1 + t / 3) at the server and at the clients alike, where there is one local step."""
    problem, x, falls = quadratic(), np.zeros(5), t.schedules.Inverse(3.0)
    for k in range(4):
        x = x - 0.05 / (1 + k / 3.0) * gradient(problem, x)
    for algorithm in (
        t.MbGd(t.Full(), 0.05, schedule=falls),
        t.MbLocalGd(t.Full(), 0.05, steps=1, schedule=falls),
        t.FedAvg(t.Full(), 0.05, schedule=falls),
    ):
        np.testing.assert_allclose(t.run(algorithm, problem, rounds=4).x, x, atol=1e-13)


def fixed_point(problem, gamma, alpha=None):
    """One round of FedProx-SPPM or FedAvg-SPPM from zero with all clients and two exchanges, in NumPy."""
    matrices, vectors = problem.rows
    eta = gamma if alpha is None else alpha * gamma / (alpha + gamma)
    y = x = np.zeros(5)
    for _ in range(2):
        centre = y if alpha is None else (alpha * x + gamma * y) / (alpha + gamma)
        y = np.mean([np.linalg.solve(a + np.eye(5) / eta, b + centre / eta) for a, b in zip(matrices, vectors, strict=True)], 0)
    return y


@pytest.mark.longer
@pytest.mark.parametrize("alpha", [None, 0.7])
def test_averaged_proximal_points_are_their_numpy_programs(alpha):
    problem = quadratic()
    make = t.FedProxSppm(t.Full(), 2.0, inner=2) if alpha is None else t.FedAvgSppm(t.Full(), 2.0, alpha, inner=2)
    trace = t.run(make, problem, rounds=1)
    np.testing.assert_allclose(trace.x, fixed_point(problem, 2.0, alpha), atol=1e-6)
    totals = trace.ledger.totals()
    assert (totals["exchanges"], totals["cohorts"], totals["vectors_down"]) == (2, 1, 24)
    assert totals["queries_total"] > 24


@pytest.mark.slow
def test_the_local_prox_works_on_rows_in_tiles_and_on_networks():
    for problem in (logistic(), network()):
        trace = t.run(t.FedProxSppm(t.Nice(3), 0.5), problem, rounds=4)
        assert trace.columns["value"][-1] < trace.columns["value"][0]
        assert np.all(np.isfinite(jnp.asarray(trace.columns["value"])))
