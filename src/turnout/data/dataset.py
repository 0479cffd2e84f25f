"""`Dataset`: features or images, labels, and the natural client of each row."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from turnout.core.errors import UserError, unknown

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features or images, labels and natural clients of rows.

    Args:
        name: The name in messages.
        features: Dense or sparse features [rows, d], converted to float64, sparse ones with sorted indices and without stored
            zeros; or images as bytes [rows, height, width] or [rows, height, width, channels], which stay bytes.
        labels: The label of each row [rows].
        ids: The natural client of each row [rows], numbers or names; None if there are none.

    Raises:
        UserError: Lengths differ, or a feature or label is NaN or infinite.

    Examples:
        >>> import numpy as np
        >>> from turnout.data import Dataset
        >>> data = Dataset("mine", np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([0, 1]))
        >>> data.normalized("rows").features.tolist()
        [[0.6, 0.8], [0.0, 1.0]]
    """

    name: str
    features: "np.ndarray | csr_array"
    labels: np.ndarray
    ids: np.ndarray | None = None

    content: ClassVar[str] = ""
    """A digest of the content, if it is known without reading it."""

    own_offsets: ClassVar[np.ndarray | None] = None
    """Where the rows of each client begin, if rows lie client by client."""

    def __post_init__(self):
        features = _canonical(self.features) if is_sparse_matrix(self.features) else np.asarray(self.features)
        if isinstance(features, np.ndarray) and not (features.dtype == np.uint8 and features.ndim in (3, 4)):
            features = features.astype(np.float64, copy=False)
            if features.ndim != 2:
                raise UserError(
                    f"data set {self.name}: features have shape {features.shape}: give rows of numbers or images as bytes"
                )
        object.__setattr__(self, "features", features)
        self._set_column("labels", self.labels)
        if self.ids is not None:
            self._set_column("ids", self.ids)
        self._check_finite()

    def _set_column(self, field: str, values) -> None:
        values = np.asarray(values)
        if values.shape != (self.rows,):
            raise UserError(f"data set {self.name}: {field} have shape {values.shape}: give {self.rows}, one a row")
        object.__setattr__(self, field, values)

    def _check_finite(self) -> None:
        if self.images:
            bad = np.zeros(self.rows, bool)
        elif isinstance(self.features, np.ndarray):
            bad = ~np.isfinite(self.features).all(axis=1)
        else:
            bad = np.zeros(self.rows, bool)
            bad[np.repeat(np.arange(self.rows), np.diff(self.features.indptr))[~np.isfinite(self.features.data)]] = True
        for what, where in (("feature", bad), ("label", _not_finite(self.labels))):
            if where.any():
                raise UserError(
                    f"data set {self.name}: row {np.argmax(where) + 1} has a {what} that is NaN or infinite: "
                    "remove the row or fill the value in"
                )

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.features.shape[0]

    @property
    def images(self) -> bool:
        """Whether the features are images."""
        return len(self.features.shape) > 2

    @property
    def width(self) -> int:
        """The number of values of a row."""
        return math.prod(self.features.shape[1:])

    @property
    def classes(self) -> np.ndarray:
        """The distinct labels in increasing order."""
        return np.unique(self.labels)

    def recoded(self, recode: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the labels, changed by a function of arrays of labels.

        Args:
            recode: The function.
        """
        return recode(self.labels)

    def flat(self) -> "Dataset":
        """Return the data set with each image as a row of numbers bytes / 255; without images, the data set itself."""
        return replace(self, features=self.features.reshape(self.rows, -1) / 255) if self.images else self

    def normalized(self, how: str) -> "Dataset":
        """Return the data set with scaled features, images flattened.

        Args:
            how: "none"; "rows" for rows of Euclidean length 1, zero rows staying zero; "columns" for columns with mean 0 and
                standard deviation 1, constant columns becoming zero.

        Raises:
            UserError: `how` is unknown, or "columns" for sparse features.
        """
        scalings = {"none": None, "rows": unit_rows, "columns": self._standard_columns}
        if how not in scalings:
            raise unknown("normalization", how, scalings)
        return self if how == "none" else replace(self, features=scalings[how](self.flat().features))

    def _standard_columns(self, features):
        if is_sparse_matrix(features):
            raise UserError(
                f"data set {self.name} is sparse, and centring its columns would store every zero: "
                "normalize 'rows' instead, or give dense features"
            )
        if not self.rows:
            return features
        centred = features - features.mean(axis=0)
        deviation = centred.std(axis=0)
        varies = (features != features[:1]).any(axis=0) & (deviation > 0)
        return np.where(varies, centred / np.where(varies, deviation, 1), 0)


def digest(dataset: Dataset) -> str:
    """Return the SHA-256 of the parsed content in the order of its rows."""
    if dataset.content:
        return dataset.content
    features, total = dataset.features, sha256()
    if isinstance(features, np.ndarray):
        arrays = [np.array(features.shape), features]
    else:
        arrays = [np.array(features.shape), features.indptr, features.indices, features.data]
    for array in [*arrays, dataset.labels, *([] if dataset.ids is None else [dataset.ids])]:
        total.update(_bytes(array))
    return total.hexdigest()


def checksum(dataset: Dataset) -> str:
    """Return the SHA-256 of the rows in any order: that of the sorted SHA-256 of each row's label, columns and values."""
    features, labels = dataset.flat().features, dataset.labels.astype("<f8")
    if isinstance(features, np.ndarray):
        # Row by row: a converted copy of a large dense matrix would double its memory.
        rows = (_entries(np.flatnonzero(row), row[row != 0]) for row in features)
    else:
        bounds = zip(features.indptr, features.indptr[1:], strict=False)
        columns, values = features.indices.astype("<i8"), features.data.astype("<f8")
        rows = (_entries(columns[a:b], values[a:b]) for a, b in bounds)
    digests = [sha256(label.tobytes() + row).digest() for label, row in zip(labels, rows, strict=True)]
    return sha256(b"".join(sorted(digests))).hexdigest()


def _entries(columns, values) -> bytes:
    return columns.astype("<i8").tobytes() + values.astype("<f8").tobytes()


def _bytes(array: np.ndarray) -> bytes:
    if array.ndim > 2:
        return array.tobytes()
    if array.dtype.kind in "biu":
        return array.astype("<i8").tobytes()
    return array.astype("<f8").tobytes() if array.dtype.kind == "f" else "\n".join(map(str, array)).encode()


def is_sparse_matrix(value) -> bool:
    """Return whether `value` is a matrix of scipy.sparse, which is imported already if it is."""
    return "scipy.sparse" in sys.modules and sys.modules["scipy.sparse"].issparse(value)


def _canonical(matrix) -> "csr_array":
    from scipy.sparse import csr_array

    matrix = csr_array(matrix, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    # scikit-learn's k-means refuses 64-bit indices.
    small = np.int32 if max(matrix.nnz, matrix.indptr.size, matrix.indices.max(initial=0)) < 2**31 else np.int64
    return csr_array((matrix.data, matrix.indices.astype(small), matrix.indptr.astype(small)), shape=matrix.shape)


def _not_finite(values: np.ndarray) -> np.ndarray:
    return ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)


def unit_rows(features):
    """Return features as rows of length 1, divided by their largest entry first so that squares neither overflow nor vanish."""
    if isinstance(features, np.ndarray):
        scaled = features / _or_one(np.abs(features).max(axis=1, initial=0))[:, None]
        return scaled / _or_one(np.linalg.norm(scaled, axis=1))[:, None]
    owner = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    largest = np.zeros(features.shape[0])
    np.maximum.at(largest, owner, np.abs(features.data))
    scaled = features.data / largest[owner]
    lengths = np.sqrt(np.bincount(owner, scaled**2, minlength=features.shape[0]))
    from scipy.sparse import csr_array

    return csr_array((scaled / lengths[owner], features.indices, features.indptr), shape=features.shape)


def _or_one(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 1)
