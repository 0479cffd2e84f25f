"""Loading and fetching data sets by name."""

import http.client
import os
import urllib.error
import urllib.request
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from turnout.core.errors import UserError, unknown
from turnout.core.extras import extra
from turnout.core.kept import kept
from turnout.data.client_file import ClientFile
from turnout.data.columns import Columns
from turnout.data.dataset import Dataset, checksum
from turnout.data.entries import CATALOGUE as CATALOGUE
from turnout.data.entries import Entry
from turnout.data.files import OPENERS
from turnout.data.in_hand import dataset_in_hand, is_in_hand
from turnout.data.libsvm import Libsvm, read_libsvm
from turnout.data.preprocessing import Preprocessing, TableOptions, rules_of
from turnout.data.source import Source, places
from turnout.data.synthetic import synthetic
from turnout.data.tables import Csv, Parquet

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
TIMEOUT = 60
"""Seconds without data after which a download fails."""


def load(
    name: Any,
    folder: str | Path | None = None,
    *,
    label: str = "label",
    client: str | None = None,
    hub: str | None = None,
    features: list[str] | None = None,
    like: Dataset | None = None,
    **options: Any,
) -> Dataset:
    """Load a data set.

    Args:
        name: A name in the `CATALOGUE`; the path of a LIBSVM, CSV or parquet file; a `Source`, which loads itself; or data:
            arrays (features, labels) or (features, labels, clients), a frame of polars or pandas, a dict of columns, a data set
            of Hugging Face, or a data set of PyTorch whose items are (features, label).
        folder: Where to look for files before $TURNOUT_DATA.
        label: The column of labels of a frame or table; "" where there is none, as for texts that a language model learns.
        client: Its column of natural clients, or None; "qid" for the queries of LIBSVM text.
        hub: Its column of the hubs of the clients, or None.
        features: Its columns of features; None means all others.
        like: The data set that a model is trained on, where this one is to test it: it has its columns, categories and fillings.
        **options: How the columns of a frame or table become features, such as missing="mean", categories=["zip"] or
            dates="days", and how a CSV file is written: see `Parquet` and `Csv`.

    Returns:
        The data set, read from files, bundled with scikit-learn, or generated.

    Raises:
        UserError: The name is unknown, its files are missing, or a file or data are not what they should be.

    Examples:
        >>> from turnout.data import load
        >>> data = load("breast_cancer")
        >>> data.rows, data.width
        (569, 30)
        >>> load({"age": [30.0, 40.0], "visits": [1, 5], "bought": [0, 1]}, label="bought").rows
        2
    """
    loaded = _loaded(name, folder, Columns(features, label, client, hub), options, None if like is None else like.preprocessing)
    return loaded if like is None else loaded.like(like)


def load_test(name: Any, folder: str | Path | None, train: Dataset) -> Dataset:
    """Return a test set with the categories and fillings of a training set, before it is matched with that by `Dataset.like`.

    Args:
        name: As for `load`.
        folder: As for `load`.
        train: The training set.
    """
    return _loaded(name, folder, Columns(), {}, train.preprocessing)


def _loaded(
    name: Any, folder: str | Path | None, columns: Columns, options: dict[str, Any], rules: Preprocessing | None
) -> Dataset:
    rules = None if rules is None or rules.columns is None else replace(rules, scalings=())
    if isinstance(name, Dataset):
        return name
    if is_in_hand(name):
        given = TableOptions(**_checked(TableOptions, options))
        return dataset_in_hand(name, columns, given, rules_of(given, folder) if rules is None else rules)
    if not isinstance(name, (str, Path, Source)):
        raise UserError(
            f"a {type(name).__name__} is no data: give a name, a path, arrays (features, labels), or a frame with a label column"
        )
    if isinstance(name, (str, Path)) and Path(name).suffix in TABLES:
        name, options, columns = table_of(str(name), columns, options), {}, Columns()
    if isinstance(name, TableOptions) and rules is not None:
        name = replace(name, preprocessing=rules)
    if isinstance(name, (str, Path)) and Path(name).suffix == ".arrow":
        return ClientFile(str(name)).load(folder)
    if columns == Columns(client="qid") and not options and isinstance(name, (str, Path)) and str(name) not in CATALOGUE:
        return Libsvm(str(name), client="qid").load(folder)
    if columns != Columns() or options:
        further = ", ".join(["features, label, client and hub", *options])
        raise UserError(f"data set {name} has no columns to choose: leave out {further}")
    if isinstance(name, Source):
        return name.load(folder)
    entry = CATALOGUE.get(str(name))
    if entry is not None and entry.bundled:
        return _bundled(entry)
    if entry is not None and entry.generated:
        return next(part for part in synthetic() if part.name == entry.name)
    path = present(str(name), folder) if entry is not None else None
    if entry is not None and path is not None:
        return _known(entry, path)
    path = Path(name)
    if path.suffix in OTHERS or os.path.isdir(path):
        raise UserError(
            f"{path} is no LIBSVM text: write data as a table with a kind, such as {{kind = 'hdf5', path = '{path}'}}"
        )
    if os.path.exists(path) or len(path.parts) > 1:
        return read_libsvm(path)
    if entry is None:
        raise unknown("data set", str(name), CATALOGUE)
    raise UserError(f"data set {name} is not here: {remedy([entry.name])}, or set TURNOUT_DATA to its folder")


def table_of(path: str, columns: Columns, options: dict[str, Any]) -> Csv | Parquet:
    """Return the description of a table.

    Args:
        path: The file.
        columns: The columns to take.
        options: Options of the kind of table.
    """
    kind = TABLES.get(Path(path).suffix, Parquet)
    return kind(path, **columns._asdict(), **_checked(kind, options))


def _checked(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a kind of table; `UserError` where it has no such option."""
    known = [each.name for each in fields(kind)]
    for name in options:
        if name not in known:
            raise unknown("option of a table", name, known)
    return options


TABLES = {".parquet": Parquet, ".csv": Csv}
"""Formats of tables by the endings of their files."""

OTHERS = (".h5", ".hdf5", ".json", ".npz")
"""Endings of other files that are not LIBSVM text."""


def remedy(names: list[str]) -> str:
    """Return how to get the data sets `names`, none of which is bundled or generated."""
    fetched = [name for name in names if CATALOGUE[name].remote is not None]
    ways = [f"run turnout data fetch {name}" for name in fetched]
    sites: dict[str | None, list[str]] = {}
    for entry in (CATALOGUE[name] for name in names if name not in fetched):
        sites.setdefault(entry.site, []).extend(entry.files)
    for site, files in sites.items():
        *first, last = dict.fromkeys(files)
        ways.append(f"put {', '.join(first)}{' and ' if first else ''}{last}{f' from {site}' if site else ''} into $TURNOUT_DATA")
    return " and ".join(ways)


def present(name: str, folder: str | Path | None = None) -> Path | None:
    """Find the file of a known data set.

    Args:
        name: A name in the `CATALOGUE`.
        folder: Where to look before $TURNOUT_DATA.

    Returns:
        The path of its (first) file, or None if a file is missing.

    Raises:
        UserError: The name is unknown.

    Examples:
        >>> import tempfile
        >>> from turnout.data import present
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     present("rcv1_train.binary", folder) is None
        True
    """
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
    for place in places(folder):
        paths = [_compressed(place, file) for file in CATALOGUE[name].files or (name,)]
        if all(paths):
            return paths[0]
    return None


def _compressed(place: Path, file: str) -> Path | None:
    """Return the path of `file` in `place`, plain or compressed; None if it is not there."""
    return next((place / (file + ending) for ending in ("", *OPENERS) if (place / (file + ending)).is_file()), None)


def fetch(name: str, folder: str | Path, base_url: str = LIBSVM) -> Path:
    """Download a known data set from the LIBSVM site and verify its checksum, or its shape if no checksum is known.

    Args:
        name: A name in the `CATALOGUE`.
        folder: Where to write the file.
        base_url: The site's address, or that of a mirror.

    Returns:
        The path of the file.

    Raises:
        UserError: The data set is not on the site, or the download, the verification or the write fails. The folder is unchanged.

    Examples:
        >>> from turnout.data import fetch
        >>> fetch("unheard-of", ".")
        Traceback (most recent call last):
        ...
        turnout.core.errors.UserError: ...
    """
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
    entry = CATALOGUE[name]
    if entry.bundled:
        raise UserError(f"data set {name} comes with scikit-learn: there is nothing to fetch, use its name")
    if entry.generated:
        raise UserError(f"data set {name} is generated when used: there is nothing to fetch, use its name")
    if entry.remote is None:
        raise UserError(f"data set {name} is not on the LIBSVM site: {remedy([name]).replace('$TURNOUT_DATA', str(folder))}")
    url = f"{base_url.rstrip('/')}/{entry.remote}"
    content = _download(name, url)
    folder, file = Path(folder), Path(entry.remote).name
    target = folder / file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A folder within the target, so that the last step is a rename within one file system.
        with TemporaryDirectory(prefix=".partial-", dir=folder) as partial:
            (Path(partial) / file).write_bytes(content)
            _verify(entry, Path(partial) / file, url)
            os.replace(Path(partial) / file, target)
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror}): choose another folder or free some space") from None
    return target


def _download(name: str, url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        error.close()
        reason = f"HTTP {error.code} {error.reason}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
    raise UserError(f"data set {name} cannot be fetched from {url} ({reason}): check the network, or give another --base-url")


def _verify(entry: Entry, path: Path, url: str) -> None:
    try:
        wrong = _differs(entry, read_libsvm(path, entry.features, zero_based=False))
    except UserError as error:
        wrong = str(error).replace(f"{path}, ", "").replace(f"{path}: ", "")
    if wrong:
        raise UserError(f"{url} is not the data set {entry.name} ({wrong}): fetch it again, or give another --base-url")


def _differs(entry: Entry, dataset: Dataset) -> str | None:
    """Return how `dataset` differs from its catalogue entry; None if it does not."""
    if entry.checksum is not None:
        return "its checksum differs" if checksum(dataset) != entry.checksum else None
    return f"it has {dataset.rows} rows, not {entry.rows}" if dataset.rows != entry.rows else None


def _known(entry: Entry, path: Path) -> Dataset:
    if entry.read is not None:
        dataset = entry.read(entry.name, path)
    else:
        dataset = replace(read_libsvm(path, entry.features, zero_based=False), name=entry.name)
    if (dataset.rows, dataset.width) != (entry.rows, entry.features):
        shape = f"{dataset.rows} rows and {dataset.width} features"
        raise UserError(f"{path} has {shape}, but {entry.name} has {entry.rows} and {entry.features}: replace the file")
    return dataset


def _bundled(entry: Entry) -> Dataset:
    def read() -> list[np.ndarray]:
        datasets = extra("sklearn.datasets", f"data set {entry.name}", "data")
        return [*getattr(datasets, f"load_{entry.name}")(return_X_y=True)]

    # Kept, since the library is slow to import.
    return Dataset(entry.name, *kept("bundled", [entry.name], ["scikit-learn"], read))
