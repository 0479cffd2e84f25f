"""A local solver for each class of clients: each client's is its own, in both engines and from a file."""

import jax
import numpy as np
import pytest
import tomli_w

import turnout as t
from tests.client_solvers.test_client_solvers import configured, logistic, solved, tilted
from tests.helpers.duals import CLIENTS, SIZE, quadratic
from tests.helpers.federations import with_rows
from turnout import client_solvers as local
from turnout.client_solvers import LocalSolver, Solution
from turnout.experiment.config import read
from turnout.runs.setup import bind

SOLVERS = [local.NewtonCg(), local.Sgd(lr=0.1, batch=2, epochs=2), local.Gradient(steps=50)]
CLASSES = [0, 1, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("delta", [pytest.param(None, marks=pytest.mark.slow), 0.1])
def test_each_client_finds_what_its_own_solver_finds(delta):
    """Points, queries and misses, though not every solver knows a gradient to certify by; the clients' rows are in tiles."""
    known = tilted((4, 5), weight=0.5), np.ones((4, 5)), delta, 0.2
    mixed = solved(logistic(), local.PerClass(SOLVERS, CLASSES), *known)
    alone = [solved(logistic(), solver, *known) for solver in SOLVERS]
    for i, k in enumerate(CLASSES):
        np.testing.assert_allclose(mixed.point[i], alone[k].point[i], atol=1e-14)
        assert (mixed.queries[i], mixed.missed[i]) == (alone[k].queries[i], alone[k].missed[i])
    assert len({*mixed.queries.tolist()}) > 2


METHODS = {
    "feddcd": lambda solver: t.FedDcd(t.Nice(SIZE), solver),
    "accfeddcd": lambda solver: t.AccFedDcd(t.Nice(SIZE), solver),
    "point-saga": lambda solver: t.PointSaga(t.Nice(SIZE), solver, 0.1),
}
SHARPLY = local.NewtonCg(tolerance=1e-11, relative=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_exact_solvers_mixed_give_the_run_of_one(method):
    """In both engines."""
    problem = quadratic()
    mixed = local.PerClass([SHARPLY, local.Gradient(steps=10**4, tolerance=1e-11)], [i % 2 for i in range(CLIENTS)])
    one = t.run(METHODS[method](SHARPLY), problem, rounds=5)
    for engine in ("compiled", "nodes"):
        trace = t.run(METHODS[method](mixed), problem, rounds=5, engine=engine)
        np.testing.assert_allclose(trace.x, one.x, atol=1e-9)
        assert trace.ledger.totals()["queries_total"] > one.ledger.totals()["queries_total"]


@pytest.mark.slow
def test_both_engines_play_the_same_inexact_run():
    """Clients with rows of their own, every second one with stochastic gradients."""
    problem = with_rows()
    solver = local.PerClass([local.NewtonCg(), local.Sgd(lr=0.1, batch=2, epochs=1)], [i % 2 for i in range(problem.clients)])
    one, other = (t.run(t.FedDcd(t.Nice(3), solver), problem, rounds=4, engine=engine) for engine in ("compiled", "nodes"))
    np.testing.assert_allclose(one.x, other.x, atol=1e-10)
    np.testing.assert_array_equal(one.columns["counts"], other.columns["counts"])


RAN = []


@t.record
class Still(LocalSolver):
    """Finds nothing, and tells who ran it, and by which `name`."""

    name: int = 0

    def minimise(self, client, tilt, start, delta=None, convexity=None):
        jax.debug.callback(lambda *ran: RAN.append((int(ran[0]), int(ran[1]))), client.id, self.name)
        return Solution(start, 1, 0)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_only_the_chosen_solver_runs(engine):
    """Where rows are held in one piece."""
    classes = [2, 0, 1, 1, 0, 2, 2, 0]
    RAN.clear()
    t.run(t.FedDcd(t.Full(), local.PerClass([Still(0), Still(1), Still(2)], classes)), quadratic(), rounds=2, engine=engine)
    jax.effects_barrier()
    assert set(RAN) == set(enumerate(classes))


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (local.PerClass([Still(), Still()], [0, 1, 0]), "needs classes of 8 clients, one number for each, but has 3"),
        (
            local.PerClass([Still(), Still()], [0, 1, 2, 0, 0, 0, 0, 0]),
            "client 2 is of class 2, but PerClass has only 2 solvers",
        ),
        (local.PerClass([local.Svrg(lr=0.1), local.Gradient()], [0] * 7), "needs classes of 8"),
    ],
)
def test_wrong_classes_are_one_sentence(solver, words):
    with pytest.raises(t.UserError, match=words):
        bind(t.FedDcd(t.Nice(SIZE), solver), quadratic())


def test_a_negative_class_is_one_sentence():
    with pytest.raises(t.UserError, match="classes must be at least 0, but entry 3 is -1"):
        local.PerClass([Still()], [0, 0, 0, -1])


ADAM = {"kind": "adam", "lr": 0.1, "batch": 8, "epochs": 2}
MIXED = {"kind": "per-class", "solvers": ["newton-cg", ADAM], "classes": [0, 1] * 5}


def test_a_configuration_names_a_solver_for_each_class(tmp_path):
    from turnout.experiment.summary import shown

    experiment = configured(tmp_path, tomli_w.dumps({"algorithm": {"solver": MIXED}}).replace("[algorithm]\n", ""))
    assert experiment.algorithm.solver == local.PerClass([local.NewtonCg(), local.Adam(0.1, 8, 2)], [0, 1] * 5)
    (tmp_path / "again.toml").write_text(experiment.to_toml())
    assert read(tmp_path / "again.toml").algorithm == experiment.algorithm
    assert [solver["kind"] for solver in shown(experiment.algorithm)["solver"]["solvers"]] == ["newton-cg", "adam"]


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        ('solvers = "newton-cg"', "line 17: algorithm.solver.solvers: solvers is a list: give each local solver by its name"),
        ("solvers = []", "solvers is a list"),
        ('solvers = ["bfgs", "newton"]', "line 17: algorithm.solver.solvers.*unknown local solver kind 'newton'"),
        ('solvers = ["bfgs", { kind = "gradient", lr = -1.0 }]', "line 17: algorithm.solver.solvers.lr: must be"),
        ('solvers = ["bfgs"], classes = [0, -1]', "line 17: algorithm.solver.classes: must be"),
    ],
)
def test_a_mistake_in_the_list_is_one_sentence(tmp_path, solver, words):
    with pytest.raises(t.UserError, match=words):
        configured(tmp_path, f'solver = {{ kind = "per-class", {solver} }}')
