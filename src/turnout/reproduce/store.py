"""The results kept in the output folder, so that an interrupted reproduction goes on where it stopped."""

import io
import json
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import polars as pl

import turnout
from turnout.experiment.files import make_folder, write
from turnout.reproduce.play import Task


@dataclass(frozen=True)
class Kept:
    """What one task left: its hits and curves (see `play.play`), the seconds they took and how many runs they are."""

    hits: pl.DataFrame
    curves: pl.DataFrame
    seconds: float
    runs: int


class Store:
    """Keeps the results of tasks in `folder`/runs: two tables each, and last a note that they are complete."""

    def __init__(self, folder: Path):
        self.folder = make_folder(folder / "runs")

    def read(self, task: Task, targets: list[float], data_mark: str) -> Kept | None:
        """Return what is kept of `task`; None where there is nothing, or where it is of other settings, seeds or data."""
        note, tables = self._paths(task)
        try:
            facts = json.loads(note.read_text())
            if facts["mark"] != mark(task, targets, data_mark):
                return None
            hits, curves = (pl.read_parquet(path.read_bytes()) for path in tables)
        except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
            return None
        return Kept(hits, curves, facts["seconds"], facts["runs"])

    def write(self, task: Task, targets: list[float], data_mark: str, kept: Kept) -> None:
        """Keep the results of `task`."""
        note, tables = self._paths(task)
        for path, frame in zip(tables, (kept.hits, kept.curves), strict=True):
            write(path, parquet(frame))
        facts = {"mark": mark(task, targets, data_mark), "seconds": kept.seconds, "runs": kept.runs}
        write(note, json.dumps(facts) + "\n")

    def _paths(self, task: Task) -> tuple[Path, tuple[Path, Path]]:
        stem = f"{task.name}-{task.family.name}{'-fresh' if task.fresh else ''}"
        return self.folder / f"{stem}.json", (self.folder / f"{stem}.hits.parquet", self.folder / f"{stem}.curves.parquet")


def mark(task: Task, targets: list[float], data_mark: str) -> str:
    """Return a digest of all that the results of `task` depend on."""
    family = task.family.experiment.to_toml() + repr(task.family.spec)
    what = [code(), data_mark, family, task.settings, task.seeds, targets]
    return sha256(json.dumps(what).encode()).hexdigest()


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
