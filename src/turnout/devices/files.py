"""Files with the speeds of devices: CSV, and FedScale's capacities as JSON."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt

from turnout.core.errors import UserError
from turnout.io import csv_table

COLUMNS = ("client", "seconds_per_query", "latency", "bandwidth_up", "bandwidth_down")

ARRIVALS = ("request", "microseconds", "used")

MOST_REQUESTS = 10**8
"""Most requests of a recorded run."""

LONGEST = 2**50
"""Most microseconds of a recorded run."""

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
    text = csv_table.read_text(path, "a CSV file, or FedScale's capacities as JSON")
    if text.lstrip().startswith("{"):
        return from_fedscale(path, text, n, samples, random)
    return from_csv(path, text, n)


def from_csv(path: Path, text: str, n: int) -> Speeds:
    """Return the speeds in a CSV file with the header `COLUMNS`, one line for each client; an empty bandwidth is unlimited.

    Args:
        path: The file, for messages.
        text: Its content.
        n: Number of clients.
    """
    table, seen = np.full((len(COLUMNS) - 1, n), np.inf), set()
    for where, (first, *cells) in csv_table.rows(path, text, COLUMNS):
        client = csv_table.client(where, first, n)
        if client in seen:
            raise UserError(f"{where}: client {client} has a line already: remove one")
        seen.add(client)
        for k, (name, cell) in enumerate(zip(COLUMNS[1:], cells, strict=True)):
            bandwidth = name.startswith("bandwidth")
            if cell or not bandwidth:
                table[k, client] = csv_table.number(where, name, cell, positive=bandwidth)
    if len(seen) < n:
        missing = min({*range(n)} - seen)
        raise UserError(f"{path}: has {len(seen)} of the {n} clients, and not client {missing}: add a line for each")
    return dict(zip(COLUMNS[1:], table, strict=True))


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


def read_arrivals(path: Path) -> UInt[np.ndarray, "k 3"]:
    """Return when requests in flight landed, in microseconds in two limbs, and whether their replies are used, by their numbers.

    A request that the file does not have never lands.

    Args:
        path: A CSV file with the header `ARRIVALS`.
    """
    text, seen = csv_table.read_text(path, "a CSV file with the arrivals of a run"), {}
    for where, cells in csv_table.rows(path, text, ARRIVALS):
        number, time, used = (int(csv_table.number(where, name, cell)) for name, cell in zip(ARRIVALS, cells, strict=True))
        if number in seen:
            raise UserError(f"{where}: request {number} has a line already: remove one")
        if used not in (0, 1) or number > MOST_REQUESTS or time > LONGEST:
            raise UserError(f"{where}: used is 0 or 1, request at most {MOST_REQUESTS:,}, microseconds at most 2^50: correct it")
        seen[number] = (time & 0xFFFFFFFF, time >> 32, used)
    table = np.tile(np.array([0, 2**31 - 1, 0], "uint32"), (max(seen, default=-1) + 1, 1))
    for number, row in seen.items():
        table[number] = row
    return table
