"""Algorithms and cohort solvers of local training: whole runs against NumPy programs, their fixed points and what they refuse."""

from dataclasses import replace
from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_local_sgd import order_of
from tests.helpers.examples import logistic, network, quadratic
from tests.helpers.gradients import client_gradient
from turnout import client_solvers
from turnout import optimisers as o
from turnout.core.seeds import Seeds
from turnout.engines.sweep import set_leaves
from turnout.experiment.config import read

ROUNDS, SEED, SIZE, STEPS, LR, SERVER_LR = 4, 3, 4, 3, 0.1, 0.05
SGD = o.Sgd(LR)


@cache
def problem() -> t.Problem:
    """Twelve clients of different weights."""
    return t.Quadratic.of(*quadratic().rows, weights=np.arange(1.0, 13) / 78)


class Cohort:
    """The clients drawn in a round by NumPy's lights: weights that sum to one, and gradients of what each minimises."""

    def __init__(self, drawn, weights, centre=None, pull=0.0):
        self.ids, self.weights = drawn, np.asarray(weights) / np.sum(weights)
        self.centre, self.pull = centre, pull

    def grad(self, i, y):
        gradient = client_gradient(problem(), i, y)
        return gradient if self.centre is None else gradient + self.pull * (y - self.centre)

    def mean(self, of):
        return sum(weight * of(i) for weight, i in zip(self.weights, self.ids, strict=True))


class Adam:
    """optax's and PyTorch's Adam, in NumPy."""

    def start(self):
        return np.zeros(5), np.zeros(5), 0

    def step(self, x, g, state):
        m, v, k = state
        m, v, k = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2, k + 1
        return x - LR * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8), (m, v, k)


class Yogi:
    """FedYogi's server, in NumPy."""

    def start(self):
        return np.zeros(5), np.full(5, 1e-6)

    def step(self, x, g, state):
        m, v = state
        m, v = 0.9 * m + 0.1 * g, v - 0.01 * g**2 * np.sign(v - g**2)
        return x - SERVER_LR * m / (np.sqrt(v) + 1e-3), (m, v)


def fedopt(cohort, x, memory, clients):
    def trained(i):
        y, state = x, Adam().start()
        for _ in range(STEPS):
            y, state = Adam().step(y, cohort.grad(i, y), state)
        return y

    return Yogi().step(x, x - cohort.mean(trained), Yogi().start() if memory is None else memory)


def mime(cohort, x, memory, clients, lite):
    memory = Adam().start() if memory is None else memory
    gradient = cohort.mean(lambda i: cohort.grad(i, x))

    def trained(i):
        y = x
        for _ in range(STEPS):
            g = cohort.grad(i, y)
            y, _ = Adam().step(y, g if lite else g - cohort.grad(i, x) + gradient, memory)
        return y

    return cohort.mean(trained), Adam().step(x, gradient, memory)[1]


def fedspeed(cohort, x, memory, clients, gamma=0.4, radius=0.2, alpha=0.7):
    def trained(i):
        y, h = x, clients.get(i, np.zeros(5))
        for _ in range(STEPS):
            g = cohort.grad(i, y)
            ahead = cohort.grad(i, y + radius * g / np.linalg.norm(g))
            y = y - LR * ((1 - alpha) * g + alpha * ahead - h + (y - x) / gamma)
        clients[i] = h - (y - x) / gamma
        return y - gamma * clients[i]

    return cohort.mean(trained), None


def fedlamb(cohort, x, memory, clients, decay=0.1):
    memory = np.zeros(5) if memory is None else memory

    def trained(i):
        y, (m, v) = x, clients.get(i, (np.zeros(5), np.zeros(5)))
        for _ in range(STEPS):
            g = cohort.grad(i, y)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            p = m / (np.sqrt(memory) + 1e-8) + decay * y
            y = y - LR * (np.linalg.norm(y) or 1.0) * p / np.linalg.norm(p)
        clients[i] = m, v
        return y

    x = cohort.mean(trained)
    return x, np.maximum(memory, cohort.mean(lambda i: clients[i][1]))


# What each is made with, its program, and the vectors down and up and the queries of one client in one round.
KINDS = {
    "FedOpt": ({"optimiser": o.Adam(LR), "server_optimiser": o.FedYogi(SERVER_LR)}, fedopt, (1, 1, STEPS)),
    "MimeLite": ({"optimiser": o.Adam(LR)}, partial(mime, lite=True), (3, 2, STEPS + 1)),
    "Mime": ({"optimiser": o.Adam(LR)}, partial(mime, lite=False), (5, 2, 2 * STEPS + 1)),
    "FedSpeed": ({"optimiser": SGD, "gamma": 0.4, "radius": 0.2, "alpha": 0.7}, fedspeed, (1, 1, 2 * STEPS)),
    "FedLamb": ({"lr": LR, "weight_decay": 0.1}, fedlamb, (2, 2, STEPS)),
}


def solver(kind, **options) -> t.CohortSolver:
    """Return the cohort solver that the algorithm of this kind makes."""
    return t.solvers.AsCohortSolver(getattr(t, kind)(t.Full(), **options))


every_kind = pytest.mark.parametrize("kind", KINDS)
TIGHT = {"rtol": 1e-6, "atol": 1e-7}


def drawn(sampler):
    """The ids and the weights of each round's clients, lambda_i and lambda_i / p_i."""
    for number in range(1, ROUNDS + 1):
        cohort = sampler.bind(problem().population).draw(None, Seeds.of(SEED).draw(number, 0), problem().population)
        here = np.asarray(cohort.active)
        yield np.asarray(cohort.ids)[here].tolist(), np.asarray(cohort.share)[here], np.asarray(cohort.weight)[here]


@pytest.mark.tiers(quick=[], longer=["MimeLite-scheduled"], slow=["FedOpt-steady", "FedSpeed-steady", "FedLamb-scheduled"])
@pytest.mark.parametrize(("kind", "way"), [*product(KINDS, ["steady", "scheduled", "scheduled on nodes"])])
def test_an_algorithm_is_its_numpy_program_and_pays_for_all_of_it(kind, way, monkeypatch):
    """With a schedule too, which changes the clients' steps alone."""
    rate, engine = None if way == "steady" else 0.5, "nodes" if way.endswith("nodes") else "compiled"
    options, program, (down, up, queries) = KINDS[kind]
    schedule = None if rate is None else t.schedules.Exponential(rate)
    algorithm = getattr(t, kind)(t.Nice(SIZE), steps=STEPS, schedule=schedule, **options)
    x, memory, clients, lr = np.zeros(5), None, {}, LR
    for number, (ids, shares, _) in enumerate(drawn(t.Nice(SIZE))):
        monkeypatch.setitem(globals(), "LR", lr * (rate or 1.0) ** number)
        x, memory = program(Cohort(ids, shares), x, memory, clients)
    trace = t.run(algorithm, problem(), rounds=ROUNDS, seed=SEED, engine=engine)
    np.testing.assert_allclose(trace.x, x, **TIGHT)
    totals = trace.ledger.totals()
    assert (totals["vectors_down"], totals["vectors_up"]) == (ROUNDS * SIZE * down, ROUNDS * SIZE * up)
    assert totals["queries_total"] == ROUNDS * SIZE * queries


@pytest.mark.tiers(quick=[], longer=["Mime"])
@every_kind
def test_a_cohort_solver_is_its_numpy_program(kind):
    """With weights lambda_i / p_i that do not sum to one, and everything begun anew with each cohort."""
    options, program, _ = KINDS[kind]
    sampler, gamma = t.Independent(probability=0.5), 2.0
    x = np.zeros(5)
    for ids, _, weights in drawn(sampler):
        y, memory, clients = x, None, {}
        for _ in range(2 if ids else 0):
            y, memory = program(Cohort(ids, weights, x, 1 / (gamma * np.sum(weights))), y, memory, clients)
        x = y
    trace = t.run(t.Sppm(sampler, solver(kind, steps=STEPS, **options), gamma, inner=2), problem(), rounds=ROUNDS, seed=SEED)
    np.testing.assert_allclose(trace.x, x, **TIGHT)


@pytest.mark.tiers(quick=[], slow=["FedLamb"])
@pytest.mark.parametrize("kind", ["FedSpeed", "FedLamb"])
def test_a_client_first_heard_late_begins_anew_with_its_cohort_too(kind):
    """Replies are lost, so that a client may have last been heard about an earlier cohort."""
    options, program, _ = KINDS[kind]
    sampler, gamma, faults, x = t.Nice(SIZE), 2.0, t.Faults(0.5, "skip"), np.zeros(5)
    for number, (ids, _, weights) in enumerate(drawn(sampler), start=1):
        y, memory, clients = x, None, {}
        for k in range(3):
            heard = np.asarray(faults.losses(Seeds.of(SEED).fault(number, k), jnp.array(ids))) == 0
            if heard.any():
                cohort = Cohort(np.array(ids)[heard].tolist(), weights[heard], x, 1 / (gamma * np.sum(weights)))
                y, memory = program(cohort, y, memory, clients)
        x = y
    algorithm = t.Sppm(sampler, solver(kind, steps=STEPS, **options), gamma, inner=3)
    trace = t.run(algorithm, problem(), rounds=ROUNDS, seed=SEED, faults=faults)
    np.testing.assert_allclose(trace.x, x, **TIGHT)


@pytest.mark.longer
def test_descent_is_its_numpy_program():
    sampler, gamma, x = t.Independent(probability=0.5), 2.0, np.zeros(5)
    for ids, _, weights in drawn(sampler):
        y, state = x, Adam().start()
        for _ in range(3):
            slope = sum((w * client_gradient(problem(), i, y) for i, w in zip(ids, weights, strict=True)), np.zeros(5))
            y, state = Adam().step(y, slope + (y - x) / gamma, state)
        x = y
    trace = t.run(
        t.Sppm(sampler, t.solvers.FirstOrder(optimiser=o.Adam(LR)), gamma, inner=3), problem(), rounds=ROUNDS, seed=SEED
    )
    np.testing.assert_allclose(trace.x, x, **TIGHT)


def diagonal_quadratic() -> t.Problem:
    """Six clients with diagonal Hessians, of which one product with signs shows all."""
    generator = np.random.default_rng(5)
    scales = np.exp(generator.normal(size=(6, 4)))
    return t.Quadratic.of(np.einsum("ni,ij->nij", scales, np.eye(4)), generator.normal(size=(6, 4)))


def proximal_point(q, gamma):
    matrices, vectors = (part.mean(0) for part in q.rows)
    return np.linalg.solve(matrices + np.eye(len(vectors)) / gamma, vectors)


@pytest.mark.tiers(longer=["Oasis", "Apollo"])
@pytest.mark.parametrize("optimiser", [o.Oasis(0.01), o.Apollo(0.3), o.Sgd(0.3, momentum=0.5)], ids=lambda o: type(o).__name__)
def test_descent_reaches_the_proximal_point(optimiser):
    q = diagonal_quadratic()
    trace = t.run(t.Sppm(t.Full(), t.solvers.FirstOrder(optimiser=optimiser), 2.0, inner=300), q, rounds=1)
    np.testing.assert_allclose(trace.x, proximal_point(q, 2.0), atol=1e-8)
    two = isinstance(optimiser, o.Oasis)
    assert trace.ledger.totals()["vectors_up"] == 6 * 300 * (1 + two)
    assert trace.ledger.totals()["queries_total"] == 6 * 300 * (1 + two)


def test_descent_knows_when_it_is_there():
    q, gamma = diagonal_quadratic(), 2.0
    trace = t.run(t.Sppm(t.Full(), t.solvers.FirstOrder(optimiser=SGD), gamma, inner="auto", accuracy=1e-6), q, rounds=1)
    assert np.sum((trace.x - proximal_point(q, gamma)) ** 2) <= 1e-6
    assert 1 < trace.ledger.totals()["exchanges"] < 1000


@pytest.mark.slow
def test_mimes_and_fedspeeds_fixed_point_is_the_minimiser():
    """Unlike that of local descent: clients that differ do not pull x away from where they all agree."""
    q = t.Quadratic.random(6, 4, seed=1)
    mean = [part.mean(0) for part in q.rows]
    best = np.linalg.solve(*mean)
    for algorithm in (
        t.Mime(t.Full(), optimiser=o.Sgd(0.02), steps=4),
        t.FedSpeed(t.Full(), optimiser=o.Sgd(0.05), gamma=0.2, radius=0.0, steps=30),
    ):
        np.testing.assert_allclose(t.run(algorithm, q, rounds=300).x, best, atol=1e-6)
    away = t.run(t.FedOpt(t.Full(), optimiser=o.Sgd(0.02), server_optimiser=o.Sgd(1.0), steps=4), q, rounds=300).x
    assert np.linalg.norm(away - best) > 1e-3


@pytest.mark.longer
def test_fedspeeds_second_derivatives_are_of_all_that_its_steps_descend():
    """One step of OASIS, scaled by the whole diagonal of the Hessian, that of the prox included, lr = 1: the minimiser."""
    q, gamma = diagonal_quadratic(), 0.2
    algorithm = t.FedSpeed(t.Full(), optimiser=o.Oasis(1.0, adaptive=False), gamma=gamma, radius=0.0, steps=1)
    matrices, vectors = q.rows
    y = np.linalg.solve(matrices + np.eye(4) / gamma, vectors[..., None])[..., 0]
    # From x = 0 and h = 0, so that y - gamma h is twice y.
    np.testing.assert_allclose(t.run(algorithm, q, rounds=1).x, 2 * y.mean(0), atol=1e-12)


@pytest.mark.slow
def test_fedopt_with_a_plain_server_is_fedavg():
    one = t.run(t.FedAvg(t.Nice(4), lr=LR, steps=[1, 2, 3] * 4), problem(), rounds=3)
    two = t.run(t.FedOpt(t.Nice(4), optimiser=SGD, server_optimiser=o.Sgd(1.0), steps=[1, 2, 3] * 4), problem(), rounds=3)
    np.testing.assert_allclose(one.x, two.x, atol=1e-12)
    assert one.ledger.totals() == two.ledger.totals()


@pytest.mark.longer
def test_steps_on_random_batches_are_a_numpy_program():
    p, seeds, x = logistic(), Seeds.of(SEED), np.zeros(5)
    weights = p.population.weights / p.population.weights.sum()
    for number in range(1, 4):
        change = np.zeros(5)
        for i, size in enumerate(p.sizes.tolist()):
            features, labels = (part[p.offsets[i] : p.offsets[i + 1]] for part in p.rows)
            key, y = jax.random.fold_in(seeds.exchange(number, 0), i), x
            for k in range(2):
                rows = np.asarray(jax.random.randint(jax.random.fold_in(key, k), (4,), 0, size, "int32"))
                a, b = features[rows], labels[rows]
                y = y - LR * (a.T @ (-b / (1 + np.exp(b * (a @ y)))) / 4 + p.mu * y)
            change += weights[i] * (y - x)
        x = x + change
    np.testing.assert_allclose(t.run(t.FedAvg(t.Full(), lr=LR, batch=4, steps=2), p, rounds=3, seeds=seeds).x, x, atol=1e-12)


@pytest.mark.slow
def test_the_local_solver_takes_steps_of_any_optimiser_on_batches():
    """x <- mean of w_i, each after two passes of FedYogi on f_i + |. - x|^2 / (2 gamma), in NumPy."""
    p, seeds, gamma, x = logistic(), Seeds.of(SEED), 0.5, np.zeros(5)
    for number in range(1, 3):
        found = []
        for i, size in enumerate(p.sizes.tolist()):
            features, labels = (part[p.offsets[i] : p.offsets[i + 1]] for part in p.rows)
            key, w, state = jax.random.fold_in(seeds.exchange(number, 0), i), x, Yogi().start()
            for epoch in range(2):
                order = order_of(jax.random.fold_in(key, epoch), size)
                for begin in range(0, size, 7):
                    a, b = features[order[begin : begin + 7]], labels[order[begin : begin + 7]]
                    g = a.T @ (-b / (1 + np.exp(b * (a @ w)))) / len(b) + p.mu * w + (w - x) / gamma
                    w, state = Yogi().step(w, g, state)
            found.append(w)
        weights = p.population.weights / p.population.weights.sum()
        x = weights @ np.array(found)
    yogi = client_solvers.Stochastic(o.FedYogi(SERVER_LR), batch=7, epochs=2)
    oasis = replace(yogi, optimiser=o.Oasis(0.01, adaptive=False))
    trace = t.run(t.FedProxSppm(t.Full(), gamma, 1, solver=yogi), p, rounds=2, seeds=seeds)
    np.testing.assert_allclose(trace.x, x, atol=1e-10)
    twice = t.run(t.FedProxSppm(t.Full(), gamma, 1, solver=oasis), p, rounds=2)
    assert twice.ledger.totals()["queries_total"] == 2 * trace.ledger.totals()["queries_total"]


@pytest.mark.slow
def test_networks_learn_from_random_batches_and_products_with_their_hessians():
    optimiser = o.Oasis(0.02, alpha=0.1, adaptive=False)
    fedopt = solver("FedOpt", optimiser=optimiser, server_optimiser=o.Sgd(1.0), batch=8, steps=3)
    trace = t.run(t.Sppm(t.Nice(3), fedopt, gamma=5.0, inner=3), network(), rounds=8)
    assert trace.columns["value"][-1] < 0.7 * trace.columns["value"][0]
    assert trace.ledger.totals()["queries_total"] == 8 * 3 * 3 * 3 * 2


CONFIGURED = """
[problem]
kind = "ridge"
data = "a9a"

[split]
kind = "iid"
clients = 10

[sampler]
kind = "nice"
size = 3

[algorithm]
"""


def test_a_configuration_nests_optimisers(tmp_path):
    file = tmp_path / "made.toml"
    file.write_text(
        CONFIGURED
        + 'kind = "sppm"\ngamma = 1.0\nsolver = { kind = "fedopt", steps = 3, optimiser = { kind = "adagrad", lr = 0.1 }, '
        + 'server_optimiser = { kind = "fedadam", lr = 0.1, clip = 2.0 } }\n'
    )
    experiment = read(file)
    optimisers = {"optimiser": o.Adagrad(0.1), "server_optimiser": o.FedAdam(0.1, clip=2.0)}
    assert experiment.algorithm.solver == solver("FedOpt", steps=3, **optimisers)
    (tmp_path / "again.toml").write_text(experiment.to_toml())
    assert read(tmp_path / "again.toml").algorithm == experiment.algorithm
    optimisers["optimiser"] = o.Adagrad(0.2)
    assert set_leaves(experiment.algorithm, {"solver.optimiser.lr": 0.2}).solver == solver("FedOpt", steps=3, **optimisers)
    file.write_text(file.read_text().replace("steps = 3", "schedule = 3"))
    with pytest.raises(t.UserError, match="unknown key 'schedule'"):
        read(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'kind = "fedopt"\noptimiser = { kind = "sgd", lr = 0.1 }\nserver_optimiser = "oasis"',
            "unknown server_optimiser kind 'oasis'",
        ),
        ('kind = "mime"\noptimiser = "adam"', "lr is missing: give it a value"),
        ('kind = "mime"', r"table \[optimiser\] needs a kind"),
    ],
)
def test_a_mistake_about_an_optimiser_is_one_sentence(tmp_path, text, words):
    (tmp_path / "made.toml").write_text(CONFIGURED + text)
    with pytest.raises(t.UserError, match=words):
        read(tmp_path / "made.toml")


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (lambda: t.Mime(t.Nice(2), optimiser=o.Oasis(0.1)), "first-order optimiser, which Oasis is not"),
        (lambda: t.FedOpt(t.Nice(2), optimiser=SGD, server_optimiser=o.Oasis(0.1)), "a server has no Hessian"),
        (lambda: t.FedLamb(t.Nice(2), lr=0.1, steps=2, epochs=1), "takes either steps"),
        (lambda: t.FedLamb(t.Nice(2), lr=0.1, steps=[1, 2]), "a list of 12, one for each client"),
        (
            lambda: t.Sppm(t.Nice(2), solver("Mime", optimiser=SGD), 1.0, inner="auto", accuracy=0.1),
            "does not go with AsCohortSolver",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(algorithm, words):
    with pytest.raises(t.UserError, match=words):
        t.run(algorithm(), problem(), rounds=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda oasis: t.FedOpt(t.Nice(2), optimiser=oasis, server_optimiser=SGD),
        lambda oasis: t.FedSpeed(t.Nice(2), optimiser=oasis, gamma=0.5),
        lambda oasis: t.Sppm(t.Nice(2), t.solvers.FirstOrder(optimiser=oasis), 1.0),
        lambda oasis: t.FedProxSppm(t.Nice(2), 1.0, solver=client_solvers.Stochastic(oasis, 4, 1)),
    ],
)
def test_second_derivatives_are_asked_for_only_where_there_are_some(make):
    @t.record
    class Rough(t.Quadratic):
        """A problem without Hessians."""

        twice_differentiable = False

    with pytest.raises(t.UserError, match="optimiser Oasis needs second derivatives: Rough has none"):
        t.run(make(o.Oasis(0.1)), Rough.of(*quadratic().rows), rounds=1)
