"""Federated averaging in PyTorch, client by client, as one would write it for one use."""

import torch

from benchmarks.peers.in_torch import Batches, model_of, rows_of, train
from benchmarks.peers.serve import Workload, serve


def averaged(x, rows, signs, cohort, lr: float, steps: int, mu: float):
    """Return the mean of the clients' parameters after local steps from `x`; rows [n, s, d], signs [n, s]."""
    mean = torch.zeros_like(x)
    for client in cohort:
        y = x.clone().requires_grad_()
        for _ in range(steps):
            loss = torch.nn.functional.softplus(-signs[client] * (rows[client] @ y)).mean() + mu / 2 * (y @ y)
            (gradient,) = torch.autograd.grad(loss, y)
            with torch.no_grad():
                y -= lr * gradient
        mean += y.detach() / len(cohort)
    return mean


def prepare(w: Workload):
    return network(w) if w.classes else logistic(w)


def network(w: Workload):
    model, clients = model_of(w), [Batches(rows, w.batch) for rows in rows_of(w)]

    def start(rounds: int):
        def play():
            x = torch.tensor(w.start)
            for cohort in w.cohorts[:rounds]:
                mean = torch.zeros_like(x)
                for client in cohort:
                    # What is assigned is a view of the vector, which the steps change.
                    torch.nn.utils.vector_to_parameters(x.clone(), model.parameters())
                    train(model, w, clients[client])
                    mean += torch.nn.utils.parameters_to_vector(model.parameters()).detach() / len(cohort)
                x = mean
            return x

        return play

    return start


def logistic(w: Workload):
    rows, signs = torch.tensor(w.features), torch.tensor(w.labels)

    def start(rounds: int):
        def play():
            x = torch.tensor(w.start)
            for cohort in w.cohorts[:rounds]:
                x = averaged(x, rows, signs, cohort, w.lr, w.epochs, w.mu)
            return x

        return play

    return start


if __name__ == "__main__":
    serve(torch.__version__, prepare)
