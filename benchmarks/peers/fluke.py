"""fluke: its federated averaging with its own server and clients, given cohorts."""

from importlib.metadata import version

from benchmarks.peers.in_torch import admit_torchvision, loss_of, model_of, parameters, rows_of
from benchmarks.peers.serve import Workload, serve

admit_torchvision()

from fluke import DDict, FlukeENV  # noqa: E402
from fluke.algorithms.fedavg import FedAVG  # noqa: E402
from fluke.client import Client  # noqa: E402
from fluke.config import OptimizerConfigurator  # noqa: E402
from fluke.data import FastDataLoader  # noqa: E402
from fluke.server import Server  # noqa: E402


class Given(Server):
    def get_eligible_clients(self, eligible_perc):
        return [self.clients[client] for client in next(self.cohorts)]


class Averaging(FedAVG):
    def finalize(self):
        """Leave out the evaluation and the last broadcast to all clients."""


def prepare(w: Workload):
    environment = FlukeENV()
    environment.set_device("cpu")
    environment.set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    optimizer = OptimizerConfigurator(DDict(name="SGD", lr=w.lr, weight_decay=w.mu))
    batches = {"num_labels": w.classes or 2, "batch_size": w.batch, "shuffle": w.batch < w.labels.shape[1]}
    loaders = [FastDataLoader(*rows, **batches) for rows in rows_of(w)]

    def start(rounds: int):
        clients = [
            Client(client, loader, None, optimizer, loss_of(w), local_epochs=w.epochs, persistency=False)
            for client, loader in enumerate(loaders)
        ]
        server = Given(model_of(w), None, clients)
        server.cohorts = iter(w.cohorts.tolist())
        algorithm = Averaging(w.clients, None, {}, clients=clients, server=server)

        def play():
            algorithm.run(rounds, w.cohort / w.clients)
            return parameters(server.model)

        return play

    return start


if __name__ == "__main__":
    serve(version("fluke-fl"), prepare)
