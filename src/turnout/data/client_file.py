"""Client files: an Arrow file with one row for each client, which holds lists of the client's features and labels."""

import json
import mmap
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import finalize

import jax
import numpy as np

from turnout.core.errors import UserError
from turnout.core.file_reads import read_rows
from turnout.core.records import config
from turnout.data.dataset import Dataset
from turnout.data.preprocessing import preprocessing_of
from turnout.data.source import Source, located
from turnout.data.stored import StoredDataset
from turnout.problems.storage.client_rows import ClientRows

COLUMNS = ("features", "labels")
HELD = 2**27
"""Bytes of a column up to which it is held in memory."""

KEY, FORMAT = b"turnout", 1
"""The key of the schema's metadata, which are JSON, and the version of the format."""


@config
class ClientFile(Source):
    """A client file, written by `write_clients`: its rows stay on disk, and are read when their clients are drawn.

    Args:
        path: The file.

    Examples:
        >>> import pathlib, tempfile
        >>> from turnout.data import ClientFile, IidSplit, load, write_clients
        >>> data = load("breast_cancer")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "clients.arrow"
        ...     write_clients(path, data, IidSplit(clients=20).split(data))
        ...     stored = ClientFile(str(path)).load()
        >>> stored.rows
        569
    """

    path: str

    def load(self, folder=None) -> Dataset:
        """Return the data; `UserError` if the file is missing, cut off, or none that turnout wrote."""
        return read_clients(located(self.path, folder))


class FileRows(ClientRows):
    """The rows of clients in a file, which has them in batches.

    Args:
        path: The file.
        sizes: The number of rows of each client [n].
        shapes: Shape and dtype of one row of each column.
        first: The first client of each batch [b].
        begins: Where each column begins in each batch, in bytes of the file [columns, b].
    """

    def __init__(
        self,
        path: Path,
        sizes: np.ndarray,
        shapes: tuple[jax.ShapeDtypeStruct, ...],
        first: np.ndarray,
        begins: np.ndarray,
    ):
        super().__init__(sizes, shapes)
        self._widths = [int(np.prod(row.shape)) * np.dtype(row.dtype).itemsize for row in shapes]
        self.path, self._first = path, first
        self._file = path.open("rb")
        finalize(self, self._file.close)
        self._sources = [self._source(begin, width) for begin, width in zip(begins, self._widths, strict=True)]

    def _source(self, begins, width):
        """Return what a column is read from, and where the column would begin there if each batch had all rows before it."""
        ends = np.append(self._first[1:], self.sizes.size)
        parts = [(self.offsets[first] * width, self.offsets[end] * width) for first, end in zip(self._first, ends, strict=True)]
        if parts[-1][1] > HELD:
            return self._file.fileno(), begins - np.array([start for start, _ in parts])
        content = np.empty(parts[-1][1], np.uint8)
        for begin, (start, end) in zip(begins, parts, strict=True):
            self._file.seek(begin)
            content[start:end] = np.frombuffer(self._file.read(end - start), np.uint8)
        return content, np.zeros(len(parts), np.int64)

    def read(self, ids, into):
        for (source, origin), width, array in zip(self._sources, self._widths, into, strict=True):
            failed = read_rows(source, origin, self._first, self.offsets, width, ids, array)
            if failed >= 0:
                raise UserError(f"{self.path}: the rows of client {ids[failed]} cannot be read: write the file again")


def read_clients(path: Path) -> StoredDataset:
    """Return the data set of a client file, whose rows stay on disk.

    Args:
        path: The file.

    Raises:
        UserError: The file is cut off, or none that `write_clients` wrote, or a client has no rows.
    """
    pyarrow = arrow()
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise UserError(f"{path} is empty: write the file again")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        reader = pyarrow.ipc.open_file(pyarrow.py_buffer(mapped))
        facts = json.loads((reader.schema.metadata or {}).get(KEY, b"null"))
        if facts is None or facts["format"] != FORMAT:
            raise UserError(f"{path} is no client file of this version of turnout: write one by turnout data write")
        batches = [reader.get_batch_with_custom_metadata(k) for k in range(reader.num_record_batches)]
    except (pyarrow.ArrowInvalid, pyarrow.ArrowIOError) as error:
        raise UserError(f"{path} is cut off, or no client file ({str(error).splitlines()[0]}): write it again") from None
    sizes = [_sizes(batch) for batch, _ in batches]
    first = np.cumsum([0, *(each.size for each in sizes[:-1])])
    origin = np.frombuffer(mapped, np.uint8).ctypes.data
    arrays = [[_numbers(batch.column(name)) for batch, _ in batches] for name in COLUMNS]
    begins = np.array([[array.ctypes.data - origin for array in column] for column in arrays])
    rows = tuple(facts["shape"]), ()
    shapes = tuple(jax.ShapeDtypeStruct(row, column[0].dtype) for row, column in zip(rows, arrays, strict=True))
    told = json.loads(batches[-1][1][KEY])
    classes = None if told["classes"] is None else np.asarray(told["classes"], shapes[1].dtype)
    whole = _refuse_empty(np.concatenate(sizes), path)
    columns = tuple(facts["columns"]) if facts.get("columns") else None
    rules = preprocessing_of(facts["preprocessing"], str(path)) if "preprocessing" in facts else None
    data = StoredDataset.of(facts["name"], FileRows(path, whole, shapes, first, begins), classes, told["digest"], columns)
    return replace(data.named(facts["classes"]) if "classes" in facts else data, preprocessing=rules)


def _sizes(batch: Any) -> np.ndarray:
    """Return the number of rows of each client of a batch, -1 where features and labels differ."""
    features, labels = (np.diff(batch.column(name).offsets.to_numpy()) for name in COLUMNS)
    return np.where(features == labels, features, -1)


def _refuse_empty(sizes: np.ndarray, path: Path) -> np.ndarray:
    """Return the sizes; `UserError` where a client has no rows, or not as many labels as features."""
    for wrong, what in ((sizes == 0, "no rows"), (sizes < 0, "other numbers of features than of labels")):
        if wrong.any():
            raise UserError(f"{path}: client {int(np.argmax(wrong))} has {what}: leave it out, or correct it")
    return sizes


def _numbers(column: Any) -> np.ndarray:
    """Return the numbers of a column of lists, without a copy."""
    values = column.values
    while hasattr(values, "values"):
        values = values.values
    return values.to_numpy(zero_copy_only=True)


def arrow() -> Any:
    """Return the module pyarrow; `UserError` where it is not installed."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise UserError("clients on disk need pyarrow: pip install 'turnout[scale]'") from None
    return pyarrow
