"""BlazeFL: its federated averaging, with the trainer of one thread, given cohorts."""

import os
from importlib.metadata import version

os.environ["TQDM_DISABLE"] = "1"

import torch  # noqa: E402
from blazefl.contrib.fedavg import FedAvgBaseClientTrainer, FedAvgBaseServerHandler  # noqa: E402

from benchmarks.peers.in_torch import Batches, loss_of, model_of, parameters, rows_of  # noqa: E402
from benchmarks.peers.serve import Workload, serve  # noqa: E402


class Rows:
    """A partitioned data set with the batches of each client."""

    def __init__(self, w: Workload):
        self.rows = rows_of(w)

    def get_dataloader(self, type_, cid, batch_size, generator):
        return Batches(self.rows[cid], batch_size)


class Models:
    def __init__(self, w: Workload):
        self.w = w

    def select_model(self, model_name):
        return model_of(self.w)


class Handler(FedAvgBaseServerHandler):
    def sample_clients(self):
        return self.cohorts[self.round]


def prepare(w: Workload):
    models, rows, cohorts = Models(w), Rows(w), w.cohorts.tolist()
    trainer = FedAvgBaseClientTrainer(models, "model", rows, "cpu", w.clients, w.epochs, w.batch, w.lr, seed=0)
    trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=w.lr, weight_decay=w.mu)
    trainer.criterion = loss_of(w)

    def start(rounds: int):
        handler = Handler(models, "model", rows, rounds, w.clients, w.cohort / w.clients, "cpu", w.batch, seed=0)
        handler.cohorts = cohorts

        def play():
            while not handler.if_stop():
                sampled = handler.sample_clients()
                trainer.local_process(handler.downlink_package(), sampled)
                for package in trainer.uplink_package():
                    handler.load(package)
            return parameters(handler.model)

        return play

    return start


if __name__ == "__main__":
    serve(version("blazefl"), prepare)
