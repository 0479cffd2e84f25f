"""The headers of requests to a node: what they may say, and how a node reads them."""

import json
from typing import Annotated, Literal, TypeVar

import annotated_types as at

from turnout.core.errors import UserError
from turnout.core.records import Index, config

Number = Annotated[int, at.Ge(-1), at.Lt(2**31)]

Version = tuple[Number, Number]
"""The round and the exchange that made a private state."""

FIRST: Version = (-1, -1)
"""The version of a client's initial state."""

Function = Literal["value", "gradient", "accuracy"]
"""A function of a client's rows that the server may ask for."""

VERSIONS = ("base", "kept", "made", "before")
"""The fields of headers that are versions."""

LONGEST = 10_000
"""Most bytes of a header."""


class Refused(UserError):
    """A request that a node does not answer; the server is told the sentence."""


@config
class AskHeader:
    """The header of a request to run a local method.

    Args:
        method: Address of the local method.
        base: Version of the state to start from.
        kept: Version of a state that has to stay available.
        made: Version of the state that the request makes.
        weight: Factor of the reply; None for 1.
        before: Version of the state before a hub began its rounds, which has to stay available until it begins others.
        attempt: Number of replies to the same request that the server did not accept.
    """

    method: str
    base: Version
    kept: Version
    made: Version
    weight: float | None = None
    before: Version = FIRST
    attempt: Number = 0

    def __post_init__(self):
        if min(self.made) < 0:
            raise UserError(f"a request makes a state of a round and an exchange, but its version is {self.made}")


@config
class MeasureHeader:
    """The header of a request for functions of f_i.

    Args:
        measure: Names of the functions.
        base: Version of the state whose personal leaves count.
        attempt: Number of replies to the same request that the server did not accept.
    """

    measure: list[Function]
    base: Version = FIRST
    attempt: Number = 0


@config
class DecryptHeader:
    """The header of a request to decrypt a sum of replies.

    Args:
        replies: Number of replies in the sum.
        numbers: Number of numbers in each.
        seal: Public key of `sealing.Seal`, so that only its owner can read the sum; empty for none.
        attempt: Number of replies to the same request that the server did not accept.
    """

    replies: Number
    numbers: Index
    seal: str = ""
    attempt: Number = 0


Header = TypeVar("Header", AskHeader, MeasureHeader, DecryptHeader)


def parse_header(header: bytes, kind: type[Header]) -> Header:
    """Return the header of a request; raise `Refused` where it is not one of this kind.

    Args:
        header: The header, in JSON.
        kind: Its class.
    """
    try:
        if len(header) > LONGEST:
            raise ValueError(f"it has more than {LONGEST} bytes")
        fields = json.loads(header)
        return kind(**fields | {name: tuple(fields[name]) for name in VERSIONS if type(fields.get(name)) is list})
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"the header of the request is not valid: {error}") from None
