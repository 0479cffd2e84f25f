"""The results kept in the output folder, so that an interrupted reproduction goes on where it stopped."""

import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path

import polars as pl

import turnout
from turnout.io.atomic import make_folder, write

Frames = dict[str, pl.DataFrame]

Watch = Callable[[str, int, int], None]
"""Told which task is being played, how many are done and how many there are so far."""


@dataclass(frozen=True)
class Kept:
    """What one task left: its frames by name, the seconds they took, and whether they are from before."""

    frames: Frames
    seconds: float
    reused: bool


@dataclass
class Played:
    """The tasks played, how many of them were kept from before, and the seconds that all took, those included."""

    tasks: list = field(default_factory=list)
    seconds: float = 0.0
    reused: int = 0

    def add(self, task, kept: Kept) -> None:
        """Add what a task left."""
        self.tasks.append(task)
        self.seconds += kept.seconds
        self.reused += kept.reused


class Store:
    """Keeps the frames of tasks in `folder`/runs: a table each, and last a note that they are complete."""

    def __init__(self, folder: Path):
        self.folder = make_folder(folder / "runs")

    def played(self, name: str, mark: str, play: Callable[[], Frames]) -> Kept:
        """Return what is kept of the task `name`, or what `play` returns, which is then kept.

        `mark` is a digest of all that the task depends on: what is kept with another one is played anew.
        """
        kept = self.read(name, mark)
        if kept is not None:
            return kept
        began = time.perf_counter()
        kept = Kept(play(), time.perf_counter() - began, False)
        self.write(name, mark, kept)
        return kept

    def read(self, name: str, mark: str) -> Kept | None:
        """Return what is kept of the task `name`; None where there is nothing, or where it is of something else."""
        try:
            facts = json.loads((self.folder / f"{name}.json").read_text())
            if facts["mark"] != mark:
                return None
            frames = {part: pl.read_parquet(self._table(name, part).read_bytes()) for part in facts["tables"]}
        except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
            return None
        return Kept(frames, facts["seconds"], True)

    def write(self, name: str, mark: str, kept: Kept) -> None:
        """Keep the frames of the task `name`."""
        for part, frame in kept.frames.items():
            write(self._table(name, part), parquet(frame))
        facts = {"mark": mark, "seconds": kept.seconds, "tables": list(kept.frames)}
        write(self.folder / f"{name}.json", json.dumps(facts) + "\n")

    def _table(self, name: str, part: str) -> Path:
        return self.folder / f"{name}.{part}.parquet"


def mark_of(*what) -> str:
    """Return a digest of `what` and of this package's code."""
    return sha256(json.dumps([code(), *what]).encode()).hexdigest()


@cache
def code() -> str:
    """Return a digest of this package's own source, so that nothing played by other code is mistaken for this one's."""
    package = Path(turnout.__file__).parent
    return sha256(b"".join(path.read_bytes() for path in sorted(package.rglob("*.py")))).hexdigest()


def parquet(frame: pl.DataFrame) -> bytes:
    """Return `frame` as a Parquet file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()
