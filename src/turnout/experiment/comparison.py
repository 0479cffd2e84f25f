"""Comparisons: several runs in subfolders of one folder, with a common report."""

import json
from pathlib import Path

from turnout.core.errors import UserError
from turnout.experiment.build import build, session_of
from turnout.experiment.config import Experiment
from turnout.experiment.results import CONFIG, SUMMARY, report
from turnout.experiment.run import Watch, new_folder, resume
from turnout.io.atomic import make_folder, write
from turnout.report.loaded_run import Result

RUNS = "runs.json"
"""The file that lists the folders of a comparison's runs, in order."""


def is_comparison(folder: Path) -> bool:
    """Whether `folder` holds a comparison."""
    return (folder / RUNS).exists()


def start(experiments: list[Experiment], folder: Path, data: Path | None, watch: Watch, command: str) -> list[Path]:
    """Run every experiment in a subfolder of a new `folder`, and return the subfolders.

    Args:
        experiments: The configurations.
        folder: A new folder.
        data: Folder with data files; None for the default folders.
        watch: Called before the run and after each of its chunks.
        command: The command line, for the summary.
    """
    names = [experiment.name for experiment in experiments]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise UserError(f'two configurations are named {duplicate!r}: give one of them another name = "..."')
    # All mistakes are reported before the first run.
    for experiment in experiments:
        session_of(experiment, build(experiment, data))
    new_folder(folder)
    for experiment in experiments:
        write(make_folder(folder / experiment.name) / CONFIG, experiment.to_toml())
    write(folder / RUNS, json.dumps(names))
    return complete(folder, data, watch, command)


def complete(folder: Path, data: Path | None, watch: Watch, command: str) -> list[Path]:
    """Complete the comparison in `folder`: its unfinished runs and its report; return the subfolders of the runs.

    Args:
        folder: Folder of the comparison.
        data: Folder with data files; None for the default folders.
        watch: Called before the run and after each of its chunks.
        command: The command line, for the summary.
    """
    runs = [folder / name for name in json.loads((folder / RUNS).read_text())]
    for run in runs:
        try:
            resume(run, data, watch, command)
        except UserError:
            # A run that diverged has written its results; any other error stops the comparison.
            if not (run / SUMMARY).exists():
                raise
    summaries = {run.name: json.loads((run / SUMMARY).read_text()) for run in runs}
    facts = {
        "command": command,
        "runs": {
            name: {key: summary[key] for key in ("status", "rounds", "metrics", "target", "sweep") if key in summary}
            for name, summary in summaries.items()
        },
    }
    report([Result.read(run) for run in runs], folder, folder.name)
    write(folder / SUMMARY, json.dumps(facts, indent=2) + "\n")
    return runs
