"""Reading AG News: headlines and descriptions of four kinds of news, as csv."""

import csv
import io
from pathlib import Path

import numpy as np

from turnout.core.errors import UserError
from turnout.data.columns import hashed
from turnout.data.dataset import Dataset
from turnout.data.files import UNREADABLE, open_text, unreadable

AG_NEWS = {
    "ag_news": "ag_news_train.csv",
    "ag_news.t": "ag_news_test.csv",
    "ag_news_subset": "ag_news_train_subset.csv",
    "ag_news_descriptions": "ag_news_train_desc_subset.csv",
}
CLASSES = ("World", "Sports", "Business", "Sci/Tech")
TEXTS = ("text", "title", "description")
"""The columns of text in a file with a header, in this order; without a header, all after the label."""


def read_ag_news(path: Path) -> tuple[list[str], np.ndarray]:
    """Read a csv file of AG News (Zhang et al., 2015).

    The official files have no header: label 1, ..., 4, title, description. Texts in several columns are joined by blanks.

    Args:
        path: The file, plain or compressed.

    Returns:
        The texts, and the labels [rows] 0, ..., 3 of the `CLASSES`.

    Raises:
        UserError: The file cannot be read, or is not of this form.
    """
    try:
        with open_text(path) as file, io.TextIOWrapper(file, "utf-8", newline="") as lines:
            rows = [row for row in csv.reader(lines) if row]
    except UNREADABLE as error:
        raise unreadable(path, error) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: not csv text ({error}): give a file of AG News") from None
    header = rows.pop(0) if rows and "label" in rows[0] else ["label", "title", "description"]
    columns = [header.index(name) for name in TEXTS if name in header]
    label = header.index("label")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header) or row[label] not in ("1", "2", "3", "4"):
            raise UserError(f"{path}, row {number}: not a label 1, ..., 4 and {len(header) - 1} texts: give a file of AG News")
    if not rows or not columns:
        raise UserError(f"{path}: no rows with {' or '.join(TEXTS)}: give a file of AG News")
    return [" ".join(row[column] for column in columns) for row in rows], np.array([int(row[label]) - 1 for row in rows])


def ag_news(name: str, path: Path) -> Dataset:
    """Read AG News with hashed words as features: see `columns.hashed`.

    Args:
        name: Name of the data set.
        path: Path of the file.
    """
    texts, labels = read_ag_news(path)
    return Dataset(name, hashed(texts), labels, texts=np.array(texts, object))


def ag_news_minilm(name: str, path: Path) -> Dataset:
    """Read AG News with sentence embeddings of MiniLM as features: see `text.embed`.

    Args:
        name: Name of the data set.
        path: Path of the file.
    """
    from turnout.data.text.embeddings import embed

    texts, labels = read_ag_news(path)
    return Dataset(name, embed(texts), labels)
