"""The clients: edit `start` and `client`."""

import numpy as np
from sklearn.datasets import load_breast_cancer

from turnout import Logistic
from turnout.data.dataset import Dataset
from turnout.data.splits import Split

CLIENTS = 3


def start():
    """Return the initial parameters, the same on every machine."""
    return np.zeros(30)


def client(number):
    """Return the problem of client `number`. Only that client's machine calls it: read your data here."""
    features, labels = load_breast_cancer(return_X_y=True)
    features = ((features - features.mean(0)) / features.std(0))[number::CLIENTS]
    data = Dataset("client", features, 2.0 * labels[number::CLIENTS] - 1)
    return Logistic.of(data, Split.of([np.arange(data.rows)], data.rows), mu=0.01)
