"""The clients: edit `start` and `client`."""

import numpy as np
from sklearn.datasets import load_diabetes

from turnout import NumpyOracle

CLIENTS = 3


def start():
    """Return the initial parameters, the same on every machine."""
    return np.zeros(10)


def client(number):
    """Return the data and loss of client `number`. Only that client's machine calls it: read your data here."""
    features, targets = map(np.asarray, load_diabetes(return_X_y=True))
    features = (features / features.std(0))[number::CLIENTS]
    targets = ((targets - targets.mean()) / targets.std())[number::CLIENTS]

    def value(x, rows):
        return np.mean((features[rows] @ x - targets[rows]) ** 2) / 2

    def gradient(x, rows):
        return features[rows].T @ (features[rows] @ x - targets[rows]) / len(targets[rows])

    return NumpyOracle(value, gradient, size=len(targets))
