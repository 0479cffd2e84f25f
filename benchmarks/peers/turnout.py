"""Federated averaging by turnout, with a row of the trace before the first round and one after the last."""

from math import isqrt

import jax
import numpy as np

import turnout as t
from benchmarks.peers.serve import Workload, serve
from turnout.core.seeds import Seeds
from turnout.runs.session import Session


def logistic(w: Workload):
    rows = w.features.reshape(-1, w.features.shape[-1]), w.labels.ravel()
    problem = t.Logistic(rows, offsets(w), t.Population(count=w.clients), mu=w.mu)
    return problem, t.FedAvg(t.Nice(w.cohort), lr=w.lr, steps=w.epochs), {"metrics": ("value",)}


def network(w: Workload):
    """The network has f of one client's rows after the last round, since others evaluate nothing."""
    rows = w.features.reshape(-1, w.features.shape[-1]), w.labels.ravel().astype(np.int32)
    settings = {"mu": w.mu, "classes": w.classes, "model": "femnist-cnn", "shape": (isqrt(w.features.shape[-1]),) * 2 + (1,)}
    problem = t.Neural(rows, offsets(w), t.Population(count=w.clients), **settings)
    one = t.Neural(tuple(leaf[: w.labels.shape[1]] for leaf in rows), offsets(w)[:2], t.Population(count=1), **settings)
    algorithm = t.FedAvg(t.Nice(w.cohort), lr=w.lr, batch=w.batch, epochs=w.epochs)
    return problem, algorithm, {"metrics": ("test_value",), "test": one, "start": parameters(problem, w.start)}


def parameters(problem: t.Neural, x):
    """Return the network with parameters in PyTorch's order, which is that of its leaves."""
    leaves, tree = jax.tree.flatten(problem.start(jax.random.key(0)))
    parts = np.split(x, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return jax.tree.unflatten(tree, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)])


def offsets(w: Workload):
    return np.arange(w.clients + 1) * w.labels.shape[1]


def prepare(w: Workload):
    problem, algorithm, options = network(w) if w.classes else logistic(w)

    def start(rounds: int, seed: int = 0):
        session = Session(algorithm, problem, seeds=Seeds.of(seed), rounds=rounds, every=rounds, precision="single", **options)
        chunks = session.play()
        next(chunks)  # The row before the first round.

        def play():
            list(chunks)
            return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(session.trace.x)])

        return play

    return start


if __name__ == "__main__":
    serve(t.__version__, prepare)
