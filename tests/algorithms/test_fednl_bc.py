"""FedNL with bidirectional compression: against a plain program, its rate on quadratics, and what clients know of the model."""

import jax
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_fednl import CODECS, ROUNDS, D, compressed, everyone, optimum, projected, shares
from tests.helpers.examples import logistic
from tests.helpers.gradients import client_gradient, client_hessian
from turnout.core.seeds import Seeds
from turnout.runs.session import Session
from turnout.runs.sweep import cells_of

KEPT = 2


def largest(vector: np.ndarray) -> np.ndarray:
    kept, places = np.zeros_like(vector), np.argsort(-np.abs(vector))[:KEPT]
    kept[places] = vector[places]
    return kept


def program(problem, coins, x):
    """Return x and z after a round for each coin, with a gradient where it is true, and the first Hessians."""
    learned = np.array([client_hessian(problem, i, x) for i in range(problem.clients)])
    z, w, gradient = x, x, np.zeros_like(x)
    for coin in coins:
        z = z + largest(x - z)
        if coin:
            w, gradient = z, sum(share * client_gradient(problem, i, z) for i, share, _ in everyone(problem))
        # By the formula of the paper: from z, with a gradient that H carries from w to z.
        matrix = projected(np.tensordot(shares(problem), learned, 1), problem.mu)
        x = z - np.linalg.solve(matrix, gradient + matrix @ (z - w))
        learned = learned + [compressed("rank-1", client_hessian(problem, i, z) - h) for i, h in enumerate(learned)]
    return x, z


def bidirectional(probability: float, down=None, **options) -> t.FedNlBc:
    return t.FedNlBc(t.Full(), CODECS["rank-1"], down or t.codecs.TopK(count=KEPT), probability, **options)


@pytest.mark.tiers(quick=[], longer=["0.4"], slow=["1.0"])
@pytest.mark.parametrize("probability", [1.0, 0.4])
def test_a_run_is_its_numpy_program(probability):
    """Gradients come in the rounds whose clients have one query more, the first among them."""
    problem = logistic()
    trace = t.run(bidirectional(probability), problem, rounds=ROUNDS, seed=3)
    queries = np.diff(trace.frame["queries_slowest"].to_numpy())
    coins = queries == 1 + D
    assert {*queries.tolist()} <= {D, 1 + D} and coins[0] and coins.all() == (probability == 1)
    x, _ = program(problem, coins, np.zeros(D))
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(trace.x, optimum(problem), rtol=0, atol=1e-10)
    # A payload of the model has the kept numbers, their places in a byte, and the number of the step.
    message, each = 8 * KEPT + 1 + 4, 8 * D + 8 * (D + 1)
    totals, n = trace.ledger.totals(), problem.clients
    assert totals["bytes_down"] == n * (8 * D + ROUNDS * message)
    assert totals["bytes_up"] == n * (8 * D * (D + 1) // 2 + ROUNDS * each - 8 * D * np.sum(~coins))


@pytest.mark.longer
def test_with_a_gradient_each_round_and_the_whole_model_it_is_fednl():
    problem = logistic()
    trace = t.run(bidirectional(1.0, t.codecs.TopK(count=D)), problem, rounds=8)
    expected = t.run(t.FedNl(t.Full(), CODECS["rank-1"]), problem, rounds=8)
    np.testing.assert_allclose(trace.x, expected.x, rtol=0, atol=1e-12)


def played(algorithm, problem, rounds: int, **options) -> tuple[Session, list]:
    """Return a session, and the states of the server and the clients after each round, of all cells if there are any."""
    session, states = Session(algorithm, problem, rounds=rounds, **options), []
    for _ in session.play():
        states.append(jax.tree.map(np.array, (session.progress.server, session.progress.clients)))
    return session, states[1:]


def check_known(problem, seeds, rounds=12) -> None:
    """x is x* from the first round on, and |z - x*|^2 falls by 1 - k / d for each seed."""
    _, states = played(bidirectional(0.3, mu=1e-6), problem, rounds, seeds=Seeds.of(0), cells=cells_of({}, seeds))
    best = optimum_of(problem)
    scale = max(1.0, np.linalg.norm(best))
    away = [np.sum((np.asarray(server.known) - best) ** 2, axis=1) for server, _ in states]
    for server, clients in states:
        np.testing.assert_allclose(server.x, np.tile(best, (len(seeds), 1)), rtol=0, atol=1e-10 * scale)
        np.testing.assert_allclose(
            clients.known, np.repeat(server.known[:, None], problem.clients, 1), rtol=0, atol=1e-14 * scale
        )
    for before, after in zip(away[:-1], away[1:], strict=True):
        assert np.all(after <= (1 - KEPT / D) * before + 1e-20 * scale**2)
    assert np.all(away[-1] < away[0] / 2)


@pytest.mark.longer
def test_on_quadratics_the_model_that_clients_know_comes_to_the_optimum_at_the_rate_of_its_codec():
    check_known(t.Quadratic.random(clients=6, dimension=D, seed=0), seeds=[1])


def optimum_of(problem) -> np.ndarray:
    zero = np.zeros(D)
    gradient, hessian = (
        sum(share * of(problem, i, zero) for i, share, _ in everyone(problem)) for of in (client_gradient, client_hessian)
    )
    return -np.linalg.solve(hessian, gradient)


DOWN = {"places": t.codecs.TopK(count=KEPT), "random places": t.codecs.RandK(count=3), "bits": t.codecs.Qsgd(bits=4)}


@pytest.mark.tiers(quick=[], longer=["random places"], slow=["places", "bits"])
@pytest.mark.parametrize("name", DOWN)
def test_where_replies_are_lost_all_clients_move_before_the_next_step(name):
    """Clients are at z, or one step ahead where some have not answered yet; x comes to x* all the same."""
    problem = logistic()
    session, states = played(bidirectional(0.5, DOWN[name]), problem, 600, seed=2, every=20, faults=t.Faults(0.05, "skip"))
    for server, clients in states:
        ahead = np.asarray(clients.heard) - int(server.number)
        assert {*ahead.tolist()} <= {0, 1}
        expected = np.asarray(server.known) + ahead[:, None] * np.asarray(server.step)
        np.testing.assert_allclose(clients.known, expected, rtol=0, atol=1e-12)
    assert int(states[-1][0].number) < 600
    np.testing.assert_allclose(session.trace.x, optimum(problem), rtol=0, atol=1e-8)
