"""Data in files of other formats: where they are, and what is needed to read them."""

import importlib
import os
from pathlib import Path

from turnout.core.errors import UserError
from turnout.data.dataset import Dataset


class Source:
    """Data to read: `load` returns them."""

    def load(self, folder: str | Path | None = None) -> Dataset:
        """Return the data; a path that is not here is looked up in `folder` and in $TURNOUT_DATA."""
        raise UserError(f"{type(self).__name__} has no load(self, folder): write one")


def places(folder: str | Path | None) -> list[Path]:
    """Return where data files may be: `folder`, then $TURNOUT_DATA."""
    return [Path(place) for place in (folder, os.environ.get("TURNOUT_DATA")) if place]


def located(path: str, folder: str | Path | None) -> Path:
    """Return `path` as it is or within `folder` or $TURNOUT_DATA, the first that exists."""
    candidates = [Path(path), *(place / path for place in places(folder))]
    for candidate in candidates:
        if os.path.exists(candidate):
            return candidate
    raise UserError(f"{path}: there is no such file or folder: check the path, or set TURNOUT_DATA to where it is")


def extra(module: str, needed_for: str):
    """Return the `module` of the extra "data"."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"{needed_for} needs {module} ({error}): pip install 'turnout[data]'") from None
