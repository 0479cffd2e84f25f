"""FedLab's handlers and trainers of `fedlab.contrib.algorithm`, run by its own `StandalonePipeline`."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false
from shared import cohorts_of, main, start_of
from shared_torch import Regression, loss_of, rows_of, with_torchvision

with_torchvision()

import torch  # noqa: E402
from fedlab.contrib.algorithm.basic_client import SGDClientTrainer, SGDSerialClientTrainer  # noqa: E402
from fedlab.contrib.algorithm.basic_server import AsyncServerHandler, SyncServerHandler  # noqa: E402
from fedlab.contrib.algorithm.ditto import DittoSerialClientTrainer, DittoServerHandler  # noqa: E402
from fedlab.contrib.algorithm.feddyn import FedDynSerialClientTrainer, FedDynServerHandler  # noqa: E402
from fedlab.contrib.algorithm.fednova import FedNovaSerialClientTrainer, FedNovaServerHandler  # noqa: E402
from fedlab.contrib.algorithm.fedprox import FedProxSerialClientTrainer  # noqa: E402
from fedlab.contrib.algorithm.qfedavg import qFedAvgClientTrainer, qFedAvgServerHandler  # noqa: E402
from fedlab.contrib.algorithm.scaffold import ScaffoldSerialClientTrainer, ScaffoldServerHandler  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402


class Rows:
    """The rows of a vector as a partitioned data set of FedLab, each client's in one batch."""

    def __init__(self, vector):
        self.vector = vector

    def get_dataloader(self, id, batch_size):
        data = torch.utils.data.TensorDataset(*rows_of(self.vector, id))
        return torch.utils.data.DataLoader(data, batch_size=len(data))


class Pipeline(StandalonePipeline):
    """Notes the packages that clients send, and x after each round."""

    def main(self):
        self.changes, self.states = [], []
        super().main()

    def evaluate(self):
        self.states.append(self.handler.model_parameters.tolist())


def player(handler=SyncServerHandler, trainer=SGDSerialClientTrainer, of_server=None, of_client=(), replies="model", note=""):
    """Return what plays a vector with a handler and a trainer; `of_server` and `of_client` name parameters of their optimisers.

    `replies`: whether the first tensor of a package is the client's "model" or its "change".
    """

    class Drawn(handler):
        def sample_clients(self):
            return self.cohorts[self.round]

        def load(self, payload):
            before = self.model_parameters
            found = payload[0] - before if replies == "model" else payload[0]
            if not self.client_buffer_cache:
                self.changes.append([])
            self.changes[-1].append({"change": found.tolist()})
            return super().load(payload)

    def play(vector):
        p, n = vector["parameters"], len(vector["problem"]["clients"])
        model, cohorts = Regression(start_of(vector)), cohorts_of(vector)
        server = Drawn(model, len(cohorts), len(cohorts[0]) / n)
        server.cohorts, server.changes = cohorts, []
        if of_server is not None:
            server.setup_optim(**of_server(p))
        clients = trainer(model, n)
        clients.setup_dataset(Rows(vector))
        clients.setup_optim(
            p["local_steps"][0] if isinstance(p["local_steps"], list) else p["local_steps"],
            10,
            p["lr"],
            *(p[name] for name in of_client),
        )
        clients.criterion = loss_of(vector["problem"]["mu"])
        pipeline = Pipeline(server, clients)
        pipeline.main()
        rounds = [
            {"exchanges": [{"replies": own}], "server": {"x": x}} for own, x in zip(server.changes, pipeline.states, strict=True)
        ]
        return {"rounds": rounds, "note": note}

    return play


def q_fedavg(vector):
    """Play a vector with q-FedAvg, whose trainer is of one client."""
    p, model, cohorts = vector["parameters"], Regression(start_of(vector)), cohorts_of(vector)
    server, client, rounds = qFedAvgServerHandler(model, len(cohorts), 0.5), qFedAvgClientTrainer(model), []
    server.num_clients = len(vector["problem"]["clients"])
    client.setup_dataset(Rows(vector))
    client.setup_optim(p["local_steps"], 10, p["lr"], p["q"])
    client.criterion = loss_of(vector["problem"]["mu"])
    for cohort in cohorts:
        sent = server.downlink_package
        for number in cohort:
            client.local_process(sent, number)
            server.load(client.uplink_package)
        rounds.append({"server": {"x": server.model_parameters.tolist()}})
    return {"rounds": rounds}


def fedasync(vector):
    """Play a vector with the asynchronous handler."""
    p, model = vector["parameters"], Regression(start_of(vector))
    server, client, rounds = AsyncServerHandler(model, len(vector["rounds"])), SGDClientTrainer(model), []
    server.setup_optim(p["alpha"], "polynomial", p["power"])
    client.setup_dataset(Rows(vector))
    client.setup_optim(p["local_steps"], 10, p["lr"])
    client.criterion = loss_of(vector["problem"]["mu"])
    sent = {0: server.downlink_package}
    for number, round in enumerate(vector["rounds"], start=1):
        sent[number] = server.downlink_package
        ((one,), (when,)) = round["cohort"], round["exchanges"][0]["sent"]
        client.local_process(sent[when], one)
        server.load([*client.uplink_package, sent[when][1]])
        rounds.append({"server": {"x": server.model_parameters.tolist()}})
    return {"rounds": rounds}


PLAYERS = {
    "q-fedavg": q_fedavg,
    "fedasync": fedasync,
    "fedavg-equal": player(),
    "fedprox": player(trainer=FedProxSerialClientTrainer, of_client=["mu"]),
    "scaffold-2": player(ScaffoldServerHandler, ScaffoldSerialClientTrainer, lambda p: {"lr": p["server_lr"]}, replies="change"),
    # All clients have the same number of passes, so that their work is the same.
    "fednova-even": player(
        FedNovaServerHandler, FedNovaSerialClientTrainer, lambda p: {}, note="option weighted_scale, the default"
    ),
    "ditto": player(DittoServerHandler, DittoSerialClientTrainer),
    "feddyn-steps": player(FedDynServerHandler, FedDynSerialClientTrainer, lambda p: {"alpha": p["alpha"]}, ["alpha"]),
}

if __name__ == "__main__":
    main(PLAYERS, "no such module in fedlab.contrib.algorithm")
