"""Atomic writes: to a temporary file first, which is then renamed."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnout.core.errors import CannotWriteError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk that is full."""

GO_ON = "then go on by turnout resume DIR (a run) or the same command (all else)"
"""What to do where nothing that was written is lost."""


def write(path: Path, content: bytes | str, private: bool = False) -> None:
    """Write `content` to `path` atomically; `CannotWriteError` on failure, which leaves a former file as it was.

    Args:
        path: Path of the file.
        content: The new content.
        private: Whether only the owner may read the file.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb", opener=private_opener if private else None) as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CannotWriteError(f"{path}: cannot be written ({error.strerror}): {_remedy(error)}, {GO_ON}") from None


def _remedy(error: OSError) -> str:
    return "free some space" if error.errno in FULL else "make its folder writable"


def private_opener(name: str, flags: int) -> int:
    """Open a file, for `open`; a new one can be read by its owner only.

    Args:
        name: Name of the file.
        flags: Flags of `os.open`.
    """
    return os.open(name, flags | os.O_CREAT, 0o600)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Keep other processes, and threads, that want to change the file `path` waiting inside."""
    with open(path.with_name(f".{path.name}.lock"), "ab", opener=private_opener) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_folder(folder: Path) -> Path:
    """Create `folder` if it does not exist, and return it; `CannotWriteError` where that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWriteError(f"{folder}: cannot be created ({error.strerror}): choose another --out") from None
    return folder
