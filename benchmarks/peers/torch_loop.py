"""Federated averaging of logistic regression in PyTorch, client by client, as one would write it for one use."""

import torch

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
