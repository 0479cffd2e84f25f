"""Running the command line: in this process where its answer is what counts, or as a user does, in a process of its own."""

import io
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import numpy as np
import tomli_w

from turnout.cli import main

SMALL = {
    "problem": {"kind": "logistic", "data": "breast_cancer", "normalize": "columns", "mu": 0.1},
    "split": {"kind": "kmeans", "clusters": 4, "clients_per_cluster": 3},
    "sampler": {"kind": "nice", "size": 4},
    "algorithm": {"kind": "fedavg", "lr": 0.3},
    "run": {"rounds": 6},
    "target": {"metric": "distance", "below": 0.1},
}


def config(folder: Path, name: str = "made", **tables) -> Path:
    """Write the small configuration with some tables replaced."""
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps({**SMALL, **tables}))
    return path


def start(*arguments, variables=None, **options) -> subprocess.Popen:
    """Start `turnout` with the given arguments, and with some variables of the environment changed."""
    command = [sys.executable, "-m", "turnout", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200", **(variables or {})}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options)


def turnout(*arguments) -> tuple[int, str, str]:
    """Run `turnout` in this process: exit code, output, errors."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["turnout", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


def whole(*arguments, **options) -> tuple[int, str, str]:
    """Run `turnout` in a process of its own, to its end: exit code, output, errors."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def on_a_terminal(*arguments, variables=None, **streams) -> tuple[int, str]:
    """Run `turnout` with some of its `streams` on a terminal (`stdout=True`): exit code, and what the terminal shows."""
    master, slave = pty.openpty()
    given = {name: slave if streams.get(name) else subprocess.DEVNULL for name in ("stdout", "stderr")}
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", **(variables or {})}
    process = subprocess.Popen([sys.executable, "-m", "turnout", *map(str, arguments)], env=environment, **given)
    os.close(slave)
    shown = b""
    # At the end of the process Linux tells of an error.
    with suppress(OSError):
        while piece := os.read(master, 4096):
            shown += piece
    os.close(master)
    return process.wait(timeout=300), shown.decode()


def children(parent: int) -> list[int]:
    """Return the processes that another one has started, in the order of their numbers."""
    found = []
    for file in Path(f"/proc/{parent}/task").glob("*/children"):
        # A thread may end meanwhile.
        with suppress(OSError):
            found += map(int, file.read_text().split())
    return found


def wait_for(condition: Callable):
    """Wait until something is so, at most two minutes, and return it."""
    end = time.monotonic() + 120
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def stored_split(out: Path) -> dict[str, np.ndarray]:
    """Return the arrays of the split that a run in the folder `out` stored."""
    with np.load(out / "split.npz") as arrays:
        return {**arrays}
