"""Fed-Sophia: against a plain program where the curvature along signs is the Hessian's diagonal, and when it looks."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from tests.helpers.gradients import client_gradient

ROUNDS, EVERY, BETA1, BETA2, LR, RHO, DECAY = 50, 2, 0.8, 0.6, 0.1, 0.5, 0.01


def diagonal() -> t.Problem:
    """Six clients with diagonal Hessians, some entries of which are negative: then z * (H z) is the diagonal for any signs z."""
    generator = np.random.default_rng(0)
    curvatures = generator.uniform(-0.2, 4.0, (6, 3))
    return t.Quadratic.of(curvatures[:, :, None] * np.eye(3), generator.normal(size=(6, 3)))


@pytest.mark.tiers(quick=[], longer=["cohorts"])
@pytest.mark.parametrize(
    ("sampler", "steps"), [(t.Nice(3), [1, 2, 3, 4, 5, 5]), (t.Full(), [1] * 6)], ids=["cohorts", "everyone"]
)
def test_a_run_is_its_numpy_program(sampler, steps):
    problem, x = diagonal(), np.zeros(3)
    options = {"every": EVERY, "beta1": BETA1, "beta2": BETA2, "rho": RHO, "weight_decay": DECAY}
    trace = t.run(t.FedSophia(sampler, LR, steps, **options), problem, rounds=ROUNDS, seed=1)
    m, h, queries = np.zeros((6, 3)), np.zeros((6, 3)), 0
    for cohort in cohorts(sampler, problem, 1, ROUNDS):
        changes = []
        for i, share, _ in cohort:
            y = x
            for number in range(steps[i]):
                if number % EVERY == 0:
                    h[i] = BETA2 * h[i] + (1 - BETA2) * np.diag(problem.rows[0][i])
                    queries += 1
                m[i] = BETA1 * m[i] + (1 - BETA1) * client_gradient(problem, i, y)
                y = y - LR * (DECAY * y + np.clip(m[i] / np.maximum(h[i], 1e-12), -RHO, RHO))
                queries += 1
            changes.append(share * (y - x))
        x = x + np.sum(changes, axis=0) / sum(share for _, share, _ in cohort)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    totals = trace.ledger.totals()
    assert totals["queries_total"] == queries
    assert totals["vectors_up"] == totals["vectors_down"] == totals["contacts"]


def test_it_needs_second_derivatives():
    with pytest.raises(t.UserError, match="second derivatives"):
        t.FedSophia(t.Full(), 0.1).bind(type("First", (), {"twice_differentiable": False})())
