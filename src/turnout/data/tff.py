"""Reading the federated EMNIST of TensorFlow Federated, an HDF5 file with a group for each writer."""

from pathlib import Path

import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import config
from turnout.data.arrays import column_of, joined, labels_of, pixels_of
from turnout.data.dataset import Dataset
from turnout.data.hdf5 import opened
from turnout.data.source import Source, located


@config
class Tff(Source):
    """Federated EMNIST: examples/<writer>/pixels [rows, 28, 28] and label [rows]; the writers are the natural clients.

    Args:
        path: The file, such as fed_emnist_digitsonly_train.h5. The white background is 255.

    Examples:
        >>> from turnout.data import Tff
        >>> Tff("fed_emnist_train.h5").path
        'fed_emnist_train.h5'
    """

    path: str

    def load(self, folder=None) -> Dataset:
        """Return the images of all writers; `UserError` if the file is missing or unusable."""
        path = located(self.path, folder)
        with opened(path) as file:
            writers = column_of(file, "examples", path)
            parts = [part for name, group in writers.items() if (part := _writer(path, name, group))]
        if not parts:
            raise UserError(f"{path}: 'examples' has no images: fetch the file again")
        return joined(path, parts)


def _writer(path: Path, name: str, group) -> tuple[np.ndarray, np.ndarray, str] | None:
    """Return the (images, labels, name) of one writer; None if there are no images."""
    where = f"examples/{name}"
    pixels, labels = (column_of(group, key, path, where)[()] for key in ("pixels", "label"))
    if pixels.shape[:1] != labels.shape:
        raise UserError(f"{path}: {where} has pixels of shape {pixels.shape} and labels of {labels.shape}: fetch the file again")
    if not labels.size:
        return None
    return pixels_of(pixels, path, f"{where}/pixels"), labels_of(labels, path, f"{where}/label", whole=True), name
