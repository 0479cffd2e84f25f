"""Writing client files, client by client or from a table of any size: rows never have to fit in memory."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np

from turnout.core.errors import UserError
from turnout.core.narrowing import narrowed
from turnout.data.catalogue import load, table_of
from turnout.data.client_file import COLUMNS, FORMAT, KEY, arrow
from turnout.data.columns import Columns
from turnout.data.dataset import Dataset
from turnout.data.made import Rows
from turnout.data.preprocessing import Preprocessing
from turnout.data.splits import NaturalSplit, Split
from turnout.data.tables import LargeTable

CLASSES = 10_000
"""Distinct labels from which on a file does not list them."""

ROWS = 2**16
"""Rows of a table that are read at once."""

BATCH = 2**26
"""Bytes of a record batch."""


class Facts(NamedTuple):
    """What the numbers of a client file stand for.

    Args:
        columns: The name of each feature; None where features go by their numbers.
        classes: The label of each class, where labels are names; else None.
        rules: The rules that made the features; None if there are none.
    """

    columns: tuple | None = None
    classes: np.ndarray | None = None
    rules: Preprocessing | None = None

    def entries(self) -> dict[str, Any]:
        """Return the entries of the file's metadata."""
        classes = {} if self.classes is None else {"classes": self.classes.tolist()}
        return {"columns": self.columns, **classes, **({} if self.rules is None else {"preprocessing": self.rules.json})}


NUMBERS = Facts()
"""The facts of features that go by their numbers and labels that are numbers."""


def write_clients(
    path: str | Path,
    source: Any,
    split: Split | None = None,
    *,
    clients: int | None = None,
    client: str | None = None,
    label: str = "label",
    features: list[str] | None = None,
    precision: Literal["single", "double"] = "double",
    **options: Any,
) -> None:
    """Write a client file, which runs read with `storage = "disk"`.

    Args:
        path: The new file, an Arrow file.
        source: What `load` accepts, with its `split`; a parquet or CSV file of any size, with its column `client`; or a function
            that returns the features [n_i, ...] and the labels [n_i] of client i, with the number of `clients`.
        split: Rows of each client; None: the natural clients of the data.
        clients: n, for a function.
        client: The column of clients of a table.
        label: The column of labels of a table.
        features: Its columns of features; None means all others.
        precision: Precision of numbers that are not whole; images as bytes stay bytes.
        **options: How the columns of a table become features; see `load`.

    Raises:
        UserError: A client has no rows, a number is NaN or infinite, or the file cannot be written.

    Examples:
        >>> import tempfile, pathlib, numpy as np, turnout as t
        >>> from turnout.data import IidSplit, NaturalSplit, load, write_clients
        >>> data = load("breast_cancer")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "clients.arrow"
        ...     write_clients(path, data, IidSplit(clients=20).split(data))
        ...     stored = load(path)
        >>> stored.rows, NaturalSplit().split(stored).clients
        (569, 20)
    """
    path, real = Path(path), np.dtype(np.float32 if precision == "single" else np.float64)
    with _partial(path) as folder:
        if callable(source):
            if clients is None:
                raise UserError("a function that makes the rows of clients needs their number: give clients")
            rows, schema = (_made(source, i) for i in range(clients)), NUMBERS
        elif split is None and client is not None and isinstance(source, (str, Path)):
            rows, schema = _sorted(folder, LargeTable(table_of(str(source), Columns(features, label, client), options)), real)
        else:
            data = load(source, label=label, client=client, features=features, **options)
            rows = _clients_of(data, NaturalSplit().split(data) if split is None else split)
            schema = Facts(data.columns, data.classes if data.labels.dtype.kind == "U" else None, data.preprocessing)
        with ClientWriter(folder / "whole", path.name, real, schema) as writer:
            for one in rows:
                writer.add(*one)
        os.replace(folder / "whole", path)


def _made(make: Callable[[int], Rows], i: int) -> Rows:
    features, labels = (np.asarray(part) for part in make(i))
    if not len(labels):
        raise UserError(f"client {i} has no rows: leave it out")
    features = features if features.ndim > 1 else features[:, None]
    # It refuses what is no number.
    Dataset(f"client {i}", features, labels)
    return features, labels


def _numbered(labels: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Return labels that are names as their places among the `classes`; others as they are."""
    return labels if labels.dtype.kind != "U" or classes is None else np.searchsorted(classes, labels).astype(np.int32)


def _clients_of(data: Dataset, split: Split) -> Iterator[Rows]:
    for i in range(split.clients):
        rows = split.rows(i)
        features = data.features[rows]
        yield features if isinstance(features, np.ndarray) else features.toarray(), _numbered(data.labels[rows], data.classes)


def _sorted(folder: Path, table: LargeTable, real: np.dtype) -> tuple[Iterator[Rows], Facts]:
    """Return the rows of each client of a table, put in their places in a file, and what its numbers stand for."""
    bounds, arrays = np.concatenate([[0], np.cumsum(table.sizes)]), []
    free, names = bounds[:-1].copy(), None
    for data, owner in table.frames(ROWS):
        names = data.columns
        if not isinstance(data.features, np.ndarray):
            raise UserError(f"{table.path}: texts are counted in sparse rows, which client files do not hold: give numbers")
        parts = [_stored(part, real) for part in (data.features, _numbered(data.labels, table.classes))]
        arrays = arrays or [
            np.memmap(folder / name, part.dtype, "w+", shape=(int(bounds[-1]), *part.shape[1:]))
            for name, part in zip(COLUMNS, parts, strict=True)
        ]
        order = np.argsort(owner, kind="stable")
        present, first, counts = np.unique(owner[order], return_index=True, return_counts=True)
        place = free[owner[order]] + np.arange(order.size) - np.repeat(first, counts)
        free[present] += counts
        for array, part in zip(arrays, parts, strict=True):
            array[place] = part[order]
    rows = ((np.array(arrays[0][begin:end]), np.array(arrays[1][begin:end])) for begin, end in pairwise(bounds))
    return rows, Facts(names, table.classes, table.rules)


class ClientWriter:
    """Writes a client file, one client after another, in record batches of about `BATCH` bytes.

    The last batch has the digest of all content and the classes in its metadata.

    Args:
        path: The file.
        name: The name of the data.
        real: Type of numbers that are not whole.
        facts: What the numbers stand for.
    """

    def __init__(self, path: Path, name: str, real: np.dtype, facts: Facts = NUMBERS):
        self.path, self.name, self.real, self.facts = path, name, real, facts
        self._waiting: list[Rows] = []
        self._bytes, self._clients, self._digest, self._classes = 0, 0, sha256(), np.zeros(0)
        self._file: Any = None

    def __enter__(self) -> "ClientWriter":
        return self

    def __exit__(self, kind, error, trace) -> None:
        if kind is None:
            self._flush()
        if self._file is not None:
            self._file.close()
        if kind is None and not self._clients:
            raise UserError("a client file needs at least one client: give some")

    def add(self, features: np.ndarray, labels: np.ndarray) -> None:
        """Add the rows of the next client.

        Args:
            features: Features [n_i, ...].
            labels: Labels [n_i].
        """
        parts = _stored(features, self.real), _stored(labels, self.real)
        if self._waiting or self._file is not None:
            for part, kind, (row, dtype) in zip(parts, COLUMNS, self._kinds, strict=True):
                if part.shape[1:] != row:
                    raise UserError(
                        f"client {self._clients} has {kind} of shape {part.shape[1:]}, and client 0 of {row}: make them alike"
                    )
                if not np.can_cast(part.dtype, dtype):
                    raise UserError(
                        f"client {self._clients} has {kind} of {part.dtype}, and client 0 of {dtype}: make them alike"
                    )
        else:
            self._kinds = [(part.shape[1:], part.dtype) for part in parts]
        self._waiting.append(parts)
        self._clients += 1
        self._bytes += sum(part.nbytes for part in parts)
        if self._bytes >= BATCH:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        pyarrow, sizes = arrow(), [len(labels) for _, labels in self._waiting]
        offsets, lists = pyarrow.array(np.concatenate([[0], np.cumsum(sizes)]), pyarrow.int64()), []
        self._digest.update(np.asarray(sizes, "<i8").tobytes())
        for parts, (_, dtype) in zip(zip(*self._waiting, strict=True), self._kinds, strict=True):
            whole = np.concatenate(parts).astype(dtype, copy=False)
            self._digest.update(whole)
            values = pyarrow.array(whole.reshape(-1))
            if whole.ndim > 1:
                values = pyarrow.FixedSizeListArray.from_arrays(values, int(np.prod(whole.shape[1:])))
            lists.append(pyarrow.LargeListArray.from_arrays(offsets, values))
            if whole.ndim == 1 and self._classes.size <= CLASSES:
                self._classes = np.union1d(self._classes, whole)
        if self._file is None:
            fields = [pyarrow.field(name, part.type) for name, part in zip(COLUMNS, lists, strict=True)]
            facts = {"format": FORMAT, "name": self.name, "shape": self._kinds[0][0], **self.facts.entries()}
            self._file = pyarrow.ipc.new_file(str(self.path), pyarrow.schema(fields, metadata={KEY: json.dumps(facts)}))
        so_far = {
            "digest": self._digest.hexdigest(),
            "classes": None if self._classes.size > CLASSES else self._classes.tolist(),
        }
        batch = pyarrow.record_batch(lists, names=list(COLUMNS))
        self._file.write_batch(batch, custom_metadata={KEY: json.dumps(so_far)})
        self._waiting, self._bytes = [], 0


def _stored(part: np.ndarray, real: np.dtype) -> np.ndarray:
    """Return features or labels as a file stores them: bytes as they are, whole labels in 32 bits, other numbers as `real`."""
    if part.dtype == np.uint8:
        return part
    if part.dtype.kind in "bi" and part.ndim == 1:
        return narrowed(part, np.int32, "a column of labels")
    if part.dtype.kind not in "biuf":
        raise UserError(f"labels of a client file are numbers, but these are {part.dtype}: number them")
    return narrowed(part, real, "a client file")


@contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """Give a folder beside a file for its parts, which is gone at the end."""
    try:
        with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            yield Path(folder)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}): free some space, or give a folder that exists") from None
