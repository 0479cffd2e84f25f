"""Writing files so that nothing is ever half-written: to a temporary name first, then renamed."""

import os
from contextlib import suppress
from pathlib import Path

from turnout.core.errors import UserError


def write(path: Path, content: bytes | str) -> None:
    """Write `content` to `path`; on any failure what stood there before stays."""
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
    """Return the folder for what can be computed again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turnout"


def write_cache(path: Path, content: bytes) -> None:
    """Write what can be computed again, as others may be doing at the same time; where it cannot be written, nobody minds."""
    own = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(UserError, OSError):
        make_folder(path.parent)
        write(own, content)
        os.replace(own, path)


def make_folder(folder: Path) -> Path:
    """Create `folder` where it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}): choose another --out") from None
    return folder
