"""Arrays that take long to compute and depend on their arguments alone, kept from one process to the next."""

import io
from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from turnout.core.cache import cache_folder, usable, write_cache

DIGEST = 32
"""Bytes of the digest before the content of a file, by which it is verified."""


def kept(what: str, parts: Sequence[Any], packages: Sequence[str], compute: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    """Return the arrays `compute()`, or what is kept of an earlier call; a file that is not whole is computed anew.

    Args:
        what: Name of what is computed.
        parts: Arrays, numbers and texts that determine it.
        packages: Names of the packages that compute it, whose versions determine it too.
        compute: Computes it.
    """
    folder = cache_folder()
    if folder is None or not usable(folder := folder / "values"):
        return compute()
    try:
        versions = [f"{name} {version(name)}" for name in packages]
    except PackageNotFoundError:
        # Without the package it says what to install.
        return compute()
    path = folder / f"{what}-{digest(*parts, *versions)}"
    arrays = _read(path.read_bytes()) if path.exists() else None
    if arrays is None:
        arrays = compute()
        write_cache(path, _content(arrays))
    return arrays


def digest(*parts: Any) -> str:
    """Return a digest of arrays, numbers and texts."""
    hashed = blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            hashed.update(f"array {part.dtype.str} {part.shape} ".encode())
            hashed.update(np.ascontiguousarray(part).view(np.uint8).data)
        else:
            hashed.update(f"{type(part).__name__} {part!r} ".encode())
    return hashed.hexdigest()


def _content(arrays: list[np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, *arrays)
    content = buffer.getvalue()
    return blake2b(content, digest_size=DIGEST).digest() + content


def _read(content: bytes) -> list[np.ndarray] | None:
    """Return the arrays in a file; None where it is not whole."""
    if blake2b(content[DIGEST:], digest_size=DIGEST).digest() != content[:DIGEST]:
        return None
    with np.load(io.BytesIO(content[DIGEST:]), allow_pickle=False) as arrays:
        return [arrays[name] for name in arrays.files]
