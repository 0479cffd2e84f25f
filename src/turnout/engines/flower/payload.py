"""Letters as the content of Flower's messages: a header in bytes, and a body that may be large and the same for many."""

from typing import cast

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from turnout.io.serialization import Buffer

SMALL = 2**20
"""Bytes up to which a body is a value beside the header, which travels as one object; a larger one is an array, which Flower cuts
into pieces."""

NAME, BODY = "turnout", "body"


def enclosed(body: bytes) -> bytes | ArrayRecord:
    """Return what carries a body in messages; messages that share it share their pieces, which travel and are kept once."""
    return body if len(body) <= SMALL else ArrayRecord({BODY: Array("uint8", (len(body),), "safetensors", body)})


def pack(body: bytes | ArrayRecord, header: bytes = b"") -> RecordDict:
    """Return the content of a message with a header and what `enclosed` returned."""
    if isinstance(body, bytes):
        return RecordDict({NAME: ConfigRecord({"header": header, BODY: body})})
    return RecordDict({NAME: ConfigRecord({"header": header}), BODY: body})


def unpack(content: RecordDict) -> tuple[bytes, Buffer]:
    """Return header and body of the letter that the content of a message carries; `ValueError` where it carries none."""
    head, array = content.get(NAME), content.get(BODY)
    if isinstance(head, ConfigRecord):
        header, body = head.get("header"), head.get(BODY)
        if isinstance(array, ArrayRecord) and BODY in array:
            body = cast(Buffer, array[BODY].data)
        if isinstance(header, bytes) and isinstance(body, Buffer):
            return header, body
    raise ValueError("the message holds no letter of turnout's")
