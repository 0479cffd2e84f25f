"""Reading a part of CIFAR-10 from an npz file."""

from pathlib import Path

from turnout.data.arrays import features_of, labels_of
from turnout.data.dataset import Dataset
from turnout.data.npz import read_npz

CIFAR = "cifar10_subset.npz"
CIFAR_PARTS = {"cifar10_subset": "train", "cifar10_subset.held": "heldout", "cifar10_subset.t": "test"}


def read_cifar(name: str, path: Path) -> Dataset:
    """Read x_<part> [rows, 32, 32, 3] and y_<part> [rows] of an npz file: colour images as bytes (Krizhevsky, 2009).

    Args:
        name: Name of the data set.
        path: Path of the file.
    """
    images, labels = read_npz(path, [f"{axis}_{CIFAR_PARTS[name]}" for axis in "xy"])
    return Dataset(name, features_of(images, path, "x"), labels_of(labels, path, "y", whole=True))
