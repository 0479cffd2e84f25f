"""Pages that are followed literally: files are written as the page shows them, and its commands are executed in their order."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', flags=re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page; one with a `file` is that file."""

    language: str
    file: str
    text: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page in their order."""
    return [Block(*found) for found in FENCE.findall(page.read_text())]


def has_files(page: Path) -> bool:
    """Whether a page shows files, so that it is to be followed."""
    return any(block.file for block in blocks(page))


def follow(page: Path, folder: Path, seconds: float) -> str:
    """Do what a page says in an empty folder, and return what its commands print; `AssertionError` at the first that fails.

    Commands get the interpreter of the tests, no input, and at most `seconds` each. Programs are compiled well, since
    some compute for long.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "XLA_FLAGS": ""}
    printed = []
    for block in blocks(page):
        if block.file:
            place = folder / block.file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block.text)
        elif block.language == "sh":
            command = ["bash", "-euo", "pipefail", "-c", block.text]
            options = {"cwd": folder, "env": environment, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
            done = subprocess.run(command, timeout=seconds, **options)
            assert done.returncode == 0, f"{page.name}: {block.text}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            printed.append(done.stdout)
    return "\n".join(printed)
