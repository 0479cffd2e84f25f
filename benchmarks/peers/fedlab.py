"""FedLab: its standalone pipeline with the synchronous handler and the serial trainer, given cohorts."""

from importlib.metadata import version

from benchmarks.peers.in_torch import Batches, admit_torchvision, loss_of, model_of, parameters, rows_of
from benchmarks.peers.serve import Workload, serve

admit_torchvision()

import torch  # noqa: E402
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer  # noqa: E402
from fedlab.contrib.algorithm.basic_server import SyncServerHandler  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402


class Rows:
    """A data set of FedLab."""

    def __init__(self, w: Workload):
        self.rows = rows_of(w)

    def get_dataloader(self, client, batch_size=None):
        return Batches(self.rows[client], batch_size)


class Trainer(SGDSerialClientTrainer):
    def setup_optim(self, w: Workload):
        super().setup_optim(w.epochs, w.batch, w.lr)
        self.optimizer = torch.optim.SGD(self._model.parameters(), w.lr, weight_decay=w.mu)
        self.criterion = loss_of(w)


class Handler(SyncServerHandler):
    def sample_clients(self):
        return self.cohorts[self.round]


class Pipeline(StandalonePipeline):
    def evaluate(self):
        pass


def prepare(w: Workload):
    trainer = Trainer(model_of(w), w.clients)
    trainer.setup_dataset(Rows(w))
    trainer.setup_optim(w)
    cohorts = w.cohorts.tolist()

    def start(rounds: int):
        handler = Handler(model_of(w), rounds, w.cohort / w.clients)
        handler.cohorts = cohorts
        pipeline = Pipeline(handler, trainer)

        def play():
            pipeline.main()
            return parameters(handler.model)

        return play

    return start


if __name__ == "__main__":
    serve(version("fedlab"), prepare)
