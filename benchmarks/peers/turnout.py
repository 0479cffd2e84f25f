"""Federated averaging by turnout, with a row of the trace before the first round and one after the last."""

import numpy as np

import turnout as t
from benchmarks.peers.serve import Workload, serve
from turnout.core.seeds import Seeds
from turnout.runs.session import Session


def prepare(w: Workload):
    rows = w.features.reshape(-1, w.features.shape[-1]), w.labels.ravel()
    offsets = np.arange(w.clients + 1) * w.labels.shape[1]
    problem = t.Logistic(rows, offsets, t.Population(count=w.clients), mu=w.mu)
    algorithm = t.FedAvg(t.Nice(w.cohort), lr=w.lr, steps=w.epochs)

    def start(rounds: int, seed: int = 0):
        session = Session(
            algorithm, problem, seeds=Seeds.of(seed), rounds=rounds, every=rounds, metrics=("value",), precision="single"
        )
        chunks = session.play()
        next(chunks)  # The row before the first round.

        def play():
            list(chunks)
            return session.trace.x

        return play

    return start


if __name__ == "__main__":
    serve(t.__version__, prepare)
