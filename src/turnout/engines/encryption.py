"""Sums of replies under encryption that adds: the server adds ciphertexts, and only the members can decrypt.

The scheme is BFV (Fan and Vercauteren, Somewhat practical fully homomorphic encryption, 2012) of Microsoft SEAL, by TenSEAL, with
one secret key that all members share. Numbers have a fixed point, so that sums are exact: after an approximate scheme (CKKS),
the decrypted sum, which the server gets, would reveal the secret key (Li and Micciancio, Eurocrypt 2021).
"""

from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, PyTree, UInt8

from turnout.core.errors import UserError
from turnout.engines.request import Refused
from turnout.io.atomic import write

DEGREE = 4096
"""Numbers in one ciphertext."""

MODULUS = 1152921504606830593
"""Sums are exact modulo this prime, the largest below 2^60 that is 1 modulo 2 `DEGREE`."""

PRIMES = [40, 40, 28]
"""Bits of the primes of the ciphertexts: 108 bits in all, of which 109 are 128-bit secure.

The last prime is not part of a ciphertext. Each reply adds at most 21.5 to the noise (an error of at most 21, and a rounding),
which has to stay below 2^80 / (2 `MODULUS`) = 2^19, up to 1 %: so the sum of `MOST` replies is always decrypted right.
"""

MOST = 2**14
"""Most replies in a sum."""

FRACTION = 40
"""Bits after the point: a number is rounded by at most 2^-41."""

BYTES = 24 * DEGREE
"""Bytes of a ciphertext with its length, filled up with zeros: its compressed size differs by some bytes."""

PREFIX = b"turnout sum key 1\n"
LENGTH = 4


def import_tenseal() -> Any:
    """Return TenSEAL; `UserError` where it is not installed."""
    try:
        import tenseal
    except ModuleNotFoundError as error:
        raise UserError(f"aggregation = 'encrypted' needs TenSEAL ({error}): pip install 'turnout[encrypted]'") from None
    return tenseal


def ciphertexts(numbers: int) -> int:
    """Return how many ciphertexts hold so many numbers, and the count of the replies.

    Args:
        numbers: Numbers in a reply.
    """
    return -(-(numbers + 1) // DEGREE)


def encrypted_shape(numbers: int) -> jax.ShapeDtypeStruct:
    """Return shape and type of an encrypted reply of so many numbers.

    Args:
        numbers: Numbers in a reply.
    """
    return jax.ShapeDtypeStruct((ciphertexts(numbers), BYTES), np.dtype("uint8"))


def numbers_in(tree: PyTree) -> int:
    """Return how many numbers are in the arrays of `tree`."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


class SumKey:
    """The secret key of the members, which encrypts replies and decrypts sums.

    Args:
        content: The key, of `new_key`.
        clients: Number of clients, the most replies in a sum.

    Attributes:
        id: A digest, by which members see that they have the same key.
    """

    def __init__(self, content: bytes, clients: int):
        if clients > MOST:
            raise UserError(f"aggregation = 'encrypted' adds up to {MOST} replies, but there are {clients} clients: take 'sum'")
        self._context = import_tenseal().context_from(content, 1)
        self.id = sha256(content).hexdigest()[:16]
        self.limit = MODULUS // 2 // clients * 2.0**-FRACTION

    @classmethod
    def read(cls, file: Path, clients: int) -> "SumKey":
        """Return the key in a file of `write_key`; `UserError` if it holds none.

        Args:
            file: The file.
            clients: Number of clients.
        """
        try:
            content = file.read_bytes()
        except OSError as error:
            raise UserError(f"{file} cannot be read as a key for sums: {error.strerror}") from None
        key = content[len(PREFIX) + sha256().digest_size :]
        if content != _with_digest(key):
            raise UserError(f"{file} holds no key for sums, or was changed: make one with turnout sum-key, once for all members")
        return cls(key, clients)

    def encrypt(self, reply: PyTree) -> UInt8[np.ndarray, "k bytes"]:
        """Return the ciphertexts of a reply's numbers and of the count 1.

        Args:
            reply: The reply times its weight.

        Raises:
            Refused: A number is too large, or not finite.
        """
        parts = [np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(reply)]
        numbers = np.concatenate(parts) if parts else np.zeros(0)
        if not np.all(np.abs(numbers) < self.limit):
            raise Refused(
                f"a number of the weighted reply is not below {self.limit:g}, the most that aggregation = 'encrypted' adds for "
                "so many clients: scale the problem, or take aggregation = 'sum'"
            )
        whole = np.zeros(ciphertexts(numbers.size) * DEGREE, "int64")
        whole[: numbers.size] = np.rint(np.ldexp(numbers, FRACTION))
        whole[numbers.size] = 1
        tenseal = import_tenseal()
        return np.stack([_filled(tenseal.bfv_vector(self._context, part.tolist())) for part in whole.reshape(-1, DEGREE)])

    def decrypt(self, total: PyTree, numbers: int, replies: int) -> Int[np.ndarray, " d"]:
        """Return the numbers of a sum, times 2^`FRACTION`.

        Args:
            total: What came as its ciphertexts, [k, `BYTES`].
            numbers: Numbers in the sum.
            replies: Replies in the sum.

        Raises:
            Refused: It is no sum of so many replies, at least two, under this key.
        """
        shape = encrypted_shape(numbers)
        if getattr(total, "shape", None) != shape.shape or total.dtype != shape.dtype or unusable(total) is not None:
            raise Refused("this is no encrypted sum")
        whole = np.concatenate([np.asarray(_opened(self._context, part).decrypt(), "int64") for part in total])
        if replies < 2 or whole[numbers] != replies:
            raise Refused(f"this is no sum of {replies} replies under the key of this node: it decrypts sums of two or more only")
        return whole[:numbers]


def new_key() -> bytes:
    """Return a new key."""
    return _new_context(with_key=True)


def write_key(file: Path) -> None:
    """Write a new key to a file that only its owner can read; `UserError` where there is one.

    Args:
        file: The file.
    """
    if file.exists():
        raise UserError(f"{file} exists, and keys are not overwritten: choose another file")
    write(file, _with_digest(new_key()), private=True)


@lru_cache(maxsize=1)
def server_context() -> Any:
    """Return the server's context: the parameters of the scheme, without any key."""
    return import_tenseal().context_from(_new_context(with_key=False), 1)


def unusable(reply: UInt8[np.ndarray, "k bytes"]) -> str | None:
    """Return None if these are ciphertexts that can be added, and otherwise what is wrong.

    Args:
        reply: Arrays of the shape `encrypted_shape`.
    """
    try:
        for part in reply:
            vector = _opened(server_context(), part)
            if vector.size() != DEGREE:
                raise ValueError
            vector.add_(vector)
    except (ValueError, RuntimeError, MemoryError):
        return "not encrypted"
    return None


def add(replies: list[UInt8[np.ndarray, "k bytes"]]) -> UInt8[np.ndarray, "k bytes"]:
    """Return the encrypted sum of encrypted replies; `UserError` for some that no client makes by `SumKey.encrypt`.

    Args:
        replies: The replies.
    """
    sums = []
    try:
        for first, *others in zip(*replies, strict=True):
            total = _opened(server_context(), first)
            for other in others:
                total.add_(_opened(server_context(), other))
            sums.append(_filled(total))
    except (ValueError, RuntimeError) as error:
        raise UserError(f"encrypted replies cannot be added ({error}): look into the logs of the nodes") from None
    return np.stack(sums)


def restored(numbers: Int[np.ndarray, " d"], like: PyTree) -> PyTree:
    """Return decrypted numbers as a reply.

    Args:
        numbers: The numbers, times 2^`FRACTION`.
        like: Shapes and types of the reply.
    """
    values: Float[np.ndarray, " d"] = np.ldexp(numbers.astype(float), -FRACTION)
    leaves, structure = jax.tree.flatten(like)
    bounds = np.cumsum([numbers_in(leaf) for leaf in leaves])[:-1]
    parts = zip(np.split(values, bounds), leaves, strict=True) if leaves else ()
    return jax.tree.unflatten(structure, [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in parts])


def _with_digest(key: bytes) -> bytes:
    """Return the content of the file of a key."""
    return PREFIX + sha256(key).digest() + key


def _new_context(with_key: bool) -> bytes:
    """Return the parameters of the scheme, with a new secret key or without."""
    tenseal = import_tenseal()
    scheme, symmetric = tenseal.SCHEME_TYPE.BFV, tenseal.ENCRYPTION_TYPE.SYMMETRIC
    context = tenseal.context(scheme, DEGREE, MODULUS, PRIMES, symmetric, 1)
    return context.serialize(save_public_key=False, save_secret_key=with_key, save_galois_keys=False, save_relin_keys=False)


def _filled(vector: Any) -> UInt8[np.ndarray, " bytes"]:
    """Return a ciphertext in `BYTES` bytes: its length, itself, zeros."""
    content = vector.serialize()
    if len(content) > BYTES - LENGTH:
        raise UserError(f"a ciphertext has {len(content)} bytes, more than this version of TenSEAL should need: install 0.3.16")
    return np.frombuffer((len(content).to_bytes(LENGTH, "little") + content).ljust(BYTES, b"\0"), "uint8")


def _opened(context: Any, array: UInt8[np.ndarray, " bytes"]) -> Any:
    """Return the ciphertext in an array of `_filled`; `ValueError` or `RuntimeError` where there is none."""
    content = array.tobytes()
    length = int.from_bytes(content[:LENGTH], "little")
    return import_tenseal().bfv_vector_from(context, content[LENGTH : LENGTH + length])
