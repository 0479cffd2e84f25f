"""DiLoCo and MuLoCo: against a plain program, and the algorithms that they are where little is left of them."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import turnout as t
from tests.helpers.examples import PROBLEMS
from tests.helpers.similar import CLIENTS, EQUAL, cohort, full_slope, similar, slope

NESTEROV = t.optimisers.Sgd(0.7, momentum=0.9, nesterov=True)
ROUNDS, STEPS = 5, 4
KEEPING = {
    "adamw": t.optimisers.AdamW(0.02, weight_decay=0.1),
    "muon": t.optimisers.Muon(0.02, weight_decay=0.1),
    "momentum": t.optimisers.Sgd(0.02, momentum=0.8),
}


class AdamW:
    """AdamW as in the paper of it, with its state."""

    def __init__(self, lr=0.02, decay=0.1):
        self.lr, self.decay, self.count = lr, decay, 0
        self.m = self.v = np.zeros(4)

    def step(self, x, g):
        self.count += 1
        self.m, self.v = 0.9 * self.m + 0.1 * g, 0.999 * self.v + 0.001 * g**2
        m, v = self.m / (1 - 0.9**self.count), self.v / (1 - 0.999**self.count)
        return x - self.lr * (m / (np.sqrt(v) + 1e-8) + self.decay * x)


def diloco(problem, sampler, seed) -> np.ndarray:
    x, m, own = np.zeros(4), np.zeros(4), [AdamW() for _ in range(CLIENTS)]
    for number in range(1, ROUNDS + 1):
        clients, shares = cohort(sampler, problem, seed, number)
        pseudo_gradient = np.zeros(4)
        for i, share in zip(clients, shares, strict=True):
            y = x
            for _ in range(STEPS):
                y = own[i].step(y, slope(problem, i, y))
            pseudo_gradient += share * (x - y)
        if clients:
            m = 0.9 * m + pseudo_gradient
            x = x - 0.7 * (pseudo_gradient + 0.9 * m)
    return x


@pytest.mark.tiers(quick=[], longer=["nice"])
@pytest.mark.parametrize(("sampler", "equal"), [(t.Nice(3), False), (t.Independent(size=1.5), True)], ids=["nice", "independent"])
def test_a_run_is_its_numpy_program(sampler, equal):
    problem = similar(equal)
    trace = t.run(t.DiLoCo(sampler, KEEPING["adamw"], NESTEROV, steps=STEPS), problem, rounds=ROUNDS, seed=1)
    np.testing.assert_allclose(trace.x, diloco(problem, sampler, 1), atol=1e-11)
    totals = trace.ledger.totals()
    assert totals["vectors_down"] == totals["vectors_up"] == totals["contacts"]


@pytest.mark.tiers(quick=[], slow=["momentum"])
@pytest.mark.parametrize("name", KEEPING)
def test_one_client_and_an_outer_step_of_one_are_the_clients_optimiser_without_a_break(name):
    """So the state is kept; on a network, whose layers are matrices and vectors. With FedOpt the state starts anew."""
    whole = PROBLEMS["network"]()
    problem = whole.client(0)
    optimiser, plain = KEEPING[name], t.optimisers.Sgd(1.0)
    kept, anew, at_once = (
        ravel_pytree(t.run(make(t.Full(), optimiser, plain, steps=steps), problem, rounds=12 // steps).x)[0]
        for make, steps in ((t.DiLoCo, 3), (t.FedOpt, 3), (t.FedOpt, 12))
    )
    np.testing.assert_allclose(kept, at_once, rtol=1e-9, atol=1e-11)
    assert not np.allclose(anew, at_once, rtol=1e-3, atol=1e-4)


@pytest.mark.longer
def test_plain_steps_are_federated_averaging():
    """Without a state to keep, and with an outer step of one."""
    problem, plain = similar(False), t.optimisers.Sgd(0.01)
    one = t.run(t.DiLoCo(t.Nice(3), plain, t.optimisers.Sgd(1.0), steps=STEPS), problem, rounds=ROUNDS)
    other = t.run(t.FedAvg(t.Nice(3), lr=0.01, steps=STEPS), problem, rounds=ROUNDS)
    np.testing.assert_allclose(one.x, other.x, atol=1e-12)


@pytest.mark.longer
def test_one_plain_step_of_everyone_is_nesterovs_method():
    """x_{t+1} = y_t - grad f(y_t) / L, y_{t+1} = x_{t+1} + beta (x_{t+1} - x_t), y being handed out, with 0.7 lr = 1 / L."""
    problem = similar()
    eigenvalues = np.linalg.eigvalsh(np.tensordot(EQUAL, problem.rows[0], 1))
    mu, largest = eigenvalues[0], eigenvalues[-1]
    beta = float((np.sqrt(largest) - np.sqrt(mu)) / (np.sqrt(largest) + np.sqrt(mu)))
    outer = t.optimisers.Sgd(0.7, momentum=beta, nesterov=True)
    algorithm = t.DiLoCo(t.Full(), t.optimisers.Sgd(float(1 / (0.7 * largest))), outer, steps=1)
    x = y = np.zeros(4)
    for _ in range(30):
        new = y - full_slope(problem, y) / largest
        x, y = new, new + beta * (new - x)
    np.testing.assert_allclose(t.run(algorithm, problem, rounds=30).x, y, atol=1e-11)


@pytest.mark.longer
def test_matrices_move_along_orthogonal_directions():
    """The first step of Muon: the singular vectors of the gradient, and singular values within a factor of 1.5 of one."""
    for shape in [(3, 3), (3, 5), (5, 3)]:
        generator = np.random.default_rng(0)
        gradient, x = generator.normal(size=shape), generator.normal(size=shape)
        optimiser = t.optimisers.Muon(0.1)
        new = optimiser.step(jnp.asarray(x), jnp.asarray(gradient), optimiser.start(jnp.asarray(x)))[0]
        u, _, v = np.linalg.svd(gradient, full_matrices=False)
        inside = u.T @ (np.asarray(x - new) / 0.1) @ v.T / np.sqrt(max(1, shape[1] / shape[0]))
        np.testing.assert_allclose(inside, np.diag(np.diag(inside)), atol=1e-6)
        assert np.all((np.diag(inside) > 1 / 1.5) & (np.diag(inside) < 1.5))
