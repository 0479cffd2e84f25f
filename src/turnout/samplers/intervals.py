"""Traces of availability: the intervals of time in which each client is there."""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.io import csv_table

COLUMNS = ("client", "from", "to")

Rows = Float[np.ndarray, "k 3"]
Table = Float[np.ndarray, "n most 2"]


def read(path: Path, n: int) -> Rows:
    """Return the rows (client, from, to) of a CSV file with the header `COLUMNS`; `UserError` for a line that is not valid.

    Args:
        path: The file.
        n: Number of clients.
    """
    text, found = csv_table.read_text(path, f"a CSV file with the columns {','.join(COLUMNS)}"), []
    for where, cells in csv_table.rows(path, text, COLUMNS):
        client = csv_table.client(where, cells[0], n)
        begin, end = (csv_table.number(where, name, cell) for name, cell in zip(COLUMNS[1:], cells[1:], strict=True))
        if begin >= end:
            raise UserError(f"{where}: an interval ends after it begins, but from is {begin:g} and to {end:g}: correct it")
        found.append((client, begin, end))
    return np.array(found, float).reshape(-1, 3)


def table_of(rows: Rows, n: int, period: float | None, whole: bool) -> tuple[Table, float, Float[np.ndarray, " n"]]:
    """Return the disjoint intervals of each client, the period, and the share of it in which each is there.

    Empty places hold an empty interval.

    Args:
        rows: Client, begin and end of intervals, in any order; they may overlap.
        n: Number of clients.
        period: Time after which the intervals repeat; None: the end of the last one.
        whole: Whether time goes in whole steps, as rounds do.
    """
    if rows.ndim != 2 or rows.shape[1] != 3 or not len(rows):
        raise UserError("a trace of availability has rows of client, from and to: give an array [k, 3]")
    ids, begins, ends = rows.T
    if not np.all(np.isfinite(rows)) or np.any((ids < 0) | (ids >= n) | (ids != np.floor(ids)) | (begins < 0) | (begins >= ends)):
        raise UserError(f"rows of a trace of availability have a client from 0 to {n - 1}, and 0 <= from < to: correct them")
    if whole:
        begins, ends = np.ceil(begins), np.ceil(ends)
    last = float(ends.max())
    period = last if period is None else float(period)
    if period < last or (whole and period != np.floor(period)):
        raise UserError(f"the period of a trace in {'whole rounds' if whole else 'seconds'} is at least its last end, {last:g}")
    merged: list[list[list[float]]] = [[] for _ in range(n)]
    for client, begin, end in sorted(zip(ids.astype(int).tolist(), begins.tolist(), ends.tolist(), strict=True)):
        own = merged[client]
        if own and begin <= own[-1][1]:
            own[-1][1] = max(own[-1][1], end)
        elif begin < end:
            own.append([begin, end])
    table = np.zeros((n, max(map(len, merged)) or 1, 2))
    for client, own in enumerate(merged):
        table[client, : len(own)] = own or np.zeros((0, 2))
    share = (table[:, :, 1] - table[:, :, 0]).sum(1) / period
    if not np.all(share > 0):
        raise UserError(f"client {int(np.argmin(share))} is never available in the trace: give it an interval, or leave it out")
    return table, period, share
