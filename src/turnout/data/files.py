"""Opening plain and compressed files, and errors about those that cannot be read."""

import bz2
import gzip
import lzma
import zlib
from io import BufferedIOBase
from pathlib import Path

from turnout.core.errors import UserError

OPENERS = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}
"""Functions that open compressed files, by their endings."""

UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""Errors of opening and decompressing a file."""


def open_text(path: Path) -> BufferedIOBase:
    """Open a plain or compressed file to read its bytes."""
    return OPENERS.get(path.suffix, open)(path, "rb")


def data_name(path: Path) -> str:
    """Return the file's name without the ending of a compressed file."""
    return path.stem if path.suffix in OPENERS else path.name


def unreadable(path: Path, error: BaseException) -> UserError:
    """Return the error for a file that cannot be opened or decompressed.

    Args:
        path: Path of the file.
        error: What went wrong.
    """
    if isinstance(error, FileNotFoundError):
        return UserError(f"{path}: there is no such file: check the path")
    if isinstance(error, OSError) and error.strerror:
        return UserError(f"{path}: cannot be read ({error.strerror}): give a file that can")
    return UserError(f"{path}: cannot be decompressed ({error or type(error).__name__}): fetch or copy the file again")
