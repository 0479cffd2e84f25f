"""The known data sets: loading and fetching them."""

import http.client
import os
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from turnout.core.errors import UserError, unknown
from turnout.data.dataset import Dataset, checksum
from turnout.data.entries import CATALOGUE as CATALOGUE
from turnout.data.entries import Entry
from turnout.data.libsvm import OPENERS, read_libsvm
from turnout.data.source import Source, places
from turnout.data.synthetic import synthetic

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
TIMEOUT = 60
"""Seconds that a download may stand still."""


def load(name: str | Path | Source, folder: str | Path | None = None) -> Dataset:
    """Load a known data set from `folder`, $TURNOUT_DATA or scikit-learn, generate it, or read the LIBSVM file at path `name`.

    What is no name or path is read as it says itself.
    """
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
            f"{path} is no LIBSVM text: write data as a table with a kind, such as {{kind = 'parquet', path = '{path}'}}"
        )
    if os.path.exists(path) or len(path.parts) > 1:
        return read_libsvm(path)
    if entry is None:
        raise unknown("data set", str(name), CATALOGUE)
    raise UserError(f"data set {name} is not here: {remedy([entry.name])}, or set TURNOUT_DATA to its folder")


OTHERS = (".parquet", ".h5", ".hdf5", ".json", ".npz", ".csv")
"""Endings of what is no LIBSVM text."""


def remedy(names: list[str]) -> str:
    """Say how to get the known data sets `names`, none of which comes with a package or is generated."""
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
    """Return where a known data set's file is, in `folder` or else in $TURNOUT_DATA; None where it is in neither."""
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
    for place in places(folder):
        found = [_compressed(place, file) for file in CATALOGUE[name].files or (name,)]
        if all(found):
            return found[0]
    return None


def _compressed(place: Path, file: str) -> Path | None:
    """Return where `file` is in `place`, as it is or compressed."""
    return next((place / (file + ending) for ending in ("", *OPENERS) if (place / (file + ending)).is_file()), None)


def fetch(name: str, folder: str | Path, base_url: str = LIBSVM) -> Path:
    """Download a known data set into `folder`, verify its content (its shape where no checksum is known) and return its path.

    Whatever goes wrong raises `UserError` and leaves what was in the folder as it was.
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
        # Inside the folder, so that the last step is a rename within one file system.
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
        wrong = _differs(entry, read_libsvm(path, entry.features))
    except UserError as error:
        wrong = str(error).replace(f"{path}, ", "").replace(f"{path}: ", "")
    if wrong:
        raise UserError(f"{url} is not the data set {entry.name} ({wrong}): fetch it again, or give another --base-url")


def _differs(entry: Entry, dataset: Dataset) -> str | None:
    """Say in what `dataset`, which has the width of `entry`, is not what the catalogue knows; None where nothing differs."""
    if entry.checksum is not None:
        return "its checksum differs" if checksum(dataset) != entry.checksum else None
    return f"it has {dataset.rows} rows, not {entry.rows}" if dataset.rows != entry.rows else None


def _known(entry: Entry, path: Path) -> Dataset:
    if entry.read is not None:
        dataset = entry.read(entry.name, path)
    else:
        dataset = replace(read_libsvm(path, entry.features), name=entry.name)
    if (dataset.rows, dataset.width) != (entry.rows, entry.features):
        shape = f"{dataset.rows} rows and {dataset.width} features"
        raise UserError(f"{path} has {shape}, but {entry.name} has {entry.rows} and {entry.features}: replace the file")
    return dataset


def _bundled(entry: Entry) -> Dataset:
    from sklearn import datasets

    features, labels = getattr(datasets, f"load_{entry.name}")(return_X_y=True)
    return Dataset(entry.name, features, labels)
