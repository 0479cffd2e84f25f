"""The runs of a study that are kept in its folder, each under the digest of what determines it."""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import polars as pl

from turnout.core.errors import UserError
from turnout.io.atomic import make_folder, write
from turnout.io.parquet import parquet

RUNS, ALL, ENDS = "runs", "runs.parquet", "ends"

CHECKPOINT = ".safetensors"
"""The ending of a checkpoint's file, whose name is the key of its program."""


class Store:
    """Keeps the rows of runs in files of a folder, one for each time that a program was played.

    Args:
        folder: The folder of the study.
    """

    def __init__(self, folder: Path):
        other = next((name for name in ("config.toml", "runs.json", "summary.json") if (folder / name).exists()), None)
        if other is not None and not (folder / RUNS).is_dir():
            raise UserError(f"{folder} holds another run ({other}): choose another --out")
        self.runs = make_folder(folder / RUNS)
        self._files: dict[str, Path] = {}
        for file in sorted(self.runs.glob("*.parquet")):
            with suppress(OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
                self._know(pl.read_parquet(file, columns=["run"])["run"].unique().to_list(), file)

    def __contains__(self, key: str) -> bool:
        return key in self._files

    def add(self, rows: pl.DataFrame) -> None:
        """Keep the rows of runs, which the column "run" names."""
        self._know(keys_of(rows), write_rows(self.runs, rows))

    def forget(self, program: str) -> None:
        """Remove the checkpoint of the program with this key."""
        (self.runs / f"{program}{CHECKPOINT}").unlink(missing_ok=True)

    def read(self, keys: list[str]) -> pl.DataFrame:
        """Return the rows of those of the runs `keys` that are kept."""
        wanted: dict[Path, list[str]] = {}
        for key in keys:
            if key in self._files:
                wanted.setdefault(self._files[key], []).append(key)
        frames = [pl.read_parquet(file).filter(pl.col("run").is_in(its_keys)) for file, its_keys in wanted.items()]
        return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()

    def _know(self, keys: list[str], file: Path) -> None:
        for key in keys:
            self._files.setdefault(key, file)


def write_rows(runs: Path, rows: pl.DataFrame) -> Path:
    """Write the rows of runs into the folder `runs`, and return their file, whose name is a digest of their keys."""
    file = runs / f"{sha256(''.join(keys_of(rows)).encode()).hexdigest()[:32]}.parquet"
    write(file, parquet(rows))
    return file


def keys_of(rows: pl.DataFrame) -> list[str]:
    """Return the keys of the runs whose rows these are."""
    return rows["run"].unique(maintain_order=True).to_list()
