"""Flower's strategies of `flwr.serverapp.strategy`, with the clients' half as their documentation has it."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false
from collections.abc import Iterable

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp import strategy as strategies
from flwr.supercore.task_identity import TaskIdentity
from shared import clients_of, cohorts_of, main, start_of

# Messages are made inside of a run alone.
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


class Clients(Grid):
    """The clients of a vector in the place of a network; only those of the round's cohort are connected.

    Strategies send and receive at once: what raises an error is abstract in Flower's class, and none of them calls it.
    """

    def __init__(self, vector, local, rows):
        self.clients, self.cohorts, self.local, self.rows = clients_of(vector), cohorts_of(vector), local, rows
        self.seen, self.replies = [], []

    def set_run(self, run_id):
        pass

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return [number + 1 for number in self.cohorts[min(len(self.seen), len(self.cohorts) - 1)]]

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        messages = sorted(messages, key=lambda message: message.metadata.dst_node_id)
        if not messages:
            return []
        replies, changes = [], []
        for message in messages:
            client = self.clients[message.metadata.dst_node_id - 1]
            (x,) = (array.numpy() for array in message.content["arrays"].values())
            y, loss = self.local(client, x, message.content["config"])
            changes.append((y - x).tolist())
            metrics = MetricRecord({"num-examples": len(client) if self.rows else 1, "train_loss": loss})
            replies.append(Message(RecordDict({"arrays": ArrayRecord({"x": Array(y)}), "metrics": metrics}), reply_to=message))
        self.seen.append({"message": {"x": x.tolist()}, "replies": [{"change": change} for change in changes]})
        return replies


def player(make, rows=True, proximal=False, note=""):
    """Return what plays a vector with the strategy that `make` makes of its parameters."""

    def play(vector):
        p = vector["parameters"]

        def local(client, x, config):
            mu = config["proximal-mu"] if proximal else 0.0
            y = x
            for _ in range(p["local_steps"]):
                y = y - p["lr"] * (client.gradient(y) + mu * (y - x))
            return y, client.value(x)

        grid, states = Clients(vector, local, rows), []
        strategy = make(p, {"fraction_evaluate": 0.0, "min_train_nodes": 2, "min_available_nodes": 2})

        def look(number, arrays):
            if number:
                states.append(next(iter(arrays.values())).numpy().tolist())

        strategy.start(grid, ArrayRecord({"x": Array(start_of(vector))}), num_rounds=len(vector["rounds"]), evaluate_fn=look)
        rounds = [{"exchanges": [seen], "server": {"x": x}} for seen, x in zip(grid.seen, states, strict=True)]
        return {"rounds": rounds, "note": note}

    return play


def adaptive(kind):
    """Return what makes an adaptive strategy."""
    betas = {} if kind is strategies.FedAdagrad else {"beta_1": "beta1", "beta_2": "beta2"}

    def make(p, options):
        return kind(eta=p["server_lr"], tau=p["tau"], **{name: p[own] for name, own in betas.items()}, **options)

    return make


HALF = "the client's half, which is the user's, follows the docstring"

PLAYERS = {
    "fedavg": player(lambda p, o: strategies.FedAvg(**o)),
    "fedprox": player(lambda p, o: strategies.FedProx(proximal_mu=p["mu"], **o), proximal=True, note=HALF),
    "fedadam": player(adaptive(strategies.FedAdam)),
    "fedyogi": player(adaptive(strategies.FedYogi)),
    "fedadagrad": player(adaptive(strategies.FedAdagrad)),
    "fedavgm": player(lambda p, o: strategies.FedAvgM(server_learning_rate=p["server_lr"], server_momentum=p["beta"], **o)),
    "q-fedavg": player(
        lambda p, o: strategies.QFedAvg(client_learning_rate=p["lr"], q=p["q"], **o), note="the client reports f_i(x)"
    ),
}

if __name__ == "__main__":
    np.seterr(all="ignore")
    main(PLAYERS, "no such strategy in flwr.serverapp.strategy")
