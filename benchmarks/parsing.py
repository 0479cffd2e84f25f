"""Reading a LIBSVM file, beside the parser of scikit-learn, the fastest one that is kept well."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.timing import SEED, Line, alternate, ratio, seconds
from turnout.data import read_libsvm

BYTES = 10**8
ROWS, ENTRIES, FEATURES = 10_000, 100, 1_000
"""Rows that are repeated until the file is large enough, the entries of each, and its features."""


def measure() -> list[Line]:
    """Return the ratio of the seconds that a file of 100 MB takes."""
    with TemporaryDirectory(prefix="turnout-") as folder:
        path = Path(folder) / "rows.svm"
        text = block()
        path.write_bytes(text * (BYTES // len(text) + 1))
        taken = alternate(
            {
                "turnout": lambda: seconds(lambda: read_libsvm(path)),
                "scikit-learn": lambda: seconds(lambda: load_svmlight_file(str(path))),
            }
        )
        settings = {"bytes": path.stat().st_size, "entries": ENTRIES, "features": FEATURES}
    what = "reading a LIBSVM file of 100 MB over scikit-learn's parser"
    note = f"{np.median(taken['turnout']):.2f} s"
    return [Line("parsing", what, ratio(taken, "turnout", "scikit-learn"), 1.2, note=note, settings=settings, timings=taken)]


def block() -> bytes:
    """Return the text of ROWS rows."""
    generator = np.random.default_rng(SEED)
    columns = np.sort(generator.permuted(np.tile(np.arange(1, FEATURES + 1), (ROWS, 1)), axis=1)[:, :ENTRIES], axis=1)
    values, labels = generator.normal(size=columns.shape), generator.choice([-1, 1], ROWS)
    lines = (
        f"{label:+d} " + " ".join(f"{column}:{value:.6g}" for column, value in zip(*row, strict=True))
        for label, row in zip(labels, zip(columns, values, strict=True), strict=True)
    )
    return ("\n".join(lines) + "\n").encode()
