"""Plain configurations as a study: each is a method on a problem."""

import json
from pathlib import Path
from typing import Any

from turnout.core.errors import UserError
from turnout.experiment.config import KNOWN, Reader
from turnout.experiment.experiment import Experiment
from turnout.experiment.toml_file import read_toml
from turnout.studies.sources import File, Place, Source, read_source

SHARED = ("problem", "split", "exchange", "faults", "devices", "hubs", "privacy")
"""The tables that say which problem it is."""


def read_sources(paths: list[Path]) -> Source:
    """Read one study, or several configurations as one."""
    if len(paths) == 1 and (paths[0].is_dir() or _is_study(read_toml(paths[0])[1])):
        return read_source(paths[0])
    return as_study([read_configuration(path) for path in paths])


def read_configuration(path: Path) -> tuple[Path, str, dict]:
    """Return the path, the text and the tables of a plain configuration."""
    if (path / "config.toml").exists():
        raise UserError(f"{path} is the folder of a run: give its configuration, {path / 'config.toml'}")
    text, tables = ("", {"problems": {}}) if path.is_dir() else read_toml(path)
    if _is_study(tables):
        raise UserError(
            f"{path} is a whole study: give it alone to turnout study, or give configurations with [problem] and [algorithm]"
        )
    return path, text, tables


def as_study(plain: list[tuple[Path, str, dict]]) -> Source:
    """Return configurations as a study; those with the same problem, split, faults, devices and privacy share it."""
    study: dict[str, Any] = {"problems": {}, "methods": {}, "goals": {}, "prices": {}}
    files = []
    for path, text, tables in plain:
        experiment = Reader(str(path), text, tables).experiment(path.stem)
        name = experiment.name
        if name in study["methods"]:
            raise UserError(f'two configurations are named {name!r}: give one of them another name = "..."')
        problem = _problem(study["problems"], {key: tables[key] for key in SHARED if key in tables}, experiment)
        study["methods"][name] = _method(tables, problem, experiment)
        mounts: list[tuple[Place, Place]] = [
            (("methods", name, "grid"), ("sweep",)),
            (("methods", name), ()),
            (("problems", problem), ()),
        ]
        if experiment.target is not None:
            _goal(study["goals"], experiment.target, problem)
        for k, price in enumerate(experiment.prices):
            study["prices"].setdefault(price.label, tables["price"][k] if "price" in tables else {"kind": "exchanges"})
            mounts.append((("prices", price.label), ("price", k)))
        files.append(File(str(path), text, tables, tuple(mounts), path.parent))
    if not study["goals"]:
        study["goals"]["last value"] = {"metric": _first_metric(plain[0][2]), "hold": "last"}
    return Source(study, tuple(files), ", ".join(str(path) for path, *_ in plain))


def _first_metric(tables: dict) -> str:
    """Return the first metric that a configuration records."""
    return (tables.get("run", {}).get("metrics") or ["value"])[0]


def _is_study(tables: dict) -> bool:
    """Return whether tables are those of a study."""
    return bool({"methods", "problems"} & tables.keys())


def _problem(problems: dict, tables: dict, experiment: Experiment) -> str:
    """Add a problem unless it is there, and return its name: that of its data or its kind."""
    for name, known in problems.items():
        if json.dumps(known, sort_keys=True, default=str) == json.dumps(tables, sort_keys=True, default=str):
            return name
    data = getattr(experiment.problem, "data", None)
    stem = Path(data).name if isinstance(data, str) else tables["problem"]["kind"].rpartition(":")[2]
    name = next(name for name in [stem, *(f"{stem}-{k}" for k in range(2, 10**6))] if name not in problems)
    problems[name] = tables
    return name


def _method(tables: dict, problem: str, experiment: Experiment) -> dict:
    """Return the method of a configuration; names in its grid without a table are those of the algorithm."""
    method = {key: tables[key] for key in ("algorithm", "sampler", "groups") if key in tables}
    if experiment.target is not None and experiment.target.stop:
        method["target"] = tables["target"]
    method["run"] = {key: value for key, value in tables.get("run", {}).items() if key != "seed"}
    grid = dict(experiment.sweep)
    seeds = grid.pop("run.seed", None) or grid.pop("seed", None) or [experiment.run.seed]
    method["grid"] = {key if key.split(".")[0] in KNOWN else f"algorithm.{key}": values for key, values in grid.items()}
    return {**method, "problems": [problem], "seeds": seeds}


def _goal(goals: dict, target, problem: str) -> None:
    """Add the goal of a configuration's target."""
    goal = goals.setdefault(
        f"{target.metric} < {target.below:g}", {"metric": target.metric, "below": target.below, "problems": []}
    )
    if problem not in goal["problems"]:
        goal["problems"].append(problem)
