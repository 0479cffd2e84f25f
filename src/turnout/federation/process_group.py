"""Processes that are started together, restarted when they end, and end with this one."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnout.core.interrupts import uninterrupted_children
from turnout.io.atomic import private_opener

RESTART_PAUSE = 5.0
"""Seconds between two starts of a process that ends: the SuperLink refuses a killed node until it has noticed."""

SUPERVISION_PAUSE = 0.2
"""Seconds between two checks for processes that have ended."""


class ProcessGroup:
    """Processes by name, with their logs in `folder`.

    Args:
        folder: Folder of the logs.
        computing: Number of processes that compute, which share the cores; their names begin with "node".
    """

    def __init__(self, folder: Path, computing: int = 1):
        self.folder, self.processes = folder, computing
        self.children: dict[str, subprocess.Popen] = {}
        self._commands: dict[str, list[str]] = {}
        self._earliest_restart: dict[str, float] = {}

    def restart_ended(self) -> dict[str, int]:
        """Restart the processes that have ended, each at most once in `RESTART_PAUSE` seconds; return exit codes by name."""
        now, codes = time.monotonic(), {}
        for name, child in self.children.items():
            if child.poll() is not None and now >= self._earliest_restart.get(name, 0.0):
                self._earliest_restart[name], codes[name] = now + RESTART_PAUSE, child.returncode
                self._launch(name)
        return codes

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """Restart processes that end, in a thread, since a server blocks while it waits for the SuperLink."""
        stopped = threading.Event()

        def supervise() -> None:
            while not stopped.wait(SUPERVISION_PAUSE):
                self.restart_ended()

        thread = threading.Thread(target=supervise, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def stop(self, names: list[str] | None = None) -> None:
        """Stop the processes with these names, or all."""
        children = [self.children.pop(name) for name in names or list(self.children)]
        for child in children:
            child.terminate()
        for child in children:
            if not ends_within(child, 10):
                child.kill()
                child.wait()
            child.stdin.close()

    def run(self, name: str, *command) -> str:
        """Start a module with its arguments as the process `name`, which ends with this process, and return the name."""
        self._commands[name] = [sys.executable, "-m", "turnout.federation.child_process", *map(str, command)]
        self._launch(name)
        return name

    def _launch(self, name: str) -> None:
        with open(self.folder / f"{name}.log", "ab", opener=private_opener) as log:
            options = {
                "stdin": subprocess.PIPE,
                "stdout": log,
                "stderr": subprocess.STDOUT,
                "env": environment(self.folder / "home" / name) | (share(self.processes) if name.startswith("node") else {}),
            }
            # The server ends its round with them before it ends them.
            with uninterrupted_children():
                new = subprocess.Popen(self._commands[name], **options)
        old, self.children[name] = self.children.get(name), new
        if old is not None:
            old.stdin.close()


def share(processes: int) -> dict[str, str]:
    """Return the environment in which a process computes with its share of the cores, if there are so many processes.

    A variable that is set already stays as it is.

    Args:
        processes: Number of processes.
    """
    threads = str(max(1, cores() // processes))
    # OpenMP and its libraries, and XLA.
    return {name: os.environ.get(name, threads) for name in ("OMP_NUM_THREADS", "NPROC")}


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a Flower process, without telemetry, update checks and installations."""
    return os.environ | {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(home),
    }


def ends_within(child: subprocess.Popen, seconds: float) -> bool:
    """Return whether a process ends within `seconds`.

    Args:
        child: The process.
        seconds: How long to wait.
    """
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
