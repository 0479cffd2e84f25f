"""Numbers that only the server can read, though they pass through others: X25519, HKDF and ChaCha20-Poly1305."""

from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

TAG = 16
"""Bytes of what shows that a message was not changed."""


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
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            public, tag = (bytes.fromhex(told[name]) for name in ("key", "tag"))
            shared = self._own.exchange(X25519PublicKey.from_public_bytes(public))
            content = _cipher(shared, public, bytes.fromhex(self.public)).decrypt(bytes(12), sealed.tobytes() + tag, None)
        except (InvalidTag, LookupError, TypeError, AttributeError) as error:
            raise ValueError("it was changed") from error
        return np.frombuffer(content, "int64")


def sealed_for(public: str, numbers: Int[np.ndarray, " d"]) -> tuple[UInt8[np.ndarray, " bytes"], dict[str, str]]:
    """Return numbers that only the owner of a key can read, and what goes with them; `ValueError` where it is no key.

    Args:
        public: The public key of `Seal`.
        numbers: The numbers.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    own, theirs = X25519PrivateKey.generate(), bytes.fromhex(public)
    mine = own.public_key().public_bytes_raw()
    cipher = _cipher(own.exchange(X25519PublicKey.from_public_bytes(theirs)), mine, theirs)
    # The key is used once, so that the nonce need not change.
    content = cipher.encrypt(bytes(12), np.asarray(numbers, "int64").tobytes(), None)
    return np.frombuffer(content[:-TAG], "uint8"), {"key": mine.hex(), "tag": content[-TAG:].hex()}


def _cipher(shared: bytes, sender: bytes, receiver: bytes) -> Any:
    """Return the cipher of a shared secret and both public keys."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return ChaCha20Poly1305(HKDF(SHA256(), 32, None, b"turnout sum" + sender + receiver).derive(shared))
