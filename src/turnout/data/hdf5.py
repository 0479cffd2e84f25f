"""Reading HDF5 files with arrays of features, labels and clients."""

from contextlib import contextmanager
from pathlib import Path

from turnout.core.errors import UserError
from turnout.core.extras import extra
from turnout.core.records import config
from turnout.data.arrays import column_of, features_of, ids_of, labels_of
from turnout.data.dataset import Dataset
from turnout.data.source import Source, located


@config
class Hdf5(Source):
    """Arrays of an HDF5 file, each given by its name or group/name.

    Args:
        path: The file.
        features: The array of features [rows, ...].
        label: The array of labels [rows].
        client: The array of natural clients [rows], or None.

    Examples:
        >>> import pathlib, tempfile
        >>> import h5py, numpy as np
        >>> from turnout.data import Hdf5
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "rows.h5"
        ...     with h5py.File(path, "w") as file:
        ...         file["features"], file["label"] = np.ones((2, 3)), np.array([0, 1])
        ...     data = Hdf5(str(path)).load()
        >>> data.rows, data.features.shape
        (2, (2, 3))
    """

    path: str
    features: str = "features"
    label: str = "label"
    client: str | None = None

    def load(self, folder=None) -> Dataset:
        """Return the data; `UserError` if the file or an array is missing or unusable."""
        path = located(self.path, folder)
        with opened(path) as file:
            arrays = {name: _array(file, name, path) for name in (self.features, self.label, self.client) if name is not None}
        return Dataset(
            path.name,
            features_of(arrays[self.features], path, repr(self.features)),
            labels_of(arrays[self.label], path, repr(self.label)),
            None if self.client is None else ids_of(arrays[self.client], path, repr(self.client)),
        )


@contextmanager
def opened(path: Path):
    """Open an HDF5 file for reading."""
    h5py = extra("h5py", "reading HDF5 files", "data")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise UserError(f"{path}: not an HDF5 file ({error}): give one with the ending .h5") from None
    with file:
        yield file


def _array(file, name: str, path: Path):
    array = column_of(file, name, path)
    if not hasattr(array, "dtype"):
        raise UserError(f"{path}: {name!r} is a group, with {', '.join(array) or 'nothing'} in it: name an array")
    return array[()]
