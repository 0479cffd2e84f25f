"""Federated averaging by turnout with PyTorch clients, each with a DataLoader of its own, in the engine `nodes`."""

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

import turnout as t
from benchmarks.peers.in_torch import loss_of, model_of, rows_of
from benchmarks.peers.serve import Workload, serve
from turnout.core.seeds import Seeds
from turnout.problems.optimum import Optimum
from turnout.problems.oracles.torch_module import TorchOracle, parameters_of
from turnout.runs.session import Session


def prepare(w: Workload):
    model, criterion, rows = model_of(w), loss_of(w), rows_of(w)

    def loss(module: torch.nn.Module, batch):
        features, labels = batch
        return criterion(module(features), labels)

    def client(i: int) -> TorchOracle:
        return TorchOracle(model, DataLoader(TensorDataset(*rows[i]), batch_size=w.labels.shape[1]), loss)

    problem = t.Remote.of(parameters_of(model), client, sizes=[w.labels.shape[1]] * w.clients)
    algorithm = t.FedAvg(t.Nice(w.cohort), lr=w.lr, batch=w.batch, epochs=w.epochs)

    def start(rounds: int, seed: int = 0):
        # Runs want a metric, and of those this one asks nothing of the clients.
        session = Session(
            algorithm, problem, seeds=Seeds.of(seed), rounds=rounds, every=rounds, metrics=("distance",),
            optimum=Optimum(problem.initial, 0.0), engine="nodes", precision="single",
        )  # fmt: skip
        chunks = session.play()
        next(chunks)  # The row before the first round.

        def play():
            list(chunks)
            leaves = session.trace.x
            return np.concatenate([np.ravel(leaves[name]) for name, _ in model.named_parameters()])

        return play

    return start


if __name__ == "__main__":
    serve(t.__version__, prepare)
