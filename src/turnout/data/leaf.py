"""Reading the json files of LEAF, with `users` and `user_data`."""

import json
from pathlib import Path

import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import config
from turnout.data.arrays import SIDE, joined, labels_of, numbers_of, pixels_of
from turnout.data.dataset import Dataset
from turnout.data.source import Source, located


@config
class Leaf(Source):
    """json files of LEAF, whose users are the natural clients (Caldas et al., LEAF, 2019).

    Rows of 784 pixels, as in FEMNIST, become images [28, 28], the white background being 255.

    Args:
        path: A file, or a folder whose files are read in the order of their names.

    Examples:
        >>> import json, pathlib, tempfile
        >>> from turnout.data import Leaf
        >>> users = {"users": ["a", "b"], "user_data": {"a": {"x": [[1.0], [2.0]], "y": [0, 1]}, "b": {"x": [[3.0]], "y": [1]}}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (pathlib.Path(folder) / "all.json").write_text(json.dumps(users))
        ...     data = Leaf(folder).load()
        >>> data.rows
        3
    """

    path: str

    def load(self, folder=None) -> Dataset:
        """Return the data of all users; `UserError` if a file is missing or unusable."""
        path = located(self.path, folder)
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not files:
            raise UserError(f"{path}: the folder holds no json files: give the one with LEAF's, such as femnist/data/train")
        parts = [part for file in files for part in _users(file)]
        if not parts:
            raise UserError(f"{path}: no user has any rows: make the files again")
        return joined(path, parts)


def _users(path: Path) -> list[tuple[np.ndarray, np.ndarray, str]]:
    """Return the (features, labels, name) of each user of one file with rows."""
    try:
        content = json.loads(path.read_bytes())
        named = [(name, content["user_data"][name]) for name in content["users"]]
        users = [(name, list(user["x"]), list(user["y"])) for name, user in named]
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): give a file that can") from None
    except ValueError as error:
        raise UserError(f"{path}: not json ({error}): fetch or make it again") from None
    except (LookupError, TypeError) as error:
        raise UserError(f"{path}: not a file of LEAF, which has users and for each user_data with x and y ({error})") from None
    return [_rows(path, str(name), rows, labels) for name, rows, labels in users if rows or labels]


def _rows(path: Path, name: str, rows: list, labels: list) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the (features, labels, name) of one user."""
    if len(rows) != len(labels):
        raise UserError(f"{path}: user {name} has {len(rows)} x but {len(labels)} y: make the file again")
    features = numbers_of(rows, path, f"x of user {name}")
    if features.shape[1:] == (SIDE * SIDE,):
        features = pixels_of(features, path, f"x of user {name}")
    return features, labels_of(labels, path, f"y of user {name}", whole=True), name
