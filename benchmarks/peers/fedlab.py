"""FedLab: its standalone pipeline with the synchronous handler and the serial trainer, given whole batches and cohorts."""

from importlib.metadata import version

from benchmarks.peers.in_torch import LOSS, Scores, admit_torchvision, parameters, rows_of
from benchmarks.peers.serve import Workload, serve

admit_torchvision()

import torch  # noqa: E402
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer  # noqa: E402
from fedlab.contrib.algorithm.basic_server import SyncServerHandler  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402


class Rows:
    """A data set of FedLab whose loader is the client's only batch, without a DataLoader's work."""

    def __init__(self, w: Workload):
        self.rows = rows_of(w)

    def get_dataloader(self, client, batch_size=None):
        return [self.rows[client]]


class Trainer(SGDSerialClientTrainer):
    def setup_optim(self, epochs, batch_size, lr, weight_decay):
        super().setup_optim(epochs, batch_size, lr)
        self.optimizer = torch.optim.SGD(self._model.parameters(), lr, weight_decay=weight_decay)
        self.criterion = LOSS()


class Handler(SyncServerHandler):
    def sample_clients(self):
        return self.cohorts[self.round]


class Pipeline(StandalonePipeline):
    def evaluate(self):
        pass


def prepare(w: Workload):
    trainer = Trainer(Scores(w), w.clients)
    trainer.setup_dataset(Rows(w))
    trainer.setup_optim(w.epochs, w.batch, w.lr, w.mu)
    cohorts = w.cohorts.tolist()

    def start(rounds: int):
        handler = Handler(Scores(w), rounds, w.cohort / w.clients)
        handler.cohorts = cohorts
        pipeline = Pipeline(handler, trainer)

        def play():
            pipeline.main()
            return parameters(handler.model)

        return play

    return start


if __name__ == "__main__":
    serve(version("fedlab"), prepare)
