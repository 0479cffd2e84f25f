"""Playing programs as jobs of submitit: in the queue of a Slurm cluster, or as processes of this machine."""

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl
from submitit import AutoExecutor, Job
from submitit.core.utils import FailedSubmissionError, UncompletedJobError
from submitit.helpers import Checkpointable, as_completed

from turnout.core.errors import UserError
from turnout.core.named_class import found_classes
from turnout.studies.cases import Cases
from turnout.studies.plan import Program
from turnout.studies.play import Played, Report
from turnout.studies.store import write_rows
from turnout.studies.workers import Folders, Keep, played, with_classes

ARRAY = 1000
"""The most jobs of an array: a cluster allows 1001 where its administrator has set nothing else."""

MINUTES = 60
"""The time limit of a job where none is given. A job that meets it is begun again from its last checkpoint, up to three times."""

SECONDS_BETWEEN_POLLS = {"slurm": 5.0, "local": 0.2}


@dataclass(frozen=True)
class Jobs:
    """How the programs of a study become jobs.

    Args:
        executor: Who runs them, "slurm" or "local".
        parameters: Parameters of submitit for them: `timeout_min`, `mem_gb`, `cpus_per_task`, `slurm_partition` and so on.
    """

    executor: Literal["slurm", "local"]
    parameters: dict = field(default_factory=dict)

    def made(self, folder: Path, at_once: int) -> AutoExecutor:
        """Return the executor of submitit; `UserError` where it refuses what it is given.

        Args:
            folder: Where it keeps jobs and their logs.
            at_once: The most jobs that run at a time.
        """
        parallelism = {"slurm_array_parallelism": at_once} if self.executor == "slurm" else {}
        try:
            made = AutoExecutor(folder, cluster=self.executor)
            made.update_parameters(**{"name": "turnout", "timeout_min": MINUTES, **parallelism, **self.parameters})
        except (AssertionError, NameError, RuntimeError, TypeError, ValueError) as error:
            line = (str(error) or type(error).__name__).splitlines()[0]
            raise UserError(f"jobs of {self.executor!r} cannot be submitted: {line}") from None
        return made

    def play(self, programs: list[Program], folders: Folders, at_once: int, report: Report, keep: Keep) -> None:
        """Play programs as jobs; those that are left are cancelled where this is interrupted.

        Args:
            programs: What is played.
            folders: The folder with data files, and the one of runs.
            at_once: The most jobs that run at a time.
            report: Told the rounds of each program that ends.
            keep: Told what each program left.
        """
        data, runs = folders
        executor = self.made(runs.parent / "jobs", at_once)
        job = ProgramJob((data and data.resolve(), runs.resolve()))
        # The queue of a cluster has all of them at once; processes of this machine are not started before there is room.
        room = ARRAY if self.executor == "slurm" else at_once
        waiting: list[Program] = list(programs)
        running: dict[Job, Program] = {}
        try:
            while waiting or running:
                free = room - len(running)
                now, waiting = waiting[:free], waiting[free:]
                if now:
                    running.update(zip(submitted(executor, job, now), now, strict=True))
                done = next(as_completed([*running], poll_frequency=SECONDS_BETWEEN_POLLS[self.executor]))
                program = running.pop(done)
                report(program.rounds)
                keep(program, result(done, program))
        finally:
            for left in running:
                left.cancel(check=False)


class ProgramJob(Checkpointable):
    """Plays a program wherever the job runs; submitit begins it again where the job was preempted or met its time limit.

    Args:
        folders: The folder with data files, and the one of runs and checkpoints.
    """

    def __init__(self, folders: Folders):
        self.folders, self.classes = folders, found_classes()

    def __call__(self, pickled: bytes) -> Played:
        """Play a program, and keep its rows, whether or not the process that submitted the job still lives."""
        # Classes in users' files are there before the program that has them is read.
        with_classes(self.classes)
        data, runs = self.folders
        left = played(pickle.loads(pickled), Cases(data), runs, lambda rounds: None)
        if not left.rows.is_empty():
            write_rows(runs, left.rows)
        return left


def submitted(executor: AutoExecutor, job: ProgramJob, programs: list[Program]) -> list[Job]:
    """Return the jobs of `programs`; `UserError` where the cluster refuses them."""
    try:
        return executor.map_array(job, [pickle.dumps(program) for program in programs])
    except (FailedSubmissionError, OSError, UncompletedJobError) as error:
        raise UserError(f"the cluster refuses the jobs: {str(error).splitlines()[0]}") from None


def result(job: Job, program: Program) -> Played:
    """Return what a job left; where it died, all runs of its program are broken."""
    try:
        return job.result()
    except UncompletedJobError as error:
        why = f"its job {job.job_id} died ({str(error).splitlines()[0]}; see {job.paths.stderr})"
        return Played(pl.DataFrame(), {run.key: why for run in program.runs})
