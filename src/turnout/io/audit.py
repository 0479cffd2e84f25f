"""A log whose lines cannot be changed, removed or reordered unnoticed: each has the digest of the line before.

A file beside the log, `NAME.end`, has the number of lines and the digest of the last one, so that a log whose end was cut off is
noticed too.
"""

import json
import os
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from turnout.core.errors import UserError
from turnout.io.atomic import exclusive, make_folder, private_opener, write

FIRST = "0" * 64
"""Stands for the digest of the line before the first."""


class End(NamedTuple):
    """The end of a log.

    Args:
        lines: Number of lines.
        bytes: Size of the file.
        digest: Digest of the last line.
    """

    lines: int = 0
    bytes: int = 0
    digest: str = FIRST


class AuditLog:
    """A log of entries in the lines of a `file` in JSON; several processes may write to it in turn.

    Args:
        file: The file.
    """

    def __init__(self, file: Path):
        self.file = file
        make_folder(file.parent)
        with exclusive(file):
            self._end()

    def append(self, **fields) -> None:
        """Write an entry with these fields, its number, the time, and the digests; it is on the disk when this returns."""
        with exclusive(self.file):
            end = self._end()
            entry = {"line": end.lines + 1, "time": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields}
            line = written(entry | {"previous": end.digest})
            # A write that fails half way leaves a line without an end, which the next one replaces.
            with open(self.file, "r+b", opener=private_opener) as file:
                file.seek(end.bytes)
                file.truncate()
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            self._store(End(end.lines + 1, end.bytes + len(line), digest_of(line)))

    def _end(self) -> End:
        """Return the end of the log; `UserError` if it is another one than the last process left."""
        end, size, rest = stored_end(self.file) or End(), 0, b""
        if self.file.exists():
            with open(self.file, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(end.bytes)
                rest = file.read()
        if size >= end.bytes and b"\n" not in rest:
            return end
        # A process that ended between its two files left one line more.
        line, _, further = rest.partition(b"\n")
        line += b"\n"
        problem = "it has another end" if b"\n" in further or size < end.bytes else check(line.decode(errors="replace"), end)
        if problem is not None:
            raise UserError(f"the log {self.file} was changed ({problem}): see turnout audit, and give another file by --log")
        end = End(end.lines + 1, end.bytes + len(line), digest_of(line))
        self._store(end)
        return end

    def _store(self, end: End) -> None:
        write(_end_of(self.file), json.dumps(end._asdict()), private=True)


def written(entry: dict) -> bytes:
    """Return the line of an entry, with its own digest."""
    content = json.dumps(entry)
    return (json.dumps(entry | {"digest": digest_of(content.encode())}) + "\n").encode()


def digest_of(line: bytes) -> str:
    """Return the digest of a line."""
    return sha256(line).hexdigest()


def stored_end(file: Path) -> End | None:
    """Return what is stored of the end of a log; None without such a file."""
    try:
        return End(**json.loads(_end_of(file).read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{_end_of(file)} cannot be read as the end of a log: {error}") from None


def read_entries(file: Path) -> list[dict]:
    """Return the entries of a log; `UserError` with the number of the first line that is not as it was written."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    # A process that ended while it wrote a line left a part of it.
    text, end = text[: text.rfind("\n") + 1], stored_end(file)
    lines = text.splitlines(keepends=True)
    problem = check(text, End()) or _check_end(lines, end, _end_of(file).name)
    if problem is not None:
        raise UserError(f"{file}: {problem}")
    return [json.loads(line) for line in lines]


def _check_end(lines: list[str], end: End | None, name: str) -> str | None:
    if end is None:
        return f"{name} is missing, so that nobody can tell whether lines were cut off"
    if len(lines) < end.lines:
        return f"line {len(lines) + 1} is missing: the end, up to line {end.lines}, was cut off"
    if end.lines and digest_of(lines[end.lines - 1].encode()) != end.digest:
        return f"line {end.lines} was changed: it is not the one that was written last"
    # A process that ended between its two files left one line more.
    return f"line {end.lines + 2} was added" if len(lines) > end.lines + 1 else None


def check(text: str, end: End) -> str | None:
    """Return None if the lines of `text` follow each other, and on `end`; otherwise what is wrong, with the number of the line.

    Args:
        text: The lines.
        end: The end of the lines before.
    """
    previous, number = end.digest, end.lines
    for line in text.splitlines(keepends=True):
        number += 1
        try:
            entry = json.loads(line)
            del entry["digest"]
            if line.encode() != written(entry):
                return f"line {number} was changed"
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return f"line {number} was changed"
        if entry.get("line") != number:
            return f"line {number} is missing, or was moved: the line in its place is number {entry.get('line')}"
        if entry.get("previous") != previous:
            return f"line {number} does not follow line {number - 1}: one of them is not the one that was written"
        previous = digest_of(line.encode())
    return None


def _end_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.end")
