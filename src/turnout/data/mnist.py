"""Reading MNIST from its four idx files, with the writer of each image as its natural client."""

import gzip
import math
from pathlib import Path

import numpy as np

from turnout.core.errors import UserError
from turnout.data.dataset import Dataset
from turnout.data.files import UNREADABLE, unreadable
from turnout.data.npz import read_npz

PARTS = {"mnist": "train", "mnist.t": "t10k"}
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
WRITERS = "mnist_writers.npz"


def mnist_files(name: str) -> tuple[str, str]:
    """Return the names of the image and the label file of "mnist" or "mnist.t"."""
    return f"{PARTS[name]}-images-idx3-ubyte.gz", f"{PARTS[name]}-labels-idx1-ubyte.gz"


def read_mnist(name: str, folder: Path) -> Dataset:
    """Read "mnist" or "mnist.t" from `folder`, with the writers as `ids` if their file is there.

    Args:
        name: Name of the data set.
        folder: Folder of the files.
    """
    images, labels = read_pair(*(folder / file for file in mnist_files(name)))
    writers = _writers(name, folder / WRITERS, labels) if (folder / WRITERS).exists() else None
    return Dataset(name, images, labels, writers)


def read_pair(images_file: Path, labels_file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read images [rows, height, width] and their labels [rows] from two idx files.

    Args:
        images_file: File of the images.
        labels_file: File of the labels.
    """
    images, labels = read_idx(images_file), read_idx(labels_file)
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise UserError(
            f"{images_file} holds shape {images.shape} and {labels_file.name} shape {labels.shape}: "
            "give the images and the labels of the same set"
        )
    return images, labels.astype(np.int64)


def read_idx(path: Path) -> np.ndarray:
    """Read a gzipped idx file of unsigned bytes: two zeros, type 8, the number of axes, their lengths, the values."""
    try:
        with gzip.open(path, "rb") as file:
            content = file.read()
    except UNREADABLE as error:
        raise unreadable(path, error) from None
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise UserError(f"{path}: not an idx file of unsigned bytes (these start with 0 0 8): fetch or copy it again")
    start = 4 + 4 * content[3]
    shape = tuple(np.frombuffer(content[4:start], ">u4").tolist()) if len(content) >= start else None
    if shape is None or len(content) - start != math.prod(shape):
        raise UserError(f"{path}: its length does not agree with its header: fetch or copy it again")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _writers(name: str, path: Path, labels: np.ndarray) -> np.ndarray:
    part = "train" if name == "mnist" else "test"
    writers, digits = read_npz(path, (f"{part}_writer", f"{part}_label"), "copy it again, or do without it")
    if not np.array_equal(digits, labels):
        raise UserError(f"{path}: its {part}_label differ from the labels of {name}: give the file of this set")
    return writers
