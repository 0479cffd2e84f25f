"""Files with the speeds of devices: CSV, and FedScale's capacities as JSON."""

import csv
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError

COLUMNS = ("client", "seconds_per_query", "latency", "bandwidth_up", "bandwidth_down")

FORWARD_TO_GRADIENT = 3.0
"""FedScale's factor from the time of a forward pass, which its file has, to that of a training step."""

BYTES_PER_KILOBIT = 1024 / 8
"""FedScale divides sizes in kilobits of 1,024 bits by its speeds."""

Speeds = dict[str, Float[np.ndarray, " n"]]


def read(path: Path, n: int, samples: int, random: np.random.Generator) -> Speeds:
    """Return the speeds of n clients in a file, by name: of FedScale's format if it holds JSON, else of `COLUMNS`.

    Args:
        path: The file.
        n: Number of clients.
        samples: Rows of an oracle call, for FedScale's format.
        random: Draws the devices from FedScale's.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): give a CSV file, or FedScale's capacities in JSON") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(
            f"{path}: is no text, and is not unpickled, since a pickle can run any program: write it as JSON"
        ) from None
    if text.lstrip().startswith("{"):
        return from_fedscale(path, text, n, samples, random)
    return from_csv(path, text, n)


def from_csv(path: Path, text: str, n: int) -> Speeds:
    """Return the speeds in a CSV file with the header `COLUMNS`, one line for each client.

    Args:
        path: The file, for messages.
        text: Its content.
        n: Number of clients.
    """
    lines = csv.reader(text.splitlines())
    header = next(lines, [])
    if tuple(name.strip() for name in header) != COLUMNS:
        raise UserError(f"{path}, line 1: the header must be {','.join(COLUMNS)}: write it so")
    table, seen = np.full((len(COLUMNS) - 1, n), np.nan), set()
    for cells in _rows(path, lines):
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{path}, line {lines.line_num}"
        if len(cells) != len(COLUMNS):
            raise UserError(f"{where}: has {len(cells)} values, but {len(COLUMNS)} columns: correct it")
        client = cells[0].strip()
        if not (client.isascii() and client.isdigit() and len(client) < 10 and int(client) < n):
            raise UserError(f"{where}: client {client!r} is none of the {n} clients 0 to {n - 1}: correct it")
        if int(client) in seen:
            raise UserError(f"{where}: client {client} has a line already: remove one")
        seen.add(int(client))
        for k, (name, cell) in enumerate(zip(COLUMNS[1:], cells[1:], strict=True)):
            table[k, int(client)] = _number(where, name, cell.strip())
    if len(seen) < n:
        missing = min(set(range(n)) - seen)
        raise UserError(f"{path}: has {len(seen)} of the {n} clients, and not client {missing}: add a line for each")
    return dict(zip(COLUMNS[1:], table, strict=True))


def _rows(path: Path, lines: Any) -> Iterable[list[str]]:
    """Yield the rows of a CSV reader; `UserError` where one cannot be read."""
    try:
        yield from lines
    except csv.Error as error:
        raise UserError(f"{path}, line {lines.line_num}: is not valid CSV ({error}): correct it") from None


def _number(where: str, name: str, cell: str) -> float:
    """Return the number in a cell; an empty bandwidth is unlimited."""
    bandwidth = name.startswith("bandwidth")
    if bandwidth and not cell:
        return np.inf
    try:
        value = float(cell)
    except ValueError:
        raise UserError(f"{where}: {name} must be a number, but is {cell!r}: correct it") from None
    if not (math.isfinite(value) and (value > 0 if bandwidth else value >= 0)):
        raise UserError(f"{where}: {name} must be {'above' if bandwidth else 'at least'} 0 and finite, but is {cell}: correct it")
    return value


def from_fedscale(path: Path, text: str, n: int, samples: int, random: np.random.Generator) -> Speeds:
    """Return the speeds of n devices drawn from FedScale's capacities.

    Args:
        path: The file, for messages.
        text: Its content: an object of objects with "computation" and "communication".
        n: Number of clients.
        samples: Rows of an oracle call.
        random: Draws the devices.
    """
    try:
        devices = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not valid JSON ({error}): correct it") from None
    if not devices:
        raise UserError(f"{path}: holds no device: give one at least")
    names = [*devices]
    chosen = random.choice(len(names), n, replace=len(names) < n)
    pairs = np.array([[_capacity(path, names[k], devices[names[k]], key) for key in CAPACITIES] for k in chosen])
    bandwidth = BYTES_PER_KILOBIT * pairs[:, 1]
    seconds = FORWARD_TO_GRADIENT * samples * pairs[:, 0] / 1000
    return dict(zip(COLUMNS[1:], (seconds, np.zeros(n), bandwidth, bandwidth), strict=True))


CAPACITIES = ("computation", "communication")


def _capacity(path: Path, name: str, device: Any, key: str) -> float:
    """Return one of the `CAPACITIES` of a device."""
    value = device.get(key) if isinstance(device, dict) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e300:
        if value > 0 or key == "computation":
            return float(value)
    raise UserError(f"{path}: device {name!r} needs a positive number {key!r}: correct it")


def to_csv(speeds: Speeds) -> str:
    """Return a CSV file that `from_csv` reads.

    Args:
        speeds: Speeds of each client, by the names in `COLUMNS`.
    """
    lines = [",".join(COLUMNS)]
    for client in range(len(speeds["latency"])):
        cells = (float(speeds[name][client]) for name in COLUMNS[1:])
        lines.append(",".join([str(client), *("" if math.isinf(cell) else repr(cell) for cell in cells)]))
    return "\n".join(lines) + "\n"
