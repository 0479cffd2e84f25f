"""Playing programs: one after another in this process, or side by side in several."""

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import polars as pl

from turnout.core.backend import on_cpu
from turnout.core.errors import CannotWriteError, Caution, UserError, caution
from turnout.core.interrupts import uninterrupted_children
from turnout.core.named_class import found_classes, named_class
from turnout.core.timing import begin
from turnout.studies.cases import Cases
from turnout.studies.plan import Program
from turnout.studies.play import Played, Report, play, sentence

Keep = Callable[[Program, Played], None]
"""Called with each program and what it left."""

Enough = Callable[[], bool]
"""Whether no further program is to start."""

Folders = tuple[Path | None, Path]
"""The folder with data files, and the one of checkpoints."""


def play_all(
    programs: list[Program], cases: Cases, folder: Path, workers: int, report: Report, keep: Keep, enough: Enough
) -> None:
    """Play programs until it is enough, in `workers` processes if these are more than one; `folder` has the checkpoints."""
    if workers == 1 or len(programs) < 2:
        for program in programs:
            if enough():
                return
            keep(program, played(program, cases, folder, report))
        return
    if not on_cpu():
        raise UserError("workers share the cores of a CPU, but this machine has an accelerator: leave workers at 1")
    side_by_side(programs, (cases.data, folder), min(workers, len(programs)), report, keep, enough)


def side_by_side(programs: list[Program], folders: Folders, workers: int, report: Report, keep: Keep, enough: Enough) -> None:
    """Play programs in worker processes until it is enough; one that dies leaves its runs broken, and another takes its place."""
    if enough():
        return
    waiting = list(reversed(programs))
    team = [Worker.start(folders, number, workers) for number in range(workers)]
    try:
        for worker in team:
            worker.give(waiting.pop())
        while busy := {worker.pipe: worker for worker in team if worker.program is not None}:
            for pipe in wait(list(busy)):
                worker = busy[pipe]
                answer = worker.answer()
                if isinstance(answer, int):
                    report(answer)
                    continue
                if isinstance(answer, Caution):
                    caution(str(answer))
                    continue
                if isinstance(answer, CannotWriteError):
                    raise answer
                keep(worker.program, answer)
                worker.program = None
                if waiting and not enough():
                    if worker.died:
                        team.remove(worker)
                        worker = Worker.start(folders, worker.number, workers)
                        team.append(worker)
                    worker.give(waiting.pop())
    finally:
        for worker in team:
            worker.process.terminate()
            worker.process.join()
            worker.pipe.close()


@dataclass
class Worker:
    """A worker process, the pipe to it, and the program that it plays."""

    number: int
    process: Any
    pipe: Connection
    program: Program | None = None
    died: bool = False

    @classmethod
    def start(cls, folders: Folders, number: int, workers: int) -> "Worker":
        """Start a process on its share of the cores."""
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=serve, args=(there, folders, found_classes()), daemon=True)
        # It begins itself with a process that would let Ctrl-C through again.
        resource_tracker.ensure_running()
        with share_of_cores(number, workers), uninterrupted_children():
            process.start()
        there.close()
        return cls(number, process, here)

    def give(self, program: Program) -> None:
        """Have the process play `program`."""
        self.program = program
        # Of a process that has died already, `answer` tells.
        with suppress(OSError):
            self.pipe.send(program)

    def answer(self) -> int | Caution | CannotWriteError | Played:
        """Return the rounds played since the last answer, what a user should know or mend, or what the program left."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            self.died = True
            code = self.process.exitcode
            return Played(pl.DataFrame(), {run.key: f"its process died (exit code {code})" for run in self.program.runs})


def serve(pipe: Connection, folders: Folders, classes: list[str]) -> None:
    """Play the programs that come through `pipe`: what a worker process does."""
    with_classes(classes)
    data, checkpoints = folders
    cases, usual = Cases(data), warnings.showwarning

    def tell(message, category, *rest) -> None:
        if issubclass(category, Caution):
            pipe.send(message)
        else:
            usual(message, category, *rest)

    warnings.showwarning = tell
    with suppress(EOFError, BrokenPipeError):
        while True:
            program = pipe.recv()
            watch = begin(time.perf_counter())
            try:
                answer = played(program, cases, checkpoints, pipe.send)
            except CannotWriteError as error:
                pipe.send(error)
                continue
            pipe.send(replace(answer, seconds=watch.taken()))


def with_classes(names: list[str]) -> None:
    """Have the classes in users' files that another process found, by their names in configurations."""
    for name in names:
        named_class(name, Path())


def played(program: Program, cases: Cases, folder: Path, report: Report) -> Played:
    """Return what `program` leaves; `folder` has the checkpoints, and `report` is told the rounds."""
    try:
        case = cases.of(program.experiment)
    except UserError as error:
        return Played(pl.DataFrame(), {run.key: sentence(error) for run in program.runs})
    return play(program, case, report, folder)


@contextmanager
def share_of_cores(number: int, workers: int) -> Iterator[None]:
    """Let processes that start inside have every `workers`-th core, from `number` on."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[number % len(cores) :: workers])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
