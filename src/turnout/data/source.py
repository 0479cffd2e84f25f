"""`Source`: data in files of a format other than LIBSVM."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from turnout.core.errors import UserError

if TYPE_CHECKING:
    from turnout.data.dataset import Dataset


class Source:
    """A description of data files; a subclass is a record whose fields are the keys in TOML, and defines `load`.

    Examples:
        >>> import numpy as np, turnout as t
        >>> from turnout.data import Dataset, Source
        >>> @t.record
        ... class Ones(Source):
        ...     rows: int = 3
        ...
        ...     def load(self, folder=None):
        ...         return Dataset("ones", np.ones((self.rows, 2)), np.ones(self.rows))
        >>> Ones().load().features.shape
        (3, 2)
    """

    def load(self, folder: str | Path | None = None) -> "Dataset":
        """Return the data; relative paths are also looked up in `folder` and in $TURNOUT_DATA."""
        raise UserError(f"{type(self).__name__} has no load(self, folder): write one")


def places(folder: str | Path | None) -> list[Path]:
    """Return the folders of data files: `folder`, then $TURNOUT_DATA."""
    return [Path(place) for place in (folder, os.environ.get("TURNOUT_DATA")) if place]


def located(path: str, folder: str | Path | None) -> Path:
    """Return the first existing one of `path`, folder/path and $TURNOUT_DATA/path; `UserError` if there is none.

    Args:
        path: Path that the user gave.
        folder: Folder to search; None for none.
    """
    candidates = [Path(path), *(place / path for place in places(folder))]
    for candidate in candidates:
        if os.path.exists(candidate):
            return candidate
    raise UserError(f"{path}: there is no such file or folder: check the path, or set TURNOUT_DATA to where it is")
