"""FedProx: FedAvg where mu is zero, NumPy elsewhere, and the proximal point in the long run."""

import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import logistic, quadratic
from turnout import client_solvers


@pytest.mark.tiers(quick=[], slow=["steps"])
@pytest.mark.parametrize(
    "work", [{"steps": 3}, {"batch": 4, "epochs": 2, "schedule": t.schedules.Inverse(5.0)}], ids=["steps", "epochs"]
)
def test_without_a_proximal_term_it_is_fedavg_bit_for_bit(work):
    first, second = (
        t.run(make, logistic(), rounds=4, seed=3)
        for make in (
            t.FedAvg(t.Nice(4), lr=0.1, **work),
            t.FedProx(t.Nice(4), lr=0.1, mu=0.0, **work),
        )
    )
    np.testing.assert_array_equal(first.x, second.x)
    assert first.ledger.totals() == second.ledger.totals()


def reference(problem, lr: float, mu: float, steps: int, rounds: int, decay: float) -> np.ndarray:
    """FedProx with all clients, in NumPy."""
    matrices, vectors = problem.rows
    x = np.zeros(vectors.shape[1])
    for k in range(rounds):
        y = np.tile(x, (len(vectors), 1))
        for _ in range(steps):
            gradients = np.einsum("nij,nj->ni", matrices, y) - vectors
            y = y - lr / (1 + k / decay) * (gradients + mu * (y - x))
        x = y.mean(axis=0)
    return x


@pytest.mark.tiers(longer=["0.3"])
@pytest.mark.parametrize("mu", [0.3, 20.0])
def test_it_is_its_numpy_program(mu):
    trace = t.run(t.FedProx(t.Full(), lr=0.02, mu=mu, steps=5, schedule=t.schedules.Inverse(2.0)), quadratic(), rounds=6)
    np.testing.assert_allclose(trace.x, reference(quadratic(), 0.02, mu, 5, 6, 2.0), rtol=1e-12)


@pytest.mark.slow
def test_many_local_steps_end_at_the_proximal_points():
    long = t.run(t.FedProx(t.Nice(4), lr=0.05, mu=2.0, steps=2000), quadratic(), rounds=3)
    exact = t.run(t.FedProxSppm(t.Nice(4), gamma=0.5, solver=client_solvers.NewtonCg(tolerance=1e-12)), quadratic(), rounds=3)
    np.testing.assert_allclose(long.x, exact.x, atol=1e-10)


def test_a_negative_mu_is_refused():
    with pytest.raises(t.UserError, match="FedProx.mu must be at least 0, but it is -1"):
        t.FedProx(t.Full(), lr=0.1, mu=-1.0)
