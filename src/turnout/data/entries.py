"""The catalogue: the known data sets, their shapes, checksums and origins."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from turnout.data.ag_news import AG_NEWS, ag_news, ag_news_minilm
from turnout.data.cifar import CIFAR, read_cifar
from turnout.data.columns import WORDS
from turnout.data.dataset import Dataset
from turnout.data.emnist import emnist_files, read_emnist
from turnout.data.mnist import MIRROR, mnist_files, read_mnist

EMNIST = "https://www.nist.gov/itl/products-and-services/emnist-dataset"


@dataclass(frozen=True)
class Entry:
    """One known data set.

    Args:
        name: Its name.
        rows: Its number of rows.
        features: Its number of features.
        classes: Its number of classes; None for regression.
        remote: Its file on the LIBSVM site, if it is there.
        checksum: `dataset.checksum` of its content; None if bundled, generated or unknown.
        bundled: Whether scikit-learn includes it.
        generated: Whether it is generated when loaded.
        files: Its files if they are not LIBSVM text, all in one folder.
        read: Returns the data set from its name and the path of the first file.
        site: The address that the files come from.
    """

    name: str
    rows: int
    features: int
    classes: int | None
    remote: str | None = None
    checksum: str | None = None
    bundled: bool = False
    generated: bool = False
    files: tuple[str, ...] = ()
    read: Callable[[str, Path], Dataset] | None = None
    site: str | None = None

    @property
    def origin(self) -> str:
        """The origin of the data in words."""
        if self.bundled:
            return "scikit-learn"
        if self.generated:
            return "generated when used"
        if self.remote:
            return f"LIBSVM {self.remote}"
        return self.files[0] if len(self.files) == 1 else "idx files"


def _in_folder(read: Callable[[str, Path], Dataset]) -> Callable[[str, Path], Dataset]:
    return lambda name, path: read(name, path.parent)


def _mnist(name: str, rows: int, checksum: str) -> Entry:
    return Entry(name, rows, 784, 10, None, checksum, files=mnist_files(name), read=_in_folder(read_mnist), site=MIRROR)


def _emnist(part: str, rows: int, test_rows: int, classes: int) -> list[Entry]:
    names = {f"emnist-{part}": rows, f"emnist-{part}.t": test_rows}
    return [
        Entry(name, n, 784, classes, files=emnist_files(name), read=_in_folder(read_emnist), site=EMNIST)
        for name, n in names.items()
    ]


def _cifar(name: str, rows: int, checksum: str) -> Entry:
    return Entry(name, rows, 3072, 10, None, checksum, files=(CIFAR,), read=read_cifar)


def _ag_news(name: str, rows: int) -> list[Entry]:
    files, (base, *test) = (AG_NEWS[name],), name.split(".")
    embedded = ".".join([f"{base}-minilm", *test])
    return [
        Entry(name, rows, WORDS, 4, files=files, read=ag_news),
        Entry(embedded, rows, MINILM, 4, files=files, read=ag_news_minilm),
    ]


MINILM = 384
"""The length of a MiniLM sentence embedding."""


# Neither a6a nor a9a.t has an entry in feature 123; a6a has 122 features here, and a9a.t the 123 of a9a.
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
    _mnist("mnist", 60000, "5bdc86d445a407a405454c767798f67780ebe32d2df4c2dd260e57bf8f110c88"),
    _mnist("mnist.t", 10000, "3c0717c156f23bb4a16d89e2311d239cfbd942f49aab592944bc8ae49347f1f7"),
    *_emnist("digits", 240000, 40000, 10),
    *_emnist("letters", 124800, 20800, 26),
    *_emnist("balanced", 112800, 18800, 47),
    *_emnist("bymerge", 697932, 116323, 47),
    *_emnist("byclass", 697932, 116323, 62),
    _cifar("cifar10_subset", 12000, "f513fc1666a0d39d8c0078e9e44366a9d0a5efe6c63ab5619b8b91ca7398e24c"),
    _cifar("cifar10_subset.held", 1000, "604ba5f6a600fe0362df9b3026079a87dc8735f5b4faeccf68c6ed430cae830f"),
    _cifar("cifar10_subset.t", 1000, "0cfd09bef71a1a192671fc8c6b84fa04ac20053f4d60243f22808de3a3e042ad"),
    *_ag_news("ag_news", 120000),
    *_ag_news("ag_news.t", 7600),
    *_ag_news("ag_news_subset", 8814),
    *_ag_news("ag_news_descriptions", 7981),
    Entry("breast_cancer", 569, 30, 2, bundled=True),
    Entry("digits", 1797, 64, 10, bundled=True),
    Entry("iris", 150, 4, 3, bundled=True),
    Entry("wine", 178, 13, 3, bundled=True),
    Entry("diabetes", 442, 10, None, bundled=True),
    Entry("synthetic", 32417, 60, 10, generated=True),
    Entry("synthetic.t", 3651, 60, 10, generated=True),
)
CATALOGUE = {entry.name: entry for entry in _ENTRIES}
