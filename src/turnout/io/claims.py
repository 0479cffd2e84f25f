"""Folders that one command at a time may write results to."""

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnout.core.errors import UserError, caution
from turnout.io.atomic import make_folder, private_opener

CLAIM = ".claim"
"""The file whose lock is the claim. The system ends it with the process, however that ends."""

_HELD: set[tuple[Path, int]] = set()


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """Yield `folder`, which is made, and keep all other commands and threads out of it; within a claim it does nothing more.

    Raises:
        UserError: Another command writes to the folder, or it cannot be made.
    """
    held = make_folder(folder).resolve(), threading.get_ident()
    if held in _HELD:
        yield folder
        return
    path = folder / CLAIM
    lock = _locked(path, folder)
    _HELD.add(held)
    try:
        yield folder
    finally:
        _HELD.remove(held)
        if lock is not None:
            path.unlink(missing_ok=True)
            os.close(lock)


def holds_files(folder: Path) -> bool:
    """Return whether there is anything in a claimed folder beside its claim."""
    return any(path.name != CLAIM for path in folder.iterdir())


def _locked(path: Path, folder: Path) -> int | None:
    """Return the descriptor of the locked file; None where the file system has no locks, which is told."""
    while True:
        try:
            lock = private_opener(str(path), os.O_RDWR)
        except OSError as error:
            raise UserError(f"{folder}: nothing can be written there ({error.strerror}): choose another --out") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise UserError(
                    f"{folder}: another turnout command is writing its results there: choose another --out, or wait for it"
                ) from None
            caution(f"{folder}: the file system has no locks ({error.strerror}), so that two commands may write there at once")
            return None
        # Whoever held it before may have removed the file between its opening and its lock.
        if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
            return lock
        os.close(lock)
