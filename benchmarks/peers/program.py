"""A program of a peer as a process of its own, which plays runs when told, and what is said of one that fails."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer

import numpy as np

ROOT = Path(__file__).parents[2]
ANSWER_SECONDS = 300.0
"""How long a program may take for one run, the start of the process included."""


class Failed(Exception):
    """A program gave no answer; the message says why in one sentence."""


class Program:
    """A process of `python -m benchmarks.peers.NAME FILE`.

    Args:
        name: The program.
        workload: The file with the workload.
        log: Where its standard error goes.
        python: The Python that runs it.
        limit: How many seconds one answer may take.
    """

    def __init__(self, name: str, workload: Path, log: Path, python: str = sys.executable, limit: float = ANSWER_SECONDS):
        self.name, self.log, self.limit, self.began = name, log, limit, time.perf_counter()
        self.found = log.with_suffix(".npy")
        # Libraries that their workers import this project's modules for look them up by this variable.
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        command = [python, "-m", f"benchmarks.peers.{name}", str(workload), str(self.found)]
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env=environment,
                start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *error) -> None:
        self.kill()
        self.process.communicate()

    def ask(self, **request) -> dict:
        """Return seconds, version and parameters of a run of so many `rounds`, of turnout's with a `seed`.

        Raises:
            Failed: If the process ends or takes too long.
        """
        began = time.perf_counter()
        late = Timer(self.limit, self.kill)
        late.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            late.cancel()
        if line:
            return {**json.loads(line), "x": np.load(self.found)}
        if time.perf_counter() - began >= self.limit:
            raise Failed(f"{self.name} did not answer within {self.limit:g} s")
        raise Failed(f"{self.name} ended: {self.last_words()}")

    def first(self) -> float:
        """Return the seconds from the start of the process to the end of its first round."""
        self.ask(rounds=1)
        return time.perf_counter() - self.began

    def last_words(self) -> str:
        """Return the last line that it wrote."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it said nothing"

    def kill(self) -> None:
        """End the process and those that it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
