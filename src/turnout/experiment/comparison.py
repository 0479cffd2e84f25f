"""Several runs side by side, in one folder with a folder for each."""

import json
from pathlib import Path

from turnout.core.errors import UserError
from turnout.experiment import run as folders
from turnout.experiment.config import Experiment
from turnout.io.atomic import make_folder, write
from turnout.report.loaded_run import Result

RUNS = "runs.json"
"""Lists the folders of a comparison's runs, in their order."""


def is_comparison(folder: Path) -> bool:
    """Whether `folder` holds a comparison."""
    return (folder / RUNS).exists()


def start(experiments: list[Experiment], folder: Path, data: Path | None, watch: folders.Watch, command: str) -> list[Path]:
    """Play every experiment in a folder of its own inside a new `folder`; return those folders."""
    names = [experiment.name for experiment in experiments]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f'two configurations are named {twice!r}: give one of them another name = "..."')
    # Whatever is wrong with one of them is said before any is played.
    for experiment in experiments:
        folders.session_of(experiment, folders.build(experiment, data))
    folders.new_folder(folder)
    for experiment in experiments:
        write(make_folder(folder / experiment.name) / folders.CONFIG, experiment.to_toml())
    write(folder / RUNS, json.dumps(names))
    return finish(folder, data, watch, command)


def finish(folder: Path, data: Path | None, watch: folders.Watch, command: str) -> list[Path]:
    """Play what is left to play of the comparison in `folder`, write its report and return the runs' folders."""
    runs = [folder / name for name in json.loads((folder / RUNS).read_text())]
    for run in runs:
        try:
            folders.resume(run, data, watch, command)
        except UserError:
            # A run that diverged has left its results all the same; any other mistake stops the comparison.
            if not (run / folders.SUMMARY).exists():
                raise
    summaries = {run.name: json.loads((run / folders.SUMMARY).read_text()) for run in runs}
    facts = {
        "command": command,
        "runs": {
            name: {key: summary[key] for key in ("status", "rounds", "metrics", "target")} for name, summary in summaries.items()
        },
    }
    folders.report([Result.read(run) for run in runs], folder, folder.name)
    write(folder / folders.SUMMARY, json.dumps(facts, indent=2) + "\n")
    return runs
