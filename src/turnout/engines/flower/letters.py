"""Bytes as the content of Flower's messages."""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

SMALL = 2**20
"""Bytes up to which a letter is one value, which travels as one object; larger ones are arrays, which Flower cuts into pieces."""

NAME = "turnout"


def pack(letter: bytes) -> RecordDict:
    """Return the content of a message that carries `letter`."""
    if len(letter) <= SMALL:
        return RecordDict({NAME: ConfigRecord({"letter": letter})})
    return RecordDict({NAME: ArrayRecord({"letter": Array(np.frombuffer(letter, np.uint8))})})


def unpack(content: RecordDict) -> bytes:
    """Return the letter that the content of a message carries; `ValueError` where it carries none."""
    record = content.get(NAME)
    letter = record.get("letter") if isinstance(record, ConfigRecord) else None
    if isinstance(letter, bytes):
        return letter
    if isinstance(record, ArrayRecord) and "letter" in record:
        return record["letter"].numpy().tobytes()
    raise ValueError("the message holds no letter of turnout's")
