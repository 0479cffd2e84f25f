"""Writing files so that nothing is ever half-written: to a temporary name first, then renamed."""

import os
from pathlib import Path

from turnout.errors import UserError


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


def make_folder(folder: Path) -> Path:
    """Create `folder` where it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}): choose another --out") from None
    return folder
