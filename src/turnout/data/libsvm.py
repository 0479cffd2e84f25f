"""Reading LIBSVM text: each line is `label index:value ...` with increasing indices from 1, or from 0."""

import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from turnout.core.errors import UserError, caution
from turnout.core.records import config
from turnout.data.arrays import whole_ids
from turnout.data.dataset import WIDEST, Dataset
from turnout.data.files import UNREADABLE, data_name, open_text, unreadable
from turnout.data.source import Source, located

BLOCK = 2**27
"""Bytes of a file that are parsed at a time: they take several times their size meanwhile."""

REMEDY = "a line reads 'label index:value index:value ...'"


class Parsed(NamedTuple):
    """Labels of b lines [b], their numbers of entries [b], the indices and values of all entries, and the query of each line."""

    labels: np.ndarray
    lengths: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    queries: list


def read_libsvm(
    path: str | Path,
    features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    client: Literal["qid"] | None = None,
) -> Dataset:
    r"""Read a LIBSVM file, plain or compressed (.xz, .bz2, .gz).

    Args:
        path: The file.
        features: d, the number of features; None takes the largest index in the file.
        zero_based: Whether indices count from 0; "auto": if one is 0.
        client: "qid" makes each query of a ranking data set a client.

    Returns:
        The data set with sparse features [rows, d].

    Raises:
        UserError: The file cannot be read, or has a mistake, whose line is named.

    Examples:
        >>> import pathlib, tempfile
        >>> from turnout.data import read_libsvm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "rows.txt"
        ...     _ = path.write_text("+1 1:0.5 3:2\n-1 2:1\n")
        ...     data = read_libsvm(path)
        >>> data.rows, data.features.shape
        (2, (2, 3))
    """
    path, zeros = Path(path), zero_based in (True, "auto")
    try:
        with open_text(path) as file:
            parts = [part for block in _blocks(file) if (part := _parsed(block)) is not None]
    except UNREADABLE as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        raise _mistake(path, features, zeros, error) from None
    if not parts:
        raise UserError(f"{path}: the file holds no rows: give one with lines such as '+1 3:0.5 7:1'")
    *arrays, queries = zip(*parts, strict=True)
    labels, lengths, columns, values = (part[0] if len(part) == 1 else np.concatenate(part) for part in arrays)
    from_zero = zeros and (zero_based is True or columns.min(initial=1) == 0)
    columns = columns if from_zero else columns - 1
    if columns.min(initial=0) < 0 or columns.max(initial=0) >= (features or WIDEST):
        raise _mistake(path, features, zeros, "an index is too large", from_zero)
    # Slow to import.
    from scipy.sparse import csr_array

    starts, width = np.concatenate([[0], np.cumsum(lengths)]), features or int(columns.max(initial=-1)) + 1
    matrix = csr_array((values, columns.astype(np.int32), starts), shape=(labels.size, width))
    ids = _queries(path, [query for part in queries for query in part], labels.size, client)
    return Dataset(data_name(path), matrix, labels, ids, zero_based=True if from_zero else None if zeros else False)


@config
class Libsvm(Source):
    r"""LIBSVM text whose features are numbered from 0, or whose rows belong to queries.

    Args:
        path: The file.
        zero_based: Whether indices count from 0; "auto": if one is 0.
        client: "qid" makes each query of a ranking data set a client.

    Examples:
        >>> import pathlib, tempfile
        >>> from turnout.data import Libsvm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "rows.txt"
        ...     _ = path.write_text("2 qid:7 1:0.5\n1 qid:7 2:1\n3 qid:9 1:1\n")
        ...     data = Libsvm(str(path), client="qid").load()
        >>> data.ids.tolist(), data.width
        ([7, 7, 9], 2)
    """

    path: str
    zero_based: bool | Literal["auto"] = "auto"
    client: Literal["qid"] | None = None

    def load(self, folder=None) -> Dataset:
        """Return the data; `UserError` if the file is missing or no LIBSVM text."""
        return read_libsvm(located(self.path, folder), None, self.zero_based, self.client)


def _queries(path: Path, queries: list[bytes], rows: int, client: str | None) -> np.ndarray | None:
    """Return the query of each row [rows]; None where they are no clients, which is told where there are queries."""
    if client is None:
        if queries:
            caution(
                f"{path}: the queries of its rows (qid) are left out, and labels are no ranks: {{kind = 'libsvm', path = ..., "
                "client = 'qid'} makes each query a client"
            )
        return None
    if len(queries) != rows:
        raise UserError(f"{path}: {len(queries)} of {rows} rows have a query (qid): give all of them one, or leave out client")
    return whole_ids(np.array([query.decode(errors="backslashreplace") for query in queries]))


def _blocks(file: BufferedIOBase) -> Iterator[bytes]:
    """Yield the lines of a file, many at a time."""
    rest = b""
    if (mark := file.read(len(BOM_UTF8))) != BOM_UTF8:
        rest = mark
    while block := file.read(BLOCK):
        whole, _, rest = (rest + block).rpartition(b"\n")
        yield whole
    yield rest


def _parsed(lines: bytes) -> Parsed | None:
    """Return what some lines hold; None if they are empty. `ValueError` if a word is not as it should be."""
    lines = lines.strip()
    try:
        return _table(lines) if lines else None
    except ValueError:
        lines, queries = _plain(lines)
        return _table(lines)._replace(queries=queries) if lines else None


def _plain(lines: bytes) -> tuple[bytes, list[bytes]]:
    """Return lines without comments, queries, empty lines and white space that separates nothing; and the queries."""
    lines = re.sub(rb"#[^\n]*", b"", lines)
    queries = re.findall(rb"(?m)^[^\S\n]*\S+[^\S\n]+qid:(\S*)", lines)
    lines = re.sub(rb"(?m)^([^\S\n]*\S+)[^\S\n]+qid:\S*", rb"\1", lines)
    plain = re.sub(rb"[^\S\n]*\n\s*", b"\n", re.sub(rb"[^\S\n]+", b" ", lines)).strip()
    return plain, queries


def _table(lines: bytes) -> Parsed:
    """Return what lines hold in which one space precedes each entry."""
    # Slow to import.
    import polars as pl

    # Each word becomes a line of a table of two columns, which parses in parallel; a label has no index.
    table = b":" + lines.replace(b"\n", b"\n:").replace(b" ", b"\n")
    try:
        read = pl.read_csv(
            table, has_header=False, separator=":", quote_char=None, schema={"index": pl.Int64, "value": pl.Float64}
        )
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    begins, all_values = np.flatnonzero(read["index"].is_null().to_numpy()), read["value"].to_numpy()
    columns, is_entry = read["index"].drop_nulls().to_numpy(), np.ones(len(read), bool)
    is_entry[begins] = False
    # A word without a value is NaN here, and one without an index would be a label.
    if not np.isfinite(all_values).all() or begins.size != lines.count(b"\n") + 1:
        raise ValueError("NaN, infinite or missing")
    lengths = np.diff(np.append(begins, len(read))) - 1
    rising = np.diff(columns, prepend=-1) > 0
    rising[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    if not rising.all() or columns.min(initial=0) < 0:
        raise ValueError("an index is not above the one before")
    return Parsed(all_values[begins], lengths, columns, all_values[is_entry], [])


def _mistake(path: Path, features: int | None, zeros: bool, error, from_zero: bool = False) -> UserError:
    """Return the error about the first line with a mistake; `zeros` are allowed as indices where one may count `from_zero`."""
    least, most = 0 if zeros else 1, (features or WIDEST) - from_zero
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                line = line.removeprefix(BOM_UTF8) if number == 1 else line
                wrong = _wrong(line.partition(b"#")[0].split(), least, most)
                if wrong:
                    return UserError(f"{path}, line {number}: {wrong}: {REMEDY}")
    except UNREADABLE as broken:
        return unreadable(path, broken)
    return UserError(f"{path}: not LIBSVM text ({error}): {REMEDY}")


def _wrong(words: list[bytes], least: int, most: int) -> str | None:
    """Return what is wrong with the words of one line, whose indices are from the `least` to the `most`; None if nothing is."""
    if not words:
        return None
    label, entries = words[0], words[1:]
    if _number(label) is None:
        return f"the label {_shown(label)} is not a finite number"
    if entries and entries[0].startswith(b"qid:"):
        entries = entries[1:]
    previous = -1
    for entry in entries:
        index, colon, value = entry.partition(b":")
        if not colon:
            return f"{_shown(entry)} is not index:value"
        try:
            position = int(index)
        except ValueError:
            return f"the index in {_shown(entry)} is not a whole number"
        if position < least:
            return f"the index in {_shown(entry)} is less than {least}"
        if position > most:
            gib = 8 * position / 2**30
            takes = f", and a model takes {gib:,.0f} GiB" if gib >= 2 else ""
            return f"the index in {_shown(entry)} is more than {most}{takes}"
        if position <= previous:
            return f"the index in {_shown(entry)} does not increase (the one before is {previous})"
        if _number(value) is None:
            return f"the value in {_shown(entry)} is not a finite number"
        previous = position
    return None


def _number(word: bytes) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _shown(word: bytes) -> str:
    text = word.decode("ascii", "backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "...")
