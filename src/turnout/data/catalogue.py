"""The known data sets: what they are, where they come from, how to load and fetch them."""

import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from turnout.data.dataset import Dataset, checksum
from turnout.data.libsvm import OPENERS, read_libsvm
from turnout.data.mnist import MIRROR, PARTS, mnist_files, read_mnist
from turnout.data.synthetic import synthetic
from turnout.errors import UserError, unknown

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
TIMEOUT = 60
"""Seconds that a download may stand still."""


@dataclass(frozen=True)
class Entry:
    """One known data set; `classes` is None for regression, `remote` is its file on the LIBSVM site.

    `checksum` is `dataset.checksum` of the parsed content, so that neither compression nor spelling nor the order of
    rows matters; None for what comes with scikit-learn or is `generated`, and where it is not known: then the shape is verified.
    """

    name: str
    rows: int
    features: int
    classes: int | None
    remote: str | None = None
    checksum: str | None = None
    bundled: bool = False
    generated: bool = False

    @property
    def origin(self) -> str:
        """Where the data come from."""
        if self.bundled:
            return "scikit-learn"
        if self.generated:
            return "generated when used"
        return f"LIBSVM {self.remote}" if self.remote else "MNIST idx files"


# No row of a6a or a9a.t has feature 123: a6a is known with 122 features, a9a.t with the 123 of a9a, which it tests.
_ENTRIES = (
    Entry("mushrooms", 8124, 112, 2, "binary/mushrooms", "c18b0c5e18ce6e799214df64e8136ce55d8d7f443ddf829125be5adf7d252036"),
    Entry("a6a", 11220, 122, 2, "binary/a6a", "0b843c812b54bf9dd160447d5a49bd0ba5e1b4ebf6e5cd03bbb08a33a546c6ab"),
    Entry("a6a.t", 21341, 123, 2, "binary/a6a.t", "364cde529dfbce8752cbeae4dad3449a6147d3b9e562c5c9de3be3770d23f192"),
    Entry("a9a", 32561, 123, 2, "binary/a9a", "0d1d94c0a53831025ddc0936823bc9ceece69ff17bcf41408c93e2f15857264f"),
    Entry("a9a.t", 16281, 123, 2, "binary/a9a.t", "ef4ff0d6e52f7a9fe902cfe2d28b0c40ff9556c65465f54055ac5d4031836e60"),
    Entry("w8a", 49749, 300, 2, "binary/w8a", "06a7c32551c7502dd39e2faaa49b81248da8eefdf089e4ab9134832c4706f36d"),
    Entry("w8a.t", 14951, 300, 2, "binary/w8a.t", "816fda99b5a4c3ccec7d7cc499102ba78cbc4a446386c6431e6930cdf5cc30df"),
    Entry("ijcnn1", 49990, 22, 2, "binary/ijcnn1.bz2", "29c4eb03c4bf2f6e69da8dfc52d0a2142b2923510fa7bc307df28599cfc333c0"),
    Entry("duke", 44, 7129, 2, "binary/duke.bz2", "3fd3aa008f071029c331a137bc8a139bb6b7317affdf4df70bf1331a2432dfc6"),
    Entry(
        "news20", 15935, 62061, 20, "multiclass/news20.bz2", "e8ae5de7e1fc61bf08676909d7164652fb72cdb7509394975ec030b6775b7644"
    ),
    Entry("rcv1_train.binary", 20242, 47236, 2, "binary/rcv1_train.binary.bz2"),
    Entry("mnist", 60000, 784, 10, None, "5bdc86d445a407a405454c767798f67780ebe32d2df4c2dd260e57bf8f110c88"),
    Entry("mnist.t", 10000, 784, 10, None, "3c0717c156f23bb4a16d89e2311d239cfbd942f49aab592944bc8ae49347f1f7"),
    Entry("breast_cancer", 569, 30, 2, bundled=True),
    Entry("digits", 1797, 64, 10, bundled=True),
    Entry("iris", 150, 4, 3, bundled=True),
    Entry("wine", 178, 13, 3, bundled=True),
    Entry("diabetes", 442, 10, None, bundled=True),
    Entry("synthetic", 32417, 60, 10, generated=True),
    Entry("synthetic.t", 3651, 60, 10, generated=True),
)
CATALOGUE = {entry.name: entry for entry in _ENTRIES}


def load(name: str | Path, folder: str | Path | None = None) -> Dataset:
    """Load a known data set from `folder`, $TURNOUT_DATA or scikit-learn, generate it, or read the LIBSVM file at path `name`."""
    entry = CATALOGUE.get(str(name))
    if entry is not None and entry.bundled:
        return _bundled(entry)
    if entry is not None and entry.generated:
        return next(part for part in synthetic() if part.name == entry.name)
    path = present(str(name), folder) if entry is not None else None
    if entry is not None and path is not None:
        return _known(entry, path)
    path = Path(name)
    if os.path.exists(path) or len(path.parts) > 1:
        return read_libsvm(path)
    if entry is None:
        raise unknown("data set", str(name), CATALOGUE)
    raise UserError(f"data set {name} is not here: {remedy([entry.name])}, or set TURNOUT_DATA to its folder")


def remedy(names: list[str]) -> str:
    """Say how to get the known data sets `names`, none of which comes with a package or is generated."""
    fetched = [name for name in names if CATALOGUE[name].remote is not None]
    files = [file for name in names if name not in fetched for file in mnist_files(name)]
    ways = [f"run turnout data fetch {name}" for name in fetched]
    if files:
        ways.append(f"put {', '.join(files[:-1])} and {files[-1]} from {MIRROR} into $TURNOUT_DATA")
    return " and ".join(ways)


def present(name: str, folder: str | Path | None = None) -> Path | None:
    """Return where a known data set's file is, in `folder` or else in $TURNOUT_DATA; None where it is in neither."""
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
    for place in map(Path, filter(None, (folder, os.environ.get("TURNOUT_DATA")))):
        if name in PARTS:
            images, labels = (place / file for file in mnist_files(name))
            if images.is_file() and labels.is_file():
                return images
            continue
        for ending in ("", *OPENERS):
            if (place / (name + ending)).is_file():
                return place / (name + ending)
    return None


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
        files = " and ".join(mnist_files(name))
        raise UserError(f"data set {name} is not on the LIBSVM site: put {files} from {MIRROR} into {folder}")
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
    if entry.name in PARTS:
        dataset = read_mnist(entry.name, path.parent)
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
