"""CSV files with a fixed header, whose mistakes are told with their lines."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path

from turnout.core.errors import UserError


def rows(path: Path, text: str, columns: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield for each line that is not empty where it is, for messages, and its cells.

    Args:
        path: The file, for messages.
        text: Its content.
        columns: What its header must be.
    """
    lines = csv.reader(text.splitlines())
    try:
        header = next(lines, [])
        if tuple(name.strip() for name in header) != columns:
            raise UserError(f"{path}, line 1: the header must be {','.join(columns)}: write it so")
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            where = f"{path}, line {lines.line_num}"
            if len(cells) != len(columns):
                raise UserError(f"{where}: has {len(cells)} values, but {len(columns)} columns: correct it")
            yield where, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise UserError(f"{path}, line {lines.line_num}: is not valid CSV ({error}): correct it") from None


def client(where: str, cell: str, n: int) -> int:
    """Return the client in a cell; `UserError` if it is none of n.

    Args:
        where: Where the cell is, for the message.
        cell: The cell.
        n: Number of clients.
    """
    if not (cell.isascii() and cell.isdigit() and len(cell) < 10 and int(cell) < n):
        raise UserError(f"{where}: client {cell!r} is none of the {n} clients 0 to {n - 1}: correct it")
    return int(cell)


def number(where: str, name: str, cell: str, *, positive: bool = False) -> float:
    """Return the number in a cell; `UserError` if it is none, not finite, or negative.

    Args:
        where: Where the cell is, for the message.
        name: Name of its column.
        cell: The cell.
        positive: Whether zero is not allowed either.
    """
    try:
        value = float(cell)
    except ValueError:
        raise UserError(f"{where}: {name} must be a number, but is {cell!r}: correct it") from None
    if not (math.isfinite(value) and (value > 0 if positive else value >= 0)):
        raise UserError(f"{where}: {name} must be {'above' if positive else 'at least'} 0 and finite, but is {cell}: correct it")
    return value


def read_text(path: Path, wanted: str) -> str:
    """Return the text of a file; `UserError` where it cannot be read.

    Args:
        path: The file.
        wanted: What to give instead.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): give {wanted}") from None
    except UnicodeDecodeError:
        hint = "nothing is unpickled, since a pickle can run any program"
        raise UserError(f"{path}: is no text, and {hint}: give {wanted}") from None
