"""Comparing what an implementation did with a test vector."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """The first place where an implementation differs from a vector.

    Args:
        where: Round, message, reply or state, and its part.
        size: The largest difference of two numbers there; infinite where shapes differ.
    """

    where: str
    size: float


def first_difference(vector: dict, rounds: list[dict], tolerance: float | None = None) -> Difference | None:
    """Return where an implementation first differs from a vector; None where it does not.

    Args:
        vector: The vector.
        rounds: What the implementation did, in the form of the vector's `rounds`; whatever is left out is not compared, but for
            the first part of the server's state at the end of each round, which is x in most vectors.
        tolerance: Largest difference of two numbers; default: that of the vector.

    Examples:
        >>> from turnout import vectors
        >>> vector = vectors.load("fedavg")
        >>> vectors.first_difference(vector, vector["rounds"]) is None
        True
        >>> vectors.first_difference(vector, [{"server": {"x": [0.0, 0.0, 0.0]}}]).where
        'round 1, server, x'
    """
    tolerance = vector["tolerance"] if tolerance is None else tolerance
    for number, wanted in enumerate(vector["rounds"], start=1):
        if number > len(rounds):
            return Difference(f"round {number}, which is missing", math.inf)
        for where, found, right in _pairs(rounds[number - 1], wanted):
            size = distance(found, right)
            if not size <= tolerance:
                return Difference(f"round {number}, {where}", size)
    return None


def _pairs(found: dict, wanted: dict) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of a round that both have, in the order in which they come to be: (where, found, wanted)."""
    for k, (one, right) in enumerate(zip(found.get("exchanges", []), wanted["exchanges"], strict=False)):
        which = f"exchange {k + 1}, " if len(wanted["exchanges"]) > 1 else ""
        yield from _parts(f"{which}message", one.get("message", {}), right.get("message", {}))
        places = zip(right["to"], one.get("replies", []), right["replies"], strict=False)
        for client, reply, own in places:
            yield from _parts(f"{which}reply of client {client}", reply, own)
    yield from _parts("server", dict.fromkeys([*wanted["server"]][:1]) | found.get("server", {}), wanted["server"])
    for client, (state, right) in enumerate(zip(found.get("clients", []), wanted.get("clients", []), strict=False)):
        yield from _parts(f"state of client {client}", state, right)


def _parts(where: str, found: dict, wanted: dict) -> Iterator[tuple[str, Any, Any]]:
    for name, value in found.items():
        if name in wanted:
            yield f"{where}, {name}", value, wanted[name]


def distance(found: Any, wanted: Any) -> float:
    """Return the largest difference of two numbers in nested lists or leaves by name; infinite where these differ in form."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict) or found.keys() != wanted.keys():
            return math.inf
        return max((distance(found[name], wanted[name]) for name in wanted), default=0.0)
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return math.inf
        return max(map(distance, found, wanted), default=0.0)
    if isinstance(found, (int, float)) and math.isfinite(found):
        return abs(found - wanted)
    return math.inf
