"""News texts in clients of log-normal sizes (K-Vib, section 6.3).

Environment variables say what is read:
    NEWS: a CSV file of AG News, or Parquet or JSON lines with a column "text" such as CCNews; default: AG News, if it is there.
    MODEL: a folder with weights and a tokenizer, as `save_pretrained` of transformers leaves them.
    CLIENTS: the number of clients, as in the configuration; default: 1000.
"""

import os
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from turnout.core.errors import UserError
from turnout.data import Dataset, LogNormalSplit, present
from turnout.data.ag_news import read_ag_news
from turnout.data.text import text_clients, tokenizer_of

SCALE = 3.0
"""The deviation of the logarithms of the clients' sizes: the heaviest of three tails."""

LENGTH = 64
"""Tokens of a text."""


def model_folder() -> Path | None:
    """Return the folder with weights and a tokenizer, if there is one."""
    return Path(os.environ["MODEL"]) if "MODEL" in os.environ else None


@cache
def texts() -> tuple[list[str], np.ndarray | None]:
    """Return the texts, and their labels where they have some."""
    file = os.environ.get("NEWS") or present("ag_news") or present("ag_news_subset")
    if file is None:
        raise UserError("there are no news: set NEWS to a file with texts, or TURNOUT_DATA to a folder with AG News")
    path = Path(file)
    if path.suffix in (".parquet", ".jsonl"):
        frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_ndjson(path)
        return frame["text"].to_list(), None
    return read_ag_news(path)


@cache
def clients(module, labelled: bool) -> list:
    """Return the client with each number: texts with the labels, or of a language model without."""
    rows, labels = texts()
    if labelled and labels is None:
        raise UserError("these texts have no labels: set NEWS to a file of AG News")
    count = int(os.environ.get("CLIENTS", "1000"))
    split = LogNormalSplit(count, SCALE).split(Dataset("news", np.zeros((len(rows), 1)), np.zeros(len(rows))))
    return text_clients(module, tokenizer_of(model_folder()), rows, labels if labelled else None, split, LENGTH)
