"""Messages by which the server has a hub play rounds by itself: what it is to play, and what came of it."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, PyTree

from turnout.accounting.ledger import COUNTERS
from turnout.engines.flower.hub_messages import HEADER_BYTES, decoded, said_of, valid_request
from turnout.engines.flower.mailbox import REASON_LENGTH
from turnout.engines.flower.reply_checks import size_of, validate_reply
from turnout.engines.hubs_ask import APART
from turnout.engines.request import Version
from turnout.io.serialization import Buffer, encode

PLAY = "play"
"""The kind of a request to play."""

REPEATS = 2**10
"""Most requests of one exchange to a client that are believed."""

FEW = 16
"""Most reasons for unusable replies that a hub may tell of one client."""

Unusable = dict[int, dict[str, int]]
"""Number of replies that could not be used, by client and reason."""


OWN = ("own", "base", "kept")
"""The fields of an order that differ between hubs."""


class Order(NamedTuple):
    """What a hub is to play.

    Args:
        path: Path of the call, where those in the hub begin.
        round: Number of the round.
        draws: Draws in this round before the first hub begins.
        exchanges: Exchanges in this round before the first hub begins.
        own: Versions of the hub's state: the one in use, and the one that has to stay available.
        base: Version of the state in use of each of its clients, in the order of their numbers.
        kept: Version that has to stay available of each.
        seconds: Within which the hub has to answer.
        cohort: The cohort of a round in the server's place, as JSON values; None for rounds of the hub's own.
    """

    path: str
    round: int
    draws: int
    exchanges: int
    own: list[Version]
    base: list[Version]
    kept: list[Version]
    seconds: float
    cohort: dict | None = None


def packed_order(order: Order) -> bytes:
    """Return the header of a request to play."""
    return json.dumps(order._asdict(), separators=(",", ":")).encode()


def read_order(header: bytes, clients: int, paths: tuple[str, ...]) -> Order:
    """Return what a header of `packed_order` asks; raise `Refused` where it is none, or not for this hub.

    Args:
        header: The header.
        clients: Number of clients of the hub.
        paths: Paths of the calls that hubs answer; "" is a round in the server's place.
    """
    with valid_request():
        return _order(said_of(header, clients), clients, paths)


def packed_orders(orders: dict[int, Order]) -> bytes:
    """Return the header of a request to several of the lowest hubs, by their numbers; what all are told is said once.

    Args:
        orders: What each of them is to play.
    """
    first = next(iter(orders.values()))._asdict()
    own = {hub: {name: getattr(order, name) for name in OWN} for hub, order in orders.items()}
    shared = {name: value for name, value in first.items() if name not in OWN}
    return json.dumps({"shared": shared, "own": own}, separators=(",", ":")).encode()


def read_orders(header: bytes, sizes: dict[int, int], paths: tuple[str, ...]) -> dict[int, Order]:
    """Return what a header of `packed_orders` asks; raise `Refused` where it is none, or not for these hubs.

    Args:
        header: The header.
        sizes: Number of clients of each of the hubs.
        paths: Paths of the calls that hubs answer.
    """
    with valid_request():
        said = said_of(header, sum(sizes.values()))
        own = {int(hub): fields for hub, fields in said["own"].items()}
        if not own or not own.keys() <= sizes.keys():
            raise ValueError("it is for other hubs")
        return {hub: _order(said["shared"] | fields, sizes[hub], paths) for hub, fields in own.items()}


def _order(said: dict, clients: int, paths: tuple[str, ...]) -> Order:
    versions = {name: [_version(each) for each in said[name]] for name in OWN}
    if [len(each) for each in versions.values()] != [2, clients, clients]:
        raise ValueError("it is for another number of clients")
    numbers = {name: _count(said[name], 2**31) for name in ("round", "draws", "exchanges")}
    cohort = said["cohort"]
    if said["path"] not in (paths or ("",)) or (cohort is None) == (not paths):
        raise ValueError("no hub works there")
    return Order(said["path"], **numbers, **versions, seconds=float(said["seconds"]), cohort=cohort)


def _version(said: Any) -> Version:
    base, made = said
    if any(type(part) is not int or not -1 <= part < 2**31 for part in (base, made)):
        raise ValueError("a version has two numbers")
    return base, made


def _count(said: Any, below: int) -> int:
    if type(said) is not int or not 0 <= said < below:
        raise ValueError(f"{str(said)[:20]} is no count")
    return said


class Played(NamedTuple):
    """What came of the rounds of a hub.

    Args:
        reply: The hub's reply; None where none of its clients answered.
        exchanges: Exchanges that it made.
        counts: Events at each call site in the hub, by path and counter.
        made: The exchange, counted from the hub's first one, that made the state in use of a client that has a new one.
        unusable: Replies of its clients that could not be used or did not come.
    """

    reply: PyTree
    exchanges: int
    counts: dict[str, dict[str, int]]
    made: dict[int, int]
    unusable: Unusable


def packed_played(played: Played, start: PyTree) -> bytes:
    """Return the reply of a hub that has played.

    Args:
        played: What came of it.
        start: Initial parameters.
    """
    told = played._asdict()
    return encode(told.pop("reply"), start, told)


def packed_busy(exchanges: int) -> bytes:
    """Return the reply of a hub that is still at work.

    Args:
        exchanges: Exchanges that it has made so far.
    """
    return encode(None, None, {"busy": exchanges})


class Terms(NamedTuple):
    """What the reply of a hub may say.

    Args:
        start: Initial parameters.
        expected: Shapes and types of the reply.
        clients: The clients of the hub.
        paths: Paths of the call sites in hubs.
        repeats: Whether replies that are lost are asked for again.
        serves: Whether the hub plays a round of the server, whose state comes back whoever answers.
    """

    start: PyTree
    expected: PyTree
    clients: frozenset[int]
    paths: frozenset[str]
    repeats: bool
    serves: bool = False

    @property
    def limit(self) -> int:
        """Most bytes of a reply."""
        return size_of(self.expected) + HEADER_BYTES * (1 + len(self.clients) + len(self.paths))

    def read(self, body: Buffer) -> Played | int:
        """Return what came of a hub's rounds, or how many exchanges it has made so far; `ValueError` where it is not valid."""
        tree, told = decoded(body, self.start)
        if "busy" in told:
            return exchanges_of_busy(told, APART)
        if tree is not None:
            refuse_unusable(body, self.start, self.expected)
        elif self.serves:
            raise ValueError("without the state of the server")
        return self.checked(tree, told)

    def checked(self, reply: PyTree, told: dict) -> Played:
        """Return what came of a hub's rounds; `ValueError` where what it tells is not valid.

        Args:
            reply: The arrays of its reply, which are valid; None where none of its clients answered.
            told: What it tells beside them.
        """
        exchanges = told_by(lambda: _count(told["exchanges"], APART + 1), "without the number of its exchanges")
        counts = told_by(partial(self._counts, told, exchanges), "without its counts, or with others than its calls allow")
        made = told_by(partial(self._made, told, exchanges), "with states of other clients or exchanges than its own")
        return Played(reply, exchanges, counts, made, told_by(partial(self._unusable, told), "malformed"))

    def _counts(self, told: dict, exchanges: int) -> dict[str, dict[str, int]]:
        most, counts = self._most(exchanges), told["counts"]
        if not counts.keys() <= self.paths:
            raise ValueError
        return {path: {name: _count(count, 1 + most[name]) for name, count in own.items()} for path, own in counts.items()}

    def _most(self, exchanges: int) -> dict[str, int]:
        """Return the largest count of each kind that a hub can have at one call site."""
        clients, queries = len(self.clients), 2**31
        asked = exchanges * (REPEATS if self.repeats else 1)
        most = dict.fromkeys(COUNTERS, APART * clients)
        most |= dict.fromkeys(("exchanges", "rejected", "cohorts"), asked)
        most |= dict.fromkeys(("reasks", "contacts"), asked * clients)
        most |= dict.fromkeys(("arrivals", "aggregated"), exchanges * clients)
        most |= {"queries_slowest": exchanges * queries} | dict.fromkeys(
            ("queries_total", "missed"), exchanges * clients * queries
        )
        return most | {"microseconds": 2**53}

    def _made(self, told: dict, exchanges: int) -> dict[int, int]:
        made = {int(client): _count(number, exchanges) for client, number in told["made"].items()}
        if not made.keys() <= self.clients:
            raise ValueError
        return made

    def _unusable(self, told: dict) -> Unusable:
        unusable = {int(client): reasons for client, reasons in told["unusable"].items()}
        if not unusable.keys() <= self.clients or any(len(reasons) > FEW for reasons in unusable.values()):
            raise ValueError
        return {i: {shown(why): _count(n, 2**31) for why, n in reasons.items()} for i, reasons in unusable.items()}


def exchanges_of_busy(told: dict, most: int) -> int:
    """Return how many exchanges a hub at work has made; `ValueError` where that is no count up to `most`."""
    return told_by(lambda: _count(told["busy"], most + 1), "without the number of its exchanges")


def refuse_unusable(body: Buffer, start: PyTree, expected: PyTree) -> None:
    """Raise `ValueError` where the arrays of a reply are not of the expected shapes, or not finite."""
    reason = validate_reply(body, start, expected)
    if reason is not None:
        raise ValueError(reason)


def told_by(read: Callable, otherwise: str) -> Any:
    """Return what `read` does; `ValueError` with another sentence where it fails."""
    try:
        return read()
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ValueError(otherwise) from None


def shown(reason: str) -> str:
    """Return a reason that another machine gives as it can be shown."""
    return "".join(filter(str.isprintable, reason))[:REASON_LENGTH]


def table_of(counts: dict[str, dict[str, int]], paths: list[str]) -> Int[np.ndarray, "sites counters"]:
    """Return counts by path and counter as a table.

    Args:
        counts: The counts.
        paths: Paths of the call sites.
    """
    table = np.zeros((len(paths), len(COUNTERS)), np.int64)
    for path, own in counts.items():
        for name, count in own.items():
            table[paths.index(path), COUNTERS.index(name)] = count
    return table


def counts_of(table: Int[np.ndarray, "sites counters"], paths: list[str]) -> dict[str, dict[str, int]]:
    """Return a table of counts by path and counter, without zeros.

    Args:
        table: The table.
        paths: Paths of the call sites.
    """
    rows = ({name: int(count) for name, count in zip(COUNTERS, row, strict=True) if count} for row in table)
    return {path: own for path, own in zip(paths, rows, strict=True) if own}
