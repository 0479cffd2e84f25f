"""`StateFile`: the private states of those clients that took part in a run, on disk."""

import os
import shutil
import tempfile
from pathlib import Path
from weakref import finalize

import jax
import numpy as np
from jaxtyping import Bool, Int

from turnout.core.errors import UserError
from turnout.core.file_reads import read_pieces

PATTERN = "states-*.bin"
"""The names of the files."""

GARBAGE = 2
"""A file is written anew where it has more than so many states for each client that has one."""


class StateFile:
    """The states of clients by version: each new one goes to the end of a file, so that an older length is an older version.

    A state is one record, the client's number and the bytes of its arrays. Where old states fill most of the file, those in use
    go to a new one, and the file before it stays until the next one, since a checkpoint may still name it.

    Args:
        folder: Folder of the files; None for a folder that lives as long as this object.
        like: Shape and dtype of each array of a state.
        clients: n.
    """

    def __init__(self, folder: Path | None, like: list[jax.ShapeDtypeStruct], clients: int):
        self.folder = Path(tempfile.mkdtemp(prefix="turnout-states-")) if folder is None else folder
        self.like, self.version = like, 0
        bounds = np.cumsum([8, *(int(np.prod(leaf.shape)) * np.dtype(leaf.dtype).itemsize for leaf in like)])
        self._bounds, self._record = bounds, int(bounds[-1])
        self._place = np.full(clients, -1, np.int64)
        self.generation, self.records = 0, 0
        self._open_files: list = []
        finalize(self, _leave, self._open_files, self.folder if folder is None else None)

    def read(self, ids: Int[np.ndarray, " m"], known: Bool[np.ndarray, " m"], into: list[np.ndarray]) -> None:
        """Write the states of the clients `ids` to arrays [m, ...]; those of clients without one are zero.

        Args:
            ids: Ids of the clients.
            known: Set to which of them have a state.
            into: Arrays like those of a state.
        """
        place = self._place[ids]
        known[...] = place >= 0
        records = np.zeros((ids.size, self._record), np.uint8)
        if known.any():
            failed = read_pieces(
                self._open().fileno(), np.maximum(place, 0) * self._record, np.where(known, self._record, 0), records
            )
            if failed >= 0:
                raise UserError(f"{self._path()}: the state of client {ids[failed]} cannot be read: begin the run anew")
        for k, array in enumerate(into):
            part = np.ascontiguousarray(records[:, self._bounds[k] : self._bounds[k + 1]])
            array[...] = part.view(array.dtype).reshape(array.shape)

    def write(self, ids: Int[np.ndarray, " k"], states: list[np.ndarray]) -> None:
        """Add the new states of the clients `ids`.

        Args:
            ids: Ids of the clients.
            states: Arrays [k, ...] like those of a state.
        """
        parts = [ids.astype(np.int64), *states]
        rows = [np.ascontiguousarray(part).reshape(ids.size, -1).view(np.uint8) for part in parts]
        self._append(ids, np.concatenate(rows, axis=1))

    def _append(self, ids, records) -> None:
        file = self._open()
        file.seek(self.records * self._record)
        file.write(records.tobytes())
        file.flush()
        self._place[ids] = self.records + np.arange(ids.size)
        self.records += ids.size

    def saved(self) -> dict[str, np.ndarray]:
        """Return what `restore` needs beside the files, which are on disk when it returns."""
        live = np.flatnonzero(self._place >= 0)
        if self.records > GARBAGE * live.size:
            self._compact(live)
        if self.records:
            os.fsync(self._open().fileno())
        return {name: np.asarray(getattr(self, name)) for name in ("generation", "records", "version")}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Go back to the states at the time of `saved`.

        Args:
            saved: What `saved` returned.

        Raises:
            UserError: The file is not there, or shorter.
        """
        self._close()
        self.generation, self.records, self.version = (int(saved[name]) for name in ("generation", "records", "version"))
        self._place[:] = -1
        if not self.records:
            return
        size, path = self.records * self._record, self._path()
        if not path.exists() or path.stat().st_size < size:
            raise UserError(f"{path} is missing or cut off, and the checkpoint needs its states: begin the run anew")
        file = self._open()
        file.truncate(size)
        # A client's last record is the one in use.
        ids = np.memmap(path, np.uint8, "r", shape=(self.records, self._record))[:, :8].copy().view(np.int64).ravel()
        self._place[ids] = np.arange(self.records)

    def _compact(self, live) -> None:
        old = np.memmap(self._path(), np.uint8, "r", shape=(self.records, self._record))
        places = self._place[live]
        self._close()
        before, self.generation, self.records = self._path(-1), self.generation + 1, 0
        before.unlink(missing_ok=True)
        for start in range(0, live.size, 2**14):
            part = slice(start, start + 2**14)
            self._append(live[part], old[places[part]])

    def _path(self, later: int = 0) -> Path:
        return self.folder / f"states-{self.generation + later}.bin"

    def _open(self):
        if not self._open_files:
            path = self._path()
            self._open_files.append(path.open("r+b" if path.exists() and self.records else "w+b"))
            path.chmod(0o600)
        return self._open_files[0]

    def _close(self) -> None:
        _leave(self._open_files, None)


def _leave(files: list, folder: Path | None) -> None:
    """Close files, and remove their folder if it is given."""
    while files:
        files.pop().close()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
