"""What a data set holds, in lines of text: its columns, gaps, classes and clients."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnout.core.errors import UserError
from turnout.data.catalogue import TABLES, load, table_of
from turnout.data.columns import Columns
from turnout.data.csv_text import CsvText
from turnout.data.dataset import Dataset
from turnout.data.source import located
from turnout.data.tables import Csv, Parquet, unreadable_told

if TYPE_CHECKING:
    import polars as pl

MOST = 10
"""Classes and categories that are named."""


def shown(name: Any, folder: Path | None, options: dict[str, Any], save: Path | None = None) -> Iterator[str]:
    """Yield lines about a data set: those about a table's columns also where it cannot be loaded, with the reason.

    Args:
        name: What `load` takes.
        folder: Where to look for files before $TURNOUT_DATA.
        options: The columns of labels and clients, and what is done about missing values.
        save: A JSON file for the rules of its columns; None writes none.

    Raises:
        UserError: It is not known or cannot be read, or has no rules to save.
    """
    if isinstance(name, str) and Path(name).suffix in TABLES:
        columns = Columns(None, options.pop("label", "label"), options.pop("client", None), options.pop("hub", None))
        name = table_of(name, columns, options)
        options = {}
    if isinstance(name, (Csv, Parquet)):
        yield from _columns(name, folder)
    try:
        data = load(name, folder, **options)
    except UserError as error:
        if not isinstance(name, (Csv, Parquet)):
            raise
        yield f"it cannot be used yet: {error}"
        return
    yield from _lines(data)
    if save is not None:
        if data.preprocessing is None:
            raise UserError(f"{data.name} needs no rules, since its numbers are features as they are: leave --save out")
        data.preprocessing.save(save)
        yield f"{save} has its rules: give it as preprocessing where other rows become features"


def _columns(source: Csv | Parquet, folder: Path | None) -> Iterator[str]:
    """Yield a line for each column of a table."""
    # Slow to import.
    import polars as pl

    path = located(source.path, folder)
    with unreadable_told(path, "table"):
        text = source.text(path) if isinstance(source, Csv) else None
        table = pl.read_parquet(path) if text is None else text.scan().collect()
        yield f"{path}: {len(table):,} rows, {table.width} columns"
        for name in table.columns:
            role = {source.label: " (label)", source.client: " (client)", source.hub: " (hub)"}.get(name, "")
            kind, held = (str(table[name].dtype), table[name].drop_nulls()) if text is None else _text_column(text, table[name])
            gaps, some = len(table) - len(held), ", ".join(map(repr, held.unique(maintain_order=True).head(3).to_list()))
            missing = f", {gaps:,} missing" if gaps else ""
            yield f"  {name}: {kind}, {held.n_unique():,} distinct{some and f', such as {some}'}{missing}{role}"


def _text_column(text: CsvText, values: "pl.Series") -> "tuple[str, pl.Series]":
    """Return what a column of a CSV file holds, in words, and its values without those that are missing."""
    counts = text.counts(values.name)
    held = values.filter(~values.to_frame().select(text.missing(values.name)).to_series())
    kinds = {"true or false": counts["logical"], "numbers": counts["number"] + counts["logical"], "dates": counts["date"]}
    kind = next((words for words, count in kinds.items() if count == counts["held"]), None)
    return kind or ("numbers and text" if counts["number"] else "text"), held


def _lines(data: Dataset) -> Iterator[str]:
    """Yield lines about the rows that a run gets."""
    sparse = not isinstance(data.features, np.ndarray) and data.own_offsets is None
    yield f"{data.rows:,} rows of {data.width:,} {'sparse ' if sparse else ''}features"
    if data.preprocessing is not None:
        for rule in data.preprocessing.columns or ():
            fill = "" if rule.fill is None else f", missing values become {rule.fill!r}"
            yield f"  {rule.name}: {rule.kind}{f' in {rule.unit}' if rule.unit else ''}, as {_some(rule.names)}{fill}"
    labels, counts = (data.classes, None) if data.own_offsets is not None else np.unique(data.labels, return_counts=True)
    whole = labels.dtype.kind in "biuU" or bool((labels == np.rint(labels)).all())
    if whole and len(labels) <= max(MOST, data.rows // 10):
        rows = [""] * len(labels) if counts is None else [f" ({count:,})" for count in counts]
        yield f"{len(labels):,} classes: {_some([f'{label}{row}' for label, row in zip(labels.tolist(), rows, strict=True)])}"
    else:
        yield f"labels from {labels[0]:g} to {labels[-1]:g}, for regression"
    sizes = np.diff(data.own_offsets) if data.own_offsets is not None else None
    if data.ids is not None:
        sizes = np.unique(data.ids, return_counts=True)[1]
    if sizes is not None:
        yield f"{len(sizes):,} clients with {sizes.min():,} to {sizes.max():,} rows"


def _some(names: list[str]) -> str:
    return ", ".join(names[:MOST]) + (f" and {len(names) - MOST:,} more" if len(names) > MOST else "")
