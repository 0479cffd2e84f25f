"""`Dataset`: features or images, labels, and the natural client of each row."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from turnout.core.errors import UserError, caution, unknown
from turnout.core.schema import order_of, refuse_further_labels
from turnout.data.preprocessing import Preprocessing, TableOptions, fitted
from turnout.data.scaling import fitted_scaling

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array


WIDEST = 2**28
"""The most features: a model of more than 2 GiB, of which a run holds several."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features or images, labels and natural clients of rows.

    Args:
        name: The name in messages.
        features: Dense or sparse features [rows, d], converted to float64, sparse ones with sorted indices and without stored
            zeros; or images as bytes [rows, height, width] or [rows, height, width, channels], which stay bytes.
        labels: The label of each row [rows].
        ids: The natural client of each row [rows], numbers or names; None if there are none.
        columns: The name of each feature [d]; None where features go by their numbers.
        known_classes: The labels that rows can have, in increasing order; None: those that they have.
        zero_based: Whether the file numbers features from 0; None where that does not show.
        preprocessing: The rules that made the features, and their scaling; None if there are none.
        table: The columns that the features are made of; None if they are these.
        options: How columns become features.
        hubs: The hub of each row's client [rows], numbers or names; None if there are none.
        texts: The text of each row [rows], of which the features are word counts; None if there are none.

    Raises:
        UserError: Lengths differ, a feature or label is NaN or infinite, or a label is none of `known_classes`.

    Examples:
        >>> import numpy as np
        >>> from turnout.data import Dataset
        >>> data = Dataset("mine", np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([0, 1]))
        >>> data.normalized("rows").features.tolist()
        [[0.6, 0.8], [0.0, 1.0]]
        >>> data
        Dataset('mine': 2 rows of 2 features, labels of 2 values)
    """

    name: str
    features: "np.ndarray | csr_array"
    labels: np.ndarray
    ids: np.ndarray | None = None
    columns: tuple | None = None
    known_classes: np.ndarray | None = None
    zero_based: bool | None = None
    preprocessing: Preprocessing | None = None
    table: "pl.DataFrame | None" = None
    options: TableOptions | None = None
    hubs: np.ndarray | None = None
    texts: np.ndarray | None = None

    content: ClassVar[str] = ""
    """A digest of the content, if it is known without reading it."""

    own_offsets: ClassVar[np.ndarray | None] = None
    """Where the rows of each client begin, if rows lie client by client."""

    def __post_init__(self):
        sparse, what = is_sparse_matrix(self.features), f"data set {self.name}: features"
        features = _canonical(self.features, what) if sparse else unmasked(self.features, what)
        if features.dtype.kind == "c":
            raise UserError(f"{what} are complex numbers, which no model takes: give their parts as columns")
        if isinstance(features, np.ndarray) and not (features.dtype == np.uint8 and features.ndim in (3, 4)):
            features = features.astype(np.float64, copy=False)
            if features.ndim != 2:
                raise UserError(
                    f"data set {self.name}: features have shape {features.shape}: give rows of numbers or images as bytes"
                )
        object.__setattr__(self, "features", features)
        self._set_column("labels", self.labels)
        for field in ("ids", "hubs"):
            if getattr(self, field) is not None:
                self._set_column(field, getattr(self, field))
        self._check_finite()
        if self.columns is not None and len(self.columns) != self.width:
            raise UserError(f"data set {self.name}: {len(self.columns)} names for {self.width} features: give one for each")
        if self.table is not None and len(self.table) != self.rows:
            # The features of other rows were put in the place of those of the table.
            object.__setattr__(self, "table", None)
        if self.texts is not None and len(self.texts) != self.rows:
            object.__setattr__(self, "texts", None)
        if self.known_classes is not None:
            object.__setattr__(self, "known_classes", np.unique(self.known_classes))
            refuse_further_labels(self.name, np.unique(self.labels).tolist(), self.classes.tolist(), "known_classes")

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.features.shape[1:]))
        kind = (
            f"images of {shape} bytes"
            if self.images
            else f"rows of {shape} {'sparse ' * is_sparse_matrix(self.features)}features"
        )
        clients = "" if self.ids is None else f", {np.unique(self.ids).size:,} natural clients"
        return f"Dataset({self.name!r}: {self.rows:,} {kind}, labels of {np.unique(self.labels).size:,} values{clients})"

    def _set_column(self, field: str, values) -> None:
        values = unmasked(values, f"data set {self.name}: {field}")
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
        """The labels that rows can have, in increasing order."""
        return np.unique(self.labels) if self.known_classes is None else self.known_classes

    def recoded(self, recode: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the labels, changed by a function of arrays of labels.

        Args:
            recode: The function.
        """
        return recode(self.labels)

    def like(self, train: "Dataset", numbered: bool = True) -> "Dataset":
        """Return this data set as one to test what is trained on `train`: with its columns, in their order, and its classes.

        Columns go by their names where both data sets have names; else by their numbers, with a warning where the widths differ.

        Args:
            train: The training set.
            numbered: Whether its labels are classes, which a model numbers.

        Raises:
            UserError: A column is missing or one too many, images have another shape, or a label is not in `train`.

        Examples:
            >>> from turnout.data import load
            >>> train = load({"age": [30.0, 40.0], "visits": [1, 5], "label": [0, 1]})
            >>> test = load({"visits": [2], "age": [50.0], "label": [1]}).like(train)
            >>> test.features.tolist(), test.classes.tolist()
            ([[50.0, 2.0]], [0, 1])
        """
        data = matched(self, train)
        if not numbered:
            return data
        refuse_further_labels(self.name, self.classes.tolist(), train.classes.tolist(), train.name)
        return replace(data, known_classes=train.classes)

    def flat(self) -> "Dataset":
        """Return the data set with each image as a row of numbers bytes / 255; without images, the data set itself."""
        return replace(self, features=self.features.reshape(self.rows, -1) / 255) if self.images else self

    def normalized(self, how: str, rows: np.ndarray | None = None) -> "Dataset":
        """Return the data set with scaled features, images flattened.

        Args:
            how: "none"; "rows" for rows of Euclidean length 1, zero rows staying zero; "columns" for columns with mean 0 and
                standard deviation 1, constant columns becoming zero.
            rows: The rows whose mean and deviation are taken; None for all.

        Raises:
            UserError: `how` is unknown, or "columns" for sparse features.
        """
        if how == "none":
            return self
        if how not in ("rows", "columns"):
            raise unknown("normalization", how, ("none", "rows", "columns"))
        features, before = self.flat().features, self.preprocessing or Preprocessing()
        if how == "columns" and is_sparse_matrix(features):
            raise UserError(
                f"data set {self.name} is sparse, and centring its columns would store every zero: "
                "normalize 'rows' instead, or give dense features"
            )
        scaling = fitted_scaling(how, features if rows is None else features[rows])
        after = replace(before, scalings=(*before.scalings, scaling))
        return replace(self, features=scaling.scaled(features), preprocessing=after)

    def fitted(self, rows: np.ndarray) -> "Dataset":
        """Return the data set with its categories and fillings taken from some rows alone, such as those of training clients.

        Args:
            rows: The numbers of the rows.
        """
        if self.table is None or self.options is None or self.options.preprocessing is not None:
            return self
        rules = fitted(self.table[rows].lazy(), self.options, lambda row, name, remedy: UserError(f"{name}: {remedy}"))
        features, columns, _ = rules.encoded(self.table, self.name)
        return replace(self, features=features, columns=columns, preprocessing=rules)


def matched(test: Dataset, train: Dataset) -> Dataset:
    """Return `test` with the columns of `train`; see `Dataset.like`.

    Args:
        test: The test set.
        train: The training set.
    """
    if test.images and train.images:
        shapes = [" x ".join(map(str, data.features.shape[1:])) for data in (test, train)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"{test.name} has images of {shapes[0]} and {train.name} of {shapes[1]}: test with images of that shape"
            )
        return test
    test, rules = test.flat(), train.preprocessing
    if rules is not None and rules.columns is not None and rules != test.preprocessing:
        test = _encoded(test, train, rules)
    scalings, own = (() if each is None else each.scalings for each in (rules, test.preprocessing))
    if own not in ((), scalings):
        raise UserError(f"{test.name} is scaled already, by rows of its own: leave that to like({train.name})")
    if test.columns is not None and train.columns is not None:
        order = order_of(test.columns, train.columns, test.name, train.name)
        features = test.features if order is None else _changed(test.features, lambda rows: rows[:, order])
    else:
        test = _renumbered(test, train)
        features = _resized(test, train)
    if rules is not None and own != scalings:
        features = _changed(features, rules.scaled)
    return replace(test, features=features, columns=train.columns, zero_based=train.zero_based, preprocessing=rules)


def _encoded(test: Dataset, train: Dataset, rules: Preprocessing) -> Dataset:
    """Return `test` with the features that the rules of `train` make of its table; itself if it is none."""
    table = test.table
    if table is None:
        if test.columns is None or not isinstance(test.features, np.ndarray) or test.preprocessing is not None:
            return test
        # Slow to import.
        import polars as pl

        table = pl.DataFrame(test.features, [*map(str, test.columns)], orient="row")
    names = tuple(rule.name for rule in rules.columns or ())
    order_of(tuple(table.columns), names, test.name, train.name)
    features, columns, kept = rules.encoded(table, test.name)
    ids = None if test.ids is None else test.ids[kept]
    rest = {
        "ids": ids,
        "hubs": None,
        "columns": columns,
        "table": table.filter(kept),
        "preprocessing": replace(rules, scalings=()),
    }
    return replace(test, features=features, labels=test.labels[kept], **rest)


def _renumbered(test: Dataset, train: Dataset) -> Dataset:
    """Return `test` with its features numbered from 0 where only those of `train` show that they are."""
    if test.zero_based and train.zero_based is None:
        raise UserError(
            f"{test.name} numbers features from 0, and {train.name} has no feature 0: say zero_based = true for both, if that "
            "does so too"
        )
    if not (train.zero_based and test.zero_based is None and is_sparse_matrix(test.features)):
        return test
    from scipy.sparse import csr_array

    features: Any = test.features
    shifted = csr_array((features.data, features.indices + 1, features.indptr), shape=(test.rows, test.width + 1))
    return replace(test, features=shifted, zero_based=True)


def _resized(test: Dataset, train: Dataset):
    """Return the features of `test` [rows, d], cut or filled with zeros to the width of `train`, with a warning."""
    features, width = test.features, train.width
    if test.width == width:
        return features
    what = f"features {width + 1} to {test.width} are left out" if test.width > width else "the others are taken to be 0"
    caution(f"{test.name} has {test.width} features and {train.name} has {width}, which go by their numbers: {what}")
    if not is_sparse_matrix(features):
        return _changed(features, lambda rows: np.pad(rows[:, :width], ((0, 0), (0, max(0, width - rows.shape[1])))))
    resized = features.copy()
    resized.resize((test.rows, width))
    return resized


def _changed(features, change: Callable[[np.ndarray], np.ndarray]):
    """Return features, changed by a function of arrays of rows; those that are not in memory are changed when they are read."""
    return features.recoded(change) if hasattr(features, "recoded") else change(features)


def digest(dataset: Dataset) -> str:
    """Return the SHA-256 of the parsed content in the order of its rows."""
    if dataset.content:
        return dataset.content
    features, total = dataset.features, sha256()
    if isinstance(features, np.ndarray):
        arrays = [np.array(features.shape), features]
    else:
        arrays = [np.array(features.shape), features.indptr, features.indices, features.data]
    for array in [*arrays, dataset.labels, *(each for each in (dataset.ids, dataset.hubs, dataset.texts) if each is not None)]:
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


def unmasked(values, what: str) -> np.ndarray:
    """Return values as an array; `UserError` where some are masked, since an array would show what lies below the mask."""
    if np.ma.is_masked(values):
        raise UserError(f"{what} are masked in places: fill these in, or leave their rows out")
    return np.asarray(values)


def _canonical(matrix, what: str) -> "csr_array":
    from scipy.sparse import csr_array

    if matrix.dtype.kind not in "biuf":
        raise UserError(f"{what} are {matrix.dtype}, which no model takes: give numbers")
    if matrix.shape[1] > WIDEST:
        raise UserError(
            f"{what} go up to number {matrix.shape[1]:,}, so that a model takes {8 * matrix.shape[1] / 2**30:.0f} GiB: correct "
            "the index, or number the features that occur anew"
        )
    # Entries of the same place are added up, which a narrow type may not hold.
    matrix = csr_array(matrix.astype(np.float64), copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    # scikit-learn's k-means refuses 64-bit indices.
    small = np.int32 if max(matrix.nnz, matrix.indptr.size, matrix.indices.max(initial=0)) < 2**31 else np.int64
    return csr_array((matrix.data, matrix.indices.astype(small), matrix.indptr.astype(small)), shape=matrix.shape)


def _not_finite(values: np.ndarray) -> np.ndarray:
    return ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
