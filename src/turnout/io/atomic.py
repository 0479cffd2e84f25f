"""Atomic writes: to a temporary file first, which is then renamed."""

import os
from contextlib import suppress
from pathlib import Path

from turnout.core.errors import UserError


def write(path: Path, content: bytes | str) -> None:
    """Write `content` to `path` atomically; `UserError` on failure, which leaves a former file as it was.

    Args:
        path: Path of the file.
        content: The new content.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written ({error.strerror}): free some space, then run turnout resume") from None


def default_cache() -> Path:
    """Return turnout's cache folder: $XDG_CACHE_HOME/turnout, or ~/.cache/turnout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turnout"


def write_cache(path: Path, content: bytes) -> None:
    """Write a cache file, also while other processes write it; best effort: errors are ignored.

    Args:
        path: Path of the file.
        content: The new content.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(UserError, OSError):
        make_folder(path.parent)
        write(temporary, content)
        os.replace(temporary, path)


def make_folder(folder: Path) -> Path:
    """Create `folder` if it does not exist, and return it; `UserError` where that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be created ({error.strerror}): choose another --out") from None
    return folder
