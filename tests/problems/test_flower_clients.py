"""Clients of Flower, which train on their own."""

import numpy as np
import pytest

import turnout as t
from tests.vectors.turnout_runs import SEED
from turnout import vectors

VECTOR = vectors.load("fedavg")
START = np.array(VECTOR["start"]["server"]["x"])


class Descent:
    """A `NumPyClient` with rows of the vector, which makes as many gradient steps as it is asked for."""

    def __init__(self, number):
        rows = VECTOR["problem"]["clients"][number]
        self.features, self.targets, self.mu = np.array(rows["features"]), np.array(rows["targets"]), VECTOR["problem"]["mu"]

    def fit(self, parameters, config):
        (x,) = parameters
        for _ in range(config["steps"]):
            x = x - config["lr"] * (self.features.T @ (self.features @ x - self.targets) / len(self.targets) + self.mu * x)
        return [x], len(self.targets), {}

    def evaluate(self, parameters, config):
        (x,) = parameters
        loss = np.mean((self.features @ x - self.targets) ** 2) / 2 + self.mu / 2 * x @ x
        return float(loss), len(self.targets), {"accuracy": 0.5}


def app_of(client):
    """The same client as a `ClientApp`, whose parameters have a name."""
    pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def train(message, context):
        assert context.node_config == {"partition-id": 7} and context.run_config == {"depth": 2}
        (x,), count, _ = client.fit([message.content["arrays"]["x"].numpy()], message.content["config"])
        content = {"arrays": ArrayRecord({"x": Array(x)}), "metrics": MetricRecord({"num-examples": count})}
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        loss, count, metrics = client.evaluate([message.content["arrays"]["x"].numpy()], {})
        content = {"metrics": MetricRecord({"eval_loss": loss, "num-examples": count, **metrics})}
        return Message(RecordDict(content), reply_to=message)

    return app


def problem_of(form: str, **options) -> t.Remote:
    sizes = [len(client["targets"]) for client in VECTOR["problem"]["clients"]]
    if form == "NumPyClient":
        clients, start = [t.FlowerOracle(Descent(i), size) for i, size in enumerate(sizes)], [START]
    else:
        config = {"node_config": {"partition-id": 7}, "run_config": {"depth": 2}}
        clients, start = [t.FlowerOracle(app_of(Descent(i)), size, **config) for i, size in enumerate(sizes)], {"x": START}
    return t.Remote.of(start, clients, weights=sizes, **options)


def run(algorithm, problem, **options):
    return t.run(algorithm, problem, seed=SEED, rounds=3, engine="nodes", **options)


P = VECTOR["parameters"]
FEDAVG = t.FedAvg(t.Nice(2), lr=P["lr"], steps=P["local_steps"])


@pytest.mark.longer
@pytest.mark.parametrize("form", ["NumPyClient", "ClientApp"])
@pytest.mark.parametrize("algorithm", [FEDAVG, t.FedOpt(t.Nice(2), t.optimisers.Sgd(P["lr"]), t.optimisers.Sgd(1.0), steps=2)])
def test_it_plays_the_vector(form, algorithm):
    """FedOpt with a server step of 1 is FedAvg. Clients tell their own losses; their queries are not known."""
    trace = run(algorithm, problem_of(form, classifies=True), metrics=("value", "accuracy"))
    (x,) = trace.x if form == "NumPyClient" else trace.x.values()
    np.testing.assert_allclose(x, VECTOR["rounds"][-1]["server"]["x"], rtol=0, atol=VECTOR["tolerance"])
    losses = [Descent(i).evaluate([x], {})[0] for i in range(4)]
    np.testing.assert_allclose(trace.columns["value"][-1], np.dot(VECTOR["problem"]["weights"], losses), rtol=1e-12)
    assert trace.columns["accuracy"][-1] == 0.5
    assert trace.ledger.totals()["queries_total"] == 0 and trace.ledger.totals()["contacts"] == 6


@pytest.mark.longer
@pytest.mark.parametrize(
    "algorithm",
    [
        t.FedProx(t.Nice(2), lr=0.1, mu=0.1),
        t.Scaffold(t.Nice(2), lr=0.1),
        t.FedAvg(t.Nice(2)),
        t.Dane(t.Full(), t.client_solvers.NewtonCg(), lam=1.0),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_algorithms_that_want_gradients_are_refused_in_a_sentence(algorithm):
    with pytest.raises(t.UserError, match="has no gradients: take an algorithm that asks for a trained model alone"):
        run(algorithm, problem_of("NumPyClient"))


def test_what_is_no_client_is_refused():
    with pytest.raises(t.UserError, match="at least one row"):
        t.FlowerOracle(Descent(0), size=0)
    with pytest.raises(t.UserError, match="no fit"):
        t.FlowerOracle(object(), size=1)


def test_a_client_without_a_loss_is_told():
    client = t.FlowerOracle(Descent(0), size=2)
    client.client.evaluate = lambda parameters, config: (0.0, 2, {})
    with pytest.raises(t.UserError, match="tells no accuracy, but loss"):
        client.accuracy([START])


def test_groups_of_its_model_are_refused_in_a_sentence():
    clients = [t.FlowerOracle(Descent(i), size=2) for i in range(2)]
    problem = t.Grouped.of(t.Remote.of({"body": START, "head": START}, clients), t.Frozen("head"))
    with pytest.raises(t.UserError, match="FlowerOracle trains its whole model: leave the groups"):
        t.run(t.FedAvg(t.Full(), lr=0.1), problem, rounds=1, engine="nodes")
