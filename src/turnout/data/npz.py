"""Reading arrays from an npz file."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from turnout.core.errors import UserError
from turnout.data.files import UNREADABLE


def read_npz(path: Path, names: Sequence[str], remedy: str = "copy it again") -> list[np.ndarray]:
    """Return the arrays `names` of an npz file; the error about an unreadable one ends with `remedy`.

    Args:
        path: Path of the file.
        names: Names of the arrays.
        remedy: What to do about an unreadable file.
    """
    try:
        # np.load does not close a path whose content is not a zip file.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return [file[name] for name in names]
    except (*UNREADABLE, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: cannot be read ({error}): {remedy}") from None
