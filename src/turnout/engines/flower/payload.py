"""The content of Flower messages: a header in bytes, and a body that may be large and shared by several messages."""

from typing import cast

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from turnout.io.serialization import Buffer

SMALL = 2**20
"""Largest body in bytes that is one object with the header; a larger one is an array, which Flower cuts into chunks."""

NAME, BODY = "turnout", "body"


def pack_body(body: bytes) -> bytes | ArrayRecord:
    """Return the body as messages carry it; messages that share it share its chunks, which are sent and stored once."""
    return body if len(body) <= SMALL else ArrayRecord({BODY: Array("uint8", (len(body),), "safetensors", body)})


def pack(body: bytes | ArrayRecord, header: bytes = b"") -> RecordDict:
    """Return the content of a message with a header and a body from `pack_body`.

    Args:
        body: The body.
        header: The header.
    """
    if isinstance(body, bytes):
        return RecordDict({NAME: ConfigRecord({"header": header, BODY: body})})
    return RecordDict({NAME: ConfigRecord({"header": header}), BODY: body})


def unpack(content: RecordDict) -> tuple[bytes, Buffer]:
    """Return the header and the body of a message's content; `ValueError` if `pack` did not make it."""
    head, array = content.get(NAME), content.get(BODY)
    if isinstance(head, ConfigRecord):
        header, body = head.get("header"), head.get(BODY)
        if isinstance(array, ArrayRecord) and BODY in array:
            body = cast(Buffer, array[BODY].data)
        if isinstance(header, bytes) and isinstance(body, Buffer):
            return header, body
    raise ValueError("the message has no header and body of turnout")
