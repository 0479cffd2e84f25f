"""Reading EMNIST, digits and letters, from its idx files."""

from pathlib import Path

import numpy as np

from turnout.data.dataset import Dataset
from turnout.data.mnist import read_pair


def emnist_files(name: str) -> tuple[str, str]:
    """Return the names of the image and the label file of a part, such as "emnist-digits" or "emnist-digits.t"."""
    part = f"{name.removesuffix('.t')}-{'test' if name.endswith('.t') else 'train'}"
    return f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz"


def read_emnist(name: str, folder: Path) -> Dataset:
    """Read a part of EMNIST (Cohen et al., 2017) from `folder`; its files hold the images transposed.

    Args:
        name: Name of the data set.
        folder: Folder of the files.
    """
    images, labels = read_pair(*(folder / file for file in emnist_files(name)))
    return Dataset(name, np.ascontiguousarray(images.transpose(0, 2, 1)), labels)
