"""One class of MNIST against the others."""

import numpy as np

from turnout.core.records import Count, Index, config
from turnout.data import Dataset, Source, load


@config
class OneAgainstRest(Source):
    """The images of MNIST as vectors of numbers from 0 to 1, with the label 1 for one digit and -1 for the others.

    Args:
        digit: The digit.
        rows: The number of images, the first ones.
    """

    digit: Index
    rows: Count = 10_000

    def load(self, folder=None) -> Dataset:
        """Return the data."""
        images = load("mnist", folder)
        features = images.features[: self.rows].reshape(self.rows, -1) / 255
        return Dataset(f"mnist-{self.digit}", features, np.where(images.labels[: self.rows] == self.digit, 1.0, -1.0))
