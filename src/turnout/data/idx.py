"""Reading idx files, the format of MNIST."""

import gzip
from pathlib import Path

import numpy as np

from turnout.errors import UserError

BYTES = 0x08
"""The idx code of unsigned bytes, the only kind read here."""


def read_idx(path: Path) -> np.ndarray:
    """Read an idx file of unsigned bytes, gzipped if its name ends in .gz."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise UserError(f"{path}: cannot be read ({error}): check that the file is whole") from None
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != BYTES:
        raise UserError(f"{path}: not an idx file of bytes: its first four bytes are {content[:4].hex(' ')}")
    axes = content[3]
    shape = np.frombuffer(content, ">u4", axes, offset=4) if len(content) >= 4 + 4 * axes else np.array([2**31])
    if len(content) != 4 + 4 * axes + int(np.prod(shape, dtype=np.int64)):
        raise UserError(f"{path}: its length does not fit its header: check that the file is whole")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)
