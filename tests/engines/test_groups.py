"""Groups of leaves: the same runs as by hand in NumPy, bytes by hand, and what does not go together."""

from functools import partial

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.centred import CLIENTS, DIMENSION, MOMENTUM, centred
from tests.helpers.fetched import as_fetched
from turnout.core.errors import Caution
from turnout.data import IidSplit, load

pytestmark = pytest.mark.filterwarnings("ignore:a client takes part")

LR, OWN_LR, STEPS, ROUNDS = 0.1, 0.2, 2, 3


def rows(i):
    problem = centred()
    part = slice(*problem.offsets[i : i + 2])
    return tuple(np.asarray(leaf[part]) for leaf in problem.rows)


def whole_gradient(i, x):
    """The gradient of the loss of client i in training, on all of its rows, and the running mean after this pass."""
    features, targets = rows(i)
    mean = features.mean(0)
    errors = (features - mean) @ x["weight"] + x["bias"] - targets
    slopes = {"weight": (features - mean).T @ errors / len(targets) + 0.1 * x["weight"], "bias": errors.mean() + 0.1 * x["bias"]}
    return slopes, x["running_mean"] + MOMENTUM * (mean - x["running_mean"])


def value(i, x):
    features, targets = rows(i)
    errors = (features - x["running_mean"]) @ x["weight"] + x["bias"] - targets
    return errors @ errors / (2 * len(targets)) + 0.05 * (x["weight"] @ x["weight"] + x["bias"] ** 2)


def by_hand(personal=(), frozen=(), trained="before"):
    """Federated averaging of everyone with leaves that stay: the models of all clients after the last round."""
    first = {name: np.asarray(leaf) for name, leaf in centred().start(None).items()}
    server = {name: leaf for name, leaf in first.items() if name not in personal}
    own = [{name: first[name] for name in personal} for _ in range(CLIENTS)]
    for _ in range(ROUNDS):
        ends = []
        for i in range(CLIENTS):
            x = server | own[i]
            for _ in range(3 if personal and trained == "before" else 0):
                slopes, mean = whole_gradient(i, x)
                x = x | {"bias": x["bias"] - OWN_LR * slopes["bias"], "running_mean": mean}
            for _ in range(STEPS):
                slopes, mean = whole_gradient(i, x)
                rates = {name: LR if name not in personal else OWN_LR * (trained == "within") for name in slopes}
                x = x | {name: x[name] - rates[name] * slopes[name] for name in slopes if name not in frozen}
                x = x | {"running_mean": mean}
            own[i] = {name: x[name] for name in personal}
            ends.append({name: x[name] for name in server})
        server = {name: np.mean([end[name] for end in ends], axis=0) for name in server}
    for i in range(CLIENTS if trained == "after" else 0):
        for _ in range(3):
            slopes, _ = whole_gradient(i, server | own[i])
            own[i] = {name: own[i][name] - OWN_LR * slopes[name] for name in own[i]}
    return [server | leaves for leaves in own]


CASES = {
    "statistics": ((), {}),
    "frozen": ((t.Frozen("bias"),), {"frozen": ("bias",)}),
    "before": ((t.Personal("bias", lr=OWN_LR, steps=3),), {"personal": ("bias",)}),
    "within": ((t.Personal("bias", lr=OWN_LR, trained="within"),), {"personal": ("bias",), "trained": "within"}),
    "after": ((t.Personal("bias", lr=OWN_LR, steps=3, trained="after"),), {"personal": ("bias",), "trained": "after"}),
    "own-statistics": ((t.Personal(["bias", "running_mean"], lr=OWN_LR, steps=3),), {"personal": ("bias", "running_mean")}),
}


def played(*groups, rounds=ROUNDS, **options):
    algorithm = t.FedAvg(t.Full(), lr=LR, steps=STEPS)
    return t.run(algorithm, t.Grouped.of(centred(), *groups), **{"rounds": rounds, "metrics": ("value",), **options})


@pytest.mark.tiers(quick=["before-compiled"], longer=["within-compiled", "own-statistics-compiled"], slow=["after-compiled"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize("name", CASES)
def test_a_run_is_the_one_by_hand(name, engine):
    groups, hand = CASES[name]
    trace, models = played(*groups, engine=engine), by_hand(**hand)
    for i, model in enumerate(models):
        for leaf, expected in model.items():
            np.testing.assert_allclose(trace.model(i)[leaf], expected, rtol=1e-12, err_msg=f"{leaf} of client {i}")
    np.testing.assert_allclose(trace.metrics["value"], np.mean([value(i, model) for i, model in enumerate(models)]), rtol=1e-12)
    np.testing.assert_allclose(trace.clients["loss"], [value(i, model) for i, model in enumerate(models)], rtol=1e-12)
    personal = hand.get("personal", ())
    first = centred().start(None)
    for leaf in first:
        assert np.array_equal(trace.x[leaf], first[leaf]) == (leaf in (*personal, *hand.get("frozen", ())))


@pytest.mark.tiers(longer=["statistics", "frozen", "before"])
@pytest.mark.parametrize("name", CASES)
def test_bytes_are_those_of_shared_leaves_and_averaged_statistics(name):
    groups, hand = CASES[name]
    numbers = {"weight": DIMENSION, "bias": 1, "running_mean": DIMENSION}
    stay = (*hand.get("personal", ()), *hand.get("frozen", ()))
    bytes = 8 * sum(count for leaf, count in numbers.items() if leaf not in stay)
    totals = played(*groups, rounds=2).ledger.totals()
    assert totals["bytes_up"] == totals["bytes_down"] == 2 * CLIENTS * bytes
    steps = STEPS + (3 if hand.get("personal") and "trained" not in hand else 0)
    assert totals["queries_total"] == 2 * CLIENTS * steps


@pytest.mark.longer
def test_with_personal_leaves_at_their_best_replies_are_gradients_of_the_partial_minimum():
    """grad_x min_h F_i(x, h) = grad_x F_i(x, argmin_h F_i(x, h)): the step of gradient descent is along its mean."""
    trace = t.run(
        t.Gd(t.Full(), lr=1.0), t.Grouped.of(centred(), t.Personal("bias", lr=0.9, steps=200)), rounds=1, metrics=("value",)
    )
    weight, slopes = np.asarray(centred().start(None)["weight"]), []
    for i in range(CLIENTS):
        features, targets = rows(i)
        centred_features = features - features.mean(0)

        def minimum(w, a=centred_features, b=targets):
            residual = a @ w - b
            bias = -residual.mean() / 1.1
            return np.mean((residual + bias) ** 2) / 2 + 0.05 * (w @ w + bias**2)

        steps = 1e-6 * np.eye(DIMENSION)
        slopes.append([(minimum(weight + step) - minimum(weight - step)) / 2e-6 for step in steps])
    np.testing.assert_allclose(weight - np.asarray(trace.x["weight"]), np.mean(slopes, axis=0), rtol=1e-6)


@pytest.mark.longer
def test_clients_that_never_took_part_begin_anew_and_train_as_long_as_they_are_told():
    for new in (0, 4):
        personal = t.Personal(["bias", "running_mean"], lr=OWN_LR, steps=3, new=new)
        trace = played(personal, held_out=centred(), metrics=("held_out_value",))
        expected = []
        for i in range(CLIENTS):
            x = {name: np.asarray(leaf) for name, leaf in trace.x.items()}
            for _ in range(new):
                slopes, mean = whole_gradient(i, x)
                x = x | {"bias": x["bias"] - OWN_LR * slopes["bias"], "running_mean": mean}
            features, targets = rows(i)
            errors = (features - x["running_mean"]) @ x["weight"] + x["bias"] - targets
            expected.append((errors @ errors / 2, len(targets)))
        losses, counts = np.array(expected).T
        np.testing.assert_allclose(trace.metrics["held_out_value"], losses.sum() / counts.sum(), rtol=1e-12)


@pytest.mark.longer
def test_each_client_tests_its_own_model():
    trace = played(t.Personal("bias", lr=OWN_LR), test=centred(), metrics=("test_value",))
    models = [trace.model(i) for i in range(CLIENTS)]
    expected = [value(i, x) - 0.05 * (x["weight"] @ x["weight"] + x["bias"] ** 2) for i, x in enumerate(models)]
    np.testing.assert_allclose(trace.metrics["test_value"], np.mean(expected), rtol=1e-12)
    for number in (-1, CLIENTS):
        with pytest.raises(t.UserError, match=f"there is no client {number}: the run has clients 0 to {CLIENTS - 1}"):
            trace.model(number)


@pytest.mark.tiers(quick=[], slow=["1-after", "2-before"])
@pytest.mark.parametrize("trained", ["before", "after"])
@pytest.mark.parametrize("mesh", [1, 2])
def test_test_rows_go_with_clients_on_a_mesh_and_on_disk(mesh, trained):
    problems = [centred()] if mesh > 1 else [centred(), as_fetched(centred())]
    personal = t.Personal(["bias", "running_mean"], lr=OWN_LR, batch=2, trained=trained)
    algorithm = t.FedAvg(t.Full(), lr=LR, steps=STEPS)
    expected = played(personal, test=centred(), metrics=("test_value",)).metrics["test_value"]
    for problem in problems:
        grouped = t.Grouped.of(problem, personal)
        trace = t.run(algorithm, grouped, rounds=ROUNDS, test=centred(), metrics=("value", "test_value"), mesh=mesh)
        np.testing.assert_allclose(trace.metrics["test_value"], expected, rtol=1e-12)
        models = [trace.model(i) for i in range(CLIENTS)]
        own = [value(i, x) - 0.05 * (x["weight"] @ x["weight"] + x["bias"] ** 2) for i, x in enumerate(models)]
        np.testing.assert_allclose(np.mean(own), expected, rtol=1e-12)


@pytest.mark.slow
def test_problems_as_clients_of_their_own_give_the_same_run():
    """Each trains in the mode of its problem, and its statistics are averaged."""
    clients = [centred().client(i) for i in range(CLIENTS)]
    remote = t.Remote.of(centred().start(None), clients)
    algorithm = t.FedAvg(t.Nice(3), lr=LR, steps=STEPS)
    groups = (t.Personal("bias", lr=OWN_LR),)
    one, other = (
        t.run(algorithm, t.Grouped.of(problem, *groups), rounds=4, engine="nodes", metrics=("value",))
        for problem in (centred(), remote)
    )
    for left, right in zip(*(jax.tree.leaves((trace.x, trace.columns)) for trace in (one, other)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)
    for i in range(CLIENTS):
        np.testing.assert_allclose(one.model(i)["bias"], other.model(i)["bias"], rtol=1e-12)


@pytest.mark.slow
def test_a_loss_in_numpy_has_groups_too():
    """Least squares of two leaves, one of which is personal, equal to the same problem in JAX."""
    generator = np.random.default_rng(0)
    parts = [(generator.normal(size=(5, 2)), generator.normal(size=5)) for _ in range(3)]

    def client(i):
        features, targets = parts[i]

        def errors(x, rows):
            return features[rows] @ x["weight"] + x["bias"] - targets[rows]

        def gradient(x, rows):
            return {"weight": features[rows].T @ errors(x, rows) / len(targets[rows]), "bias": np.mean(errors(x, rows))}

        return t.NumpyOracle(lambda x, rows: np.mean(errors(x, rows) ** 2) / 2, gradient, size=5)

    @t.record
    class Same(t.Problem):
        def losses(self, x, rows):
            return (rows[0] @ x["weight"] + x["bias"][None] - rows[1]) ** 2 / 2

        def start(self, key):
            return {"weight": jax.numpy.zeros(2), "bias": jax.numpy.zeros(())}

    rows = tuple(np.concatenate([part[k] for part in parts]) for k in range(2))
    same = Same(rows, np.arange(4) * 5, t.Population(count=3))
    remote = t.Remote.of({"weight": np.zeros(2), "bias": np.zeros(())}, [client(i) for i in range(3)])
    for trained in ("before", "within", "after"):
        personal = t.Personal("bias", lr=OWN_LR, trained=trained)
        one, other = (
            t.run(
                t.FedAvg(t.Full(), lr=LR),
                t.Grouped.of(problem, personal),
                rounds=4,
                engine="nodes",
                metrics=("value", "gradient"),
            )
            for problem in (same, remote)
        )
        for left, right in zip(*(jax.tree.leaves((trace.x, trace.columns)) for trace in (one, other)), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)


COMPRESSED = {
    "top-k": t.Exchange(up=t.codecs.TopK(count=2), down=t.codecs.Identity(), feedback="ef14"),
    "qsgd": t.Exchange(up=t.codecs.Qsgd(bits=4)),
}


@pytest.mark.tiers(quick=[], slow=["top-k"])
@pytest.mark.parametrize("name", COMPRESSED)
def test_statistics_are_sent_as_they_are_beside_what_is_compressed(name):
    runs = [played(exchange=COMPRESSED[name], engine=engine) for engine in ("compiled", "nodes")]
    for left, right in zip(*(jax.tree.leaves((trace.x, trace.columns)) for trace in runs), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-11, atol=1e-12)
    # Without gradients of its own, the running mean is that of an exact run.
    np.testing.assert_allclose(runs[0].x["running_mean"], played().x["running_mean"], rtol=1e-12)


@pytest.mark.tiers(quick=[], slow=["average-encrypted"])
@pytest.mark.parametrize("aggregation", ["sum", "encrypted"])
@pytest.mark.parametrize("algorithm", [t.FedAvg(t.Nice(3), lr=0.1), t.MbGd(t.Nice(3), lr=0.1)], ids=["mean", "average"])
def test_sums_of_statistics_are_their_means(algorithm, aggregation):
    """The weights of the one sum that the server gets are lambda_i for a mean, and lambda_i / p_i for an average."""
    problem = t.Grouped.of(centred(), t.Personal("bias", lr=OWN_LR))
    one, other = (
        t.run(algorithm, problem, rounds=2, engine="nodes", aggregation=how, metrics=("value",)) for how in ("plain", aggregation)
    )
    tolerance = 1e-12 if aggregation == "sum" else 1e-5
    for name in one.x:
        np.testing.assert_allclose(other.x[name], one.x[name], rtol=tolerance, atol=tolerance)


SILENT = 1
"""A seed with which all replies are lost."""


@pytest.mark.longer
def test_statistics_stay_where_nobody_answers():
    trace = played(faults=t.Faults(0.9, "skip"), rounds=1, seed=SILENT)
    assert trace.ledger.totals()["aggregated"] == 0 and not np.any(trace.x["running_mean"])


SEARCHES = {
    "newton-cg": t.client_solvers.NewtonCg(),
    "bfgs": t.client_solvers.Bfgs(),
    "sgd": t.client_solvers.Sgd(lr=0.1, batch=2, epochs=1),
}


@pytest.mark.tiers(quick=[], longer=["bfgs"])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_minimises_one_function_and_moves_statistics_at_its_end(name):
    """Passes of batches move statistics with each step; other searches once, for one more query."""
    trace = t.run(t.FedProxSppm(t.Full(), gamma=1.0, solver=SEARCHES[name]), centred(), rounds=1, metrics=("value",))
    means = [rows(i)[0].mean(0) for i in range(CLIENTS)]
    once = np.mean([MOMENTUM * mean for mean in means], axis=0)
    assert np.allclose(trace.x["running_mean"], once, rtol=1e-12) == (name != "sgd")


@pytest.mark.slow
def test_a_search_within_a_cohorts_problem_moves_statistics_at_its_end_too():
    """The client of the proximal function lets the one inside end its search."""
    solver = t.solvers.AsCohortSolver(t.FedProxSppm(t.Full(), gamma=1.0, solver=t.client_solvers.Bfgs()))
    trace = t.run(t.Sppm(t.Full(), solver, gamma=1.0), centred(), rounds=1, metrics=("value",))
    assert np.all(trace.x["running_mean"])


@t.record
class RawLoop(t.Algorithm):
    sampler: t.Sampler

    def round(self, ask, x):
        return ask(self.sampler, self.train, x).mean()

    @t.on_client
    def train(self, client, x):
        return jax.lax.fori_loop(0, 2, lambda _, y: client.step(y, -0.1), x)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", [1, 2])
def test_the_cells_of_a_sweep_are_the_runs(mesh):
    """Each seed draws all leaves of its own model, frozen and personal ones too."""
    data = load("digits")
    problem = t.Network.of(data, IidSplit(clients=4).split(data), hidden=3)
    groups = t.Frozen("hidden.weight"), t.Personal("output.bias", lr=0.2)
    algorithm, grouped = t.FedAvg(t.Nice(2), lr=0.1), t.Grouped.of(problem, *groups)
    swept = t.sweep(algorithm, grouped, {"lr": [0.1, 0.3]}, rounds=4, every=4, seeds=(0, 5), mesh=mesh)
    for cell, trace in zip(swept.cells, swept.traces, strict=True):
        one = t.run(t.FedAvg(t.Nice(2), **cell.settings), grouped, rounds=4, every=4, seed=cell.seed)
        for left, right in zip(*(jax.tree.leaves((run.x, run.columns)) for run in (trace, one)), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-11, atol=1e-12)
    assert not np.array_equal(swept.traces[0].x["hidden"]["weight"], swept.traces[1].x["hidden"]["weight"])


BAD = {
    "nothing": (lambda: t.Grouped.of(centred(), t.Frozen("biass")), "Frozen 'biass' is no part of the model, which has"),
    "everything": (lambda: t.Grouped.of(centred(), t.Frozen("*")), "leave no parameter that is shared"),
    "twice": (lambda: t.Grouped.of(centred(), t.Frozen("bias"), t.Personal("b*", lr=0.1)), "bias is both Frozen and Personal"),
    "two": (lambda: t.Grouped.of(centred(), *[t.Personal("bias", lr=0.1)] * 2), "two groups are Personal"),
    "group": (lambda: t.Grouped.of(centred(), "bias"), "groups are Personal, Frozen or Adapter"),
    "new": (lambda: t.Personal("bias", lr=0.1, trained="after", new=2), "make `steps` steps at new clients too: leave new out"),
    "privacy": (
        lambda: t.run(
            t.FedAvg(t.Nice(3), lr=0.1), centred(), rounds=1, privacy=t.Privacy(clip=1.0, noise_multiplier=1.0, delta=1e-5)
        ),
        "statistics such as running_mean would tell of rows",
    ),
    "test": (lambda: played(t.Personal("bias", lr=0.1), test=centred().client(0), metrics=("test_value",)), "test problem has 1"),
    "raw-loop": (
        lambda: t.run(RawLoop(t.Full()), centred(), rounds=1, metrics=("value",)),
        "train takes gradients in a loop of JAX, where statistics and personal leaves do not move",
    ),
    "start": (lambda: played(start={"weight": np.zeros(DIMENSION)}), "holds another architecture"),
    "optimum": (lambda: played(metrics=("gap",)), "the optimum of Grouped is not known"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told(name):
    make, sentence = BAD[name]
    with pytest.raises(t.UserError, match=sentence):
        make()


@pytest.mark.longer
def test_leaves_of_clients_that_hardly_take_part_are_told():
    with pytest.warns(Caution, match="takes part 0.5 times on average"):
        t.run(t.FedAvg(t.Nice(3), lr=0.1), t.Grouped.of(centred(), t.Personal("bias", lr=0.1)), rounds=1, metrics=("value",))


@pytest.mark.longer
def test_a_run_starts_from_all_leaves_of_another():
    first = played(t.Frozen("bias"), rounds=1)
    again = played(t.Frozen("bias"), rounds=0, start=first.x | {"bias": np.array(3.0)})
    for name in ("weight", "running_mean"):
        np.testing.assert_array_equal(again.x[name], first.x[name])
    assert again.x["bias"] == 3.0
    with pytest.raises(t.UserError, match="all leaves of its model"):
        t.Grouped.of(centred()).losses(first.x, centred().rows)


def test_attributes_are_those_of_the_problem_inside():
    problem = t.Grouped.of(centred(), t.Frozen("bias"))
    assert problem.statistics == ("running_mean",) and problem.clients == CLIENTS and not problem.classifies
    assert partial(getattr, problem)("sizes").tolist() == centred().sizes.tolist()
    with pytest.raises(AttributeError):
        problem.nothing  # noqa: B018
