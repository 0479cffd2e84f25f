"""A process that plays published rows again, and is ended where one is not over in time."""

import math
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from turnout.core.errors import Caution
from turnout.core.interrupts import uninterrupted_children
from turnout.studies.cases import Cases
from turnout.studies.declaration import Declaration
from turnout.studies.published import Part, Published
from turnout.studies.replay import Outcome, hold

Read = Callable[[Path], tuple[Published, Declaration]]
"""Reads the folder of a result, and the study that it is of."""

POLL = 0.1
"""Seconds between two looks at the process."""

EXTRA = 3.0
"""Seconds in which a part ends by itself once its time is over, as it does between two chunks of rounds."""


class ReplayProcess:
    """Plays parts in another process, since what a problem is made of and compilers cannot be interrupted otherwise.

    Args:
        data: The folder with data files.
        read: Reads a result; a function that the other process can import.
        temporary: A folder for what is written meanwhile.
    """

    def __init__(self, data: Path | None, read: Read, temporary: Path):
        self.given = data, read, temporary
        self.process: Any = None
        self.pipe: Any = None

    def hold(self, folder: Path, part: Part, seconds: float, check: Callable[[], None]) -> Outcome:
        """Play a part of the result in `folder`; a process that is not done in time is ended.

        Args:
            folder: The folder of the result.
            part: The part.
            seconds: The time that there is.
            check: Called again and again; may raise to interrupt.
        """
        end = time.monotonic() + seconds
        if self.process is None:
            self.start()
        self.pipe.send((folder, part, end))
        while not self.pipe.poll(POLL):
            check()
            if time.monotonic() > end + EXTRA:
                self.close()
                return Outcome(needed=math.inf)
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            self.close()
            return Outcome(reason=f"the process that plays it died (exit code {code})")

    def start(self) -> None:
        """Start the process."""
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=serve, args=(there, *self.given), daemon=True)
        # It begins itself with a process that would let Ctrl-C through again.
        resource_tracker.ensure_running()
        with uninterrupted_children():
            self.process.start()
        there.close()

    def close(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def serve(pipe: Connection, data: Path | None, read: Read, temporary: Path) -> None:
    """Play the parts that come through `pipe`: what the process does."""
    # What is left of a process that is ended goes with the folder.
    tempfile.tempdir = str(temporary)
    # They were told when the study was played.
    warnings.simplefilter("ignore", Caution)
    cases, known = Cases(data), {}
    while True:
        try:
            folder, part, end = pipe.recv()
        except (EOFError, OSError):
            return
        if folder not in known:
            known[folder] = read(folder)
        # The clock of a system is the same in all of its processes.
        pipe.send(hold(*known[folder], cases, part, end - time.monotonic()))
