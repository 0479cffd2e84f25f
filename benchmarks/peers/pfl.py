"""pfl-research: its federated averaging in a simulated backend on PyTorch, with the users of given cohorts."""

from functools import partial
from importlib.metadata import version
from itertools import chain

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel

from benchmarks.peers.in_torch import loss_of, model_of, parameters, rows_of
from benchmarks.peers.serve import Workload, serve


class Module(torch.nn.Module):
    def __init__(self, w: Workload):
        super().__init__()
        self.model, self.criterion = model_of(w), loss_of(w)

    def loss(self, rows, labels):
        return self.criterion(self.model(rows), labels)

    def metrics(self, rows, labels):
        return {}


def prepare(w: Workload):
    users = [Dataset(raw_data=rows) for rows in rows_of(w)]
    training = NNTrainHyperParams(local_num_epochs=w.epochs, local_learning_rate=w.lr, local_batch_size=w.batch)

    def start(rounds: int):
        module, ids = Module(w), chain.from_iterable(w.cohorts.tolist())
        model = PyTorchModel(module, partial(torch.optim.SGD, weight_decay=w.mu), torch.optim.SGD(module.parameters(), lr=1.0))
        data = FederatedDataset(users.__getitem__, partial(next, ids))
        settings = NNAlgorithmParams(
            central_num_iterations=rounds, evaluation_frequency=rounds + 1, train_cohort_size=w.cohort, val_cohort_size=0
        )

        def play():
            FederatedAveraging().run(settings, SimulatedBackend(data, None), model, training, send_metrics_to_platform=False)
            return parameters(module)

        return play

    return start


if __name__ == "__main__":
    serve(version("pfl"), prepare)
