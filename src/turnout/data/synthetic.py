"""Synthetic(alpha, beta) of FedProx: clients of very different sizes, each with its own model and features."""

import random

import numpy as np

from turnout.core.errors import UserError
from turnout.data.dataset import Dataset

WIDTH, CLASSES = 60, 10


def synthetic(alpha: float = 0.0, beta: float = 0.0, seed: int = 4399, clients: int = 100) -> tuple[Dataset, Dataset]:
    """Generate Synthetic(alpha, beta): 60 features, 10 classes, the clients as `ids`.

    n_i = floor(LogNormal(4, 2)) + 50; u_i ~ N(0, alpha^2), B_i ~ N(0, beta^2), v_i ~ N(B_i, I_60); W_i ~ N(u_i, 1) [60, 10] and
    b_i ~ N(u_i, 1) [10]; x ~ N(v_i, diag(j^-1.2)), y = argmax(W_i^T x + b_i) (Li et al., FedProx, 2020, appendix C.1).
    Draws and shuffles have the order of K-Vib's code, whose data seed 4399 gives.

    Args:
        alpha: Standard deviation of the clients' models, >= 0.
        beta: Standard deviation of the clients' feature means, >= 0.
        seed: Seed of NumPy's legacy generator and of Python's.
        clients: Number of clients, >= 1.

    Returns:
        The training rows, nine tenths of each client's, and the test rows.

    Raises:
        UserError: A number is out of its bounds.

    Examples:
        >>> from turnout.data import synthetic
        >>> train, test = synthetic(alpha=1.0, beta=1.0, seed=0, clients=3)
        >>> train.rows, test.rows
        (2263, 253)
    """
    if alpha < 0 or beta < 0 or clients < 1:
        raise UserError(f"synthetic data need alpha, beta >= 0 and a client, but got {alpha:g}, {beta:g} and {clients} clients")
    numpy, python = np.random.RandomState(seed), random.Random(seed)
    sizes = numpy.lognormal(4, 2, clients).astype(int) + 50
    means = numpy.normal(0, alpha, clients)
    centres = numpy.normal(numpy.normal(0, beta, clients)[:, None], 1, (clients, WIDTH))
    covariance = np.diag(np.arange(1.0, WIDTH + 1) ** -1.2)
    train, test = [], []
    for client, (size, mean, centre) in enumerate(zip(sizes.tolist(), means, centres, strict=True)):
        weight, bias = numpy.normal(mean, 1, (WIDTH, CLASSES)), numpy.normal(mean, 1, CLASSES)
        features = numpy.multivariate_normal(centre, covariance, size)
        labels = np.argmax(features @ weight + bias, axis=1)
        order = list(range(size))
        python.shuffle(order)
        cut = int(0.9 * size)
        for rows, part in ((order[:cut], train), (order[cut:], test)):
            part.append((features[rows], labels[rows], np.full(len(rows), client)))
    return _joined("synthetic", train), _joined("synthetic.t", test)


def _joined(name: str, parts: list) -> Dataset:
    return Dataset(name, *(np.concatenate(column) for column in zip(*parts, strict=True)))
