"""The text of a study: TOML files merged into one tree of tables, in which every mistake still has its file and line."""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.core.errors import UserError
from turnout.experiment.toml_file import line_of, read_toml

PARTS = ("problems", "methods")
"""The subfolders of a study's folder; the name of a file in them is its key."""

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class File:
    """A TOML file of a study.

    Args:
        path: Its path.
        text: Its text.
        tables: Its tables.
        mounts: Pairs of a place in the study and the place in the file that is there.
        folder: Where the files of the user's own classes are looked up.
    """

    path: str
    text: str
    tables: dict
    mounts: tuple[tuple[Place, Place], ...]
    folder: Path


@dataclass(frozen=True)
class Source:
    """The tables of a study, and the files that they are from.

    Args:
        tables: The tables of the schema.
        files: Their files; none for tables given in Python.
        label: The name in messages where no file is known.
    """

    tables: dict
    files: tuple[File, ...] = ()
    label: str = "study"

    def depth(self, place: Place) -> int:
        """Return how much of `place` exists."""
        return _depth(self.tables, place)

    def folder(self, place: Place) -> Path:
        """Return the folder of the file that has `place`."""
        owner = self._owner(place)
        return Path() if owner is None else owner[0].folder

    def error(self, place: Place, sentence: str) -> UserError:
        """Return the error `sentence` about the key at `place`, with its file and line where they are known."""
        owner, where, name = self._owner(place), self.label, place
        if owner is not None:
            file, name = owner
            line = line_of(file.text, name) if name else None
            where = f"{file.path}, line {line}" if line else file.path
        key = ".".join(part for part in name if isinstance(part, str))
        return UserError(f"{where}: {key}: {sentence}" if key else f"{where}: {sentence}")

    def _owner(self, place: Place) -> tuple[File, Place] | None:
        """Return the file that has most of `place`, and the place in it."""
        owners = [
            (len(here) + _depth(file.tables, inside) - len(there), file, inside)
            for file in self.files
            for here, there in file.mounts
            if place[: len(here)] == here
            for inside in [there + place[len(here) :]]
        ]
        return max(owners, key=lambda owner: owner[0])[1:] if owners else None


def read_source(path: Path) -> Source:
    """Read the study in the folder or the file `path`."""
    if not path.is_dir():
        return joined([_file(path, ())], str(path))
    files = [_file(file, (), path) for file in sorted(path.glob("*.toml"))]
    files += [_file(file, (part, file.stem), path) for part in PARTS for file in sorted((path / part).glob("*.toml"))]
    if not files:
        raise UserError(f"{path} has no TOML files: give the folder of a study, or a file")
    return joined(files, str(path))


def _file(path: Path, prefix: tuple[str, ...], folder: Path | None = None) -> File:
    text, tables = read_toml(path)
    return File(str(path), text, tables, ((prefix, ()),), folder or path.parent)


def joined(files: list[File], label: str) -> Source:
    """Return the files as one study."""
    tables: dict[str, Any] = {}
    for k, file in enumerate(files):
        for prefix, _ in file.mounts:
            own: Any = file.tables
            for name in reversed(prefix):
                own = {name: own}
            _join(tables, own, (), Source({}, tuple(files[: k + 1]), label))
    return Source(tables, tuple(files), label)


def _join(tables: dict, new: dict, place: Place, source: Source) -> None:
    """Add `new` to `tables` in place; `UserError` for a key that is there already."""
    for key, value in new.items():
        if key not in tables:
            tables[key] = deepcopy(value)
        elif isinstance(value, dict) and isinstance(tables[key], dict):
            _join(tables[key], value, (*place, key), source)
        else:
            raise source.error((*place, str(key)), f"{key} is given in another file already: give it once")


def _depth(tables: Any, place: Place) -> int:
    """Return how many parts of `place` there are, one after another, in `tables`."""
    for depth, part in enumerate(place):
        known = isinstance(tables, dict) and part in tables
        known = known or (isinstance(tables, list) and isinstance(part, int) and part < len(tables))
        if not known:
            return depth
        tables = tables[part]
    return len(place)
