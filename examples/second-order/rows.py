"""Data sets of the study: random rows of a known one, and rows like those of the phishing websites of UCI."""

from dataclasses import replace

import numpy as np

import turnout as t
from turnout.data import Dataset, Source, load

PHISHING, VALUES = 11_055, [3] * 8 + [2] * 22
"""The number of rows, and of the values of each attribute, whose columns are 68, as in LIBSVM's file."""

SEED, SHARED, SHARPNESS = 0, 0.7, 3.0


@t.record
class RandomRows(Source):
    """Random rows of the data set `name`, always the same."""

    name: str
    rows: int

    def load(self, folder=None):
        data = load(self.name, folder)
        kept = np.sort(np.random.default_rng(SEED).permutation(data.rows)[: self.rows])
        return replace(data, features=data.features[kept], labels=data.labels[kept], ids=None)


@t.record
class PhishingLike(Source):
    """30 attributes of two or three values, one-hot, that a trait of the site correlates, with labels of a logistic model.

    Attribute j is the interval, between random quantiles, of 0.7 s + sqrt(1 - 0.7^2) e_j, where s and e_j are standard normal.
    P(label = 1) = sigmoid(3 (u - median of u)) with u = w^T a / sqrt(30), w standard normal.
    """

    def load(self, folder=None):
        random = np.random.default_rng(SEED)
        trait = random.normal(size=PHISHING)
        columns = []
        for values in VALUES:
            latent = SHARED * trait + np.sqrt(1 - SHARED**2) * random.normal(size=PHISHING)
            bounds = np.quantile(latent, np.sort(random.uniform(0.1, 0.9, values - 1)))
            columns.append(np.eye(values)[np.digitize(latent, bounds)])
        features = np.concatenate(columns, axis=1)
        scores = features @ random.normal(size=features.shape[1]) / np.sqrt(len(VALUES))
        positive = random.uniform(size=PHISHING) < 1 / (1 + np.exp(-SHARPNESS * (scores - np.median(scores))))
        return Dataset("phishing-like", features, positive.astype(int))
