"""Numbers that only the server can read, though they pass through others: hybrid public key encryption (RFC 9180)."""

from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

INFO = b"turnout sum"
"""What a message is for, which both sides have to know."""

OVERHEAD = 48
"""Bytes beside the numbers: the sender's key, and what shows that a message was not changed."""


class Seal:
    """The server's key for one answer.

    Attributes:
        public: Its public key, in hexadecimal digits.
    """

    def __init__(self):
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._own = X25519PrivateKey.generate()
        self.public = self._own.public_key().public_bytes_raw().hex()

    def opened(self, sealed: UInt8[np.ndarray, " bytes"], told: dict[str, Any]) -> Int[np.ndarray, " d"]:
        """Return the numbers in what `sealed_for` made; `ValueError` where it was changed, or made for another key.

        Args:
            sealed: The numbers as they came.
            told: What came with them.
        """
        from cryptography.exceptions import InvalidTag

        try:
            content = _suite().decrypt(bytes.fromhex(told["beside"]) + sealed.tobytes(), self._own, INFO)
        except (InvalidTag, LookupError, TypeError, AttributeError) as error:
            raise ValueError("it was changed") from error
        return np.frombuffer(content, "int64")


def sealed_for(public: str, numbers: Int[np.ndarray, " d"]) -> tuple[UInt8[np.ndarray, " bytes"], dict[str, str]]:
    """Return numbers that only the owner of a key can read, and what goes with them; `ValueError` where it is no key.

    Args:
        public: The public key of `Seal`.
        numbers: The numbers.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    theirs = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
    content = _suite().encrypt(np.asarray(numbers, "int64").tobytes(), theirs, INFO)
    # The array is as long as the numbers, so that the ledger counts what it sends.
    return np.frombuffer(content[OVERHEAD:], "uint8"), {"beside": content[:OVERHEAD].hex()}


def _suite() -> Any:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
