"""The plan of a study: which runs there are, and which of them share a compiled program."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import jax
import numpy as np

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.engines.sweep import set_leaves
from turnout.experiment.config import Experiment
from turnout.runs.arguments import check_parts
from turnout.runs.setup import bind, refuse_engine, refuse_mixed, scope, wanted_metrics
from turnout.studies.cases import Case, Cases
from turnout.studies.declaration import Declaration
from turnout.studies.fingerprint import fingerprint
from turnout.studies.goals import Goal
from turnout.studies.grid import Setting, settings_of

SCHEMA = 1
"""The number of the form in which runs are stored."""

TOGETHER = 50
"""The most runs of one program: what is lost if the process is killed, and what one worker takes at a time."""

MEMORY = 2**30
"""Bytes that the states and rows of one program's runs may take, at a rough estimate."""

ROW_BYTES = 1024

SWEPT = ("algorithm.", "sampler.")
"""Where the keys are that may be leaves of a compiled program."""


@dataclass(frozen=True)
class Run:
    """One run of a study.

    Args:
        problem: Name of the problem.
        method: Name of the method.
        setting: The setting in words.
        values: The value of each swept key.
        seed: Seed of all random draws.
        purpose: "tune" where it chooses a setting, "report" where it is reported.
        leaves: The numbers of the algorithm that it sets in its program.
        key: The digest of what determines it.
        place: Its place in the study: the numbers of its problem and method, of its setting and of its seed, tuning first.
    """

    problem: str
    method: str
    setting: str
    values: dict[str, Any]
    seed: int
    purpose: str
    leaves: dict[str, float]
    key: str
    place: tuple[int, int, bool, int]


@dataclass(frozen=True)
class Program:
    """Runs that share a compiled program: a configuration, of which they change numbers and seeds.

    Args:
        experiment: The configuration.
        runs: The runs.
        stops: The goals at which a run ends.
    """

    experiment: Experiment
    runs: tuple[Run, ...]
    stops: tuple[Goal, ...] = ()

    @property
    def rounds(self) -> int:
        """The rounds of all runs."""
        return self.experiment.run.rounds * len(self.runs)


@dataclass(frozen=True)
class Resolved:
    """A setting with its number in the study, its configuration and its problem."""

    place: tuple[int, int]
    setting: Setting
    experiment: Experiment
    case: Case


def plan_of(
    declaration: Declaration,
    cases: Cases,
    purpose: str,
    seeds: tuple[int, ...],
    chosen: Mapping[tuple[str, str], str] | None = None,
) -> list[Program]:
    """Return all programs in the order of the study; `UserError` for a mistake in any of them.

    Args:
        declaration: The study.
        cases: Its problems.
        purpose: "tune" or "report".
        seeds: The seeds of each setting, of methods that have none of their own.
        chosen: The setting of each problem and method; default: all. Tuning leaves out methods with a single setting.
    """
    programs = []
    for pair, (problem, name) in enumerate(declaration.pairs):
        settings = settings_of(declaration, problem, name)
        if purpose == "tune" and len(settings) == 1:
            continue
        wanted = None if chosen is None else chosen.get((problem, name))
        numbered = [(number, setting) for number, setting in enumerate(settings) if wanted in (None, setting.label)]
        resolved = [resolve(declaration, (pair, number), setting, cases) for number, setting in numbered]
        own = declaration.methods[name].seeds or seeds
        for group, leaves in grouped(resolved, settings):
            programs += split_up(program_of(declaration, group, leaves, own, purpose), group[0].case)
    return programs


def resolve(declaration: Declaration, place: tuple[int, int], setting: Setting, cases: Cases) -> Resolved:
    """Return a setting with what it plays: metrics are those of the configuration and of the goals."""
    experiment = setting.experiment()
    case = _explained(declaration, setting, partial(cases.of, experiment))
    if setting.reader.scale:
        experiment = replace(setting, reader=setting.reader.scaled(case.units)).experiment()
    goals = [goal.metric for goal in declaration.goals.values() if goal.about(setting.problem)]
    given = experiment.run.metrics
    if goals or given is not None:
        experiment = replace(experiment, run=replace(experiment.run, metrics=list(dict.fromkeys([*(given or ()), *goals]))))
    return Resolved(place, setting, experiment, case)


def grouped(resolved: list[Resolved], settings: list[Setting]) -> Iterable[tuple[list[Resolved], list[str]]]:
    """Yield the settings that share a program, and the swept keys that are leaves of it."""
    alternatives = {key: [s.values[key] for s in settings] for key in settings[0].values}
    leaves: dict[tuple, list[str]] = {}
    groups: dict[tuple, list[Resolved]] = {}
    for one in resolved:
        values = one.setting.values
        maybe = [key for key in values if key.startswith(SWEPT) and all(_is_number(value) for value in alternatives[key])]
        fixed = tuple((key, repr(value)) for key, value in values.items() if key not in maybe)
        if fixed not in leaves:
            leaves[fixed] = [key for key in maybe if is_leaf(one, key, alternatives[key])]
        others = tuple(repr(values[key]) for key in maybe if key not in leaves[fixed])
        groups.setdefault((fixed, others), []).append(one)
    return ((group, leaves[fixed]) for (fixed, _), group in groups.items())


def is_leaf(one: Resolved, key: str, alternatives: list[Any]) -> bool:
    """Return whether another value of `key` gives the same program: set before or after the algorithm is fitted to the problem."""
    now, name = leaf_values(one, [key]), key.removeprefix("algorithm.")
    other = next((value for value in alternatives if value != one.setting.values[key]), None)
    if other is None or now is None:
        return False
    if key in one.setting.reader.scale:
        other *= one.case.units[one.setting.reader.scale[key]]
    try:
        with scope(one.experiment.run.precision):
            before = bind(set_leaves(one.experiment.algorithm, {name: other}), one.case.problem, one.experiment.run.rounds)
            after = set_leaves(bind(one.experiment.algorithm, one.case.problem, one.experiment.run.rounds), {name: other})
        return _same(before, after)
    except UserError:
        return False


def leaf_values(one: Resolved, keys: list[str]) -> dict[str, float] | None:
    """Return the numbers at `keys` in the algorithm of a setting; None where one is something else."""
    values: dict[str, float] = {}
    for key in keys:
        scale = one.setting.reader.scale.get(key)
        value = one.setting.values[key]
        values[key.removeprefix("algorithm.")] = value if scale is None else value * one.case.units[scale]
    return values if all(map(_is_number, values.values())) else None


def program_of(
    declaration: Declaration, group: list[Resolved], leaves: list[str], seeds: tuple[int, ...], purpose: str
) -> Program:
    """Return the program of a `group` of settings, checked."""
    first = group[0]
    stops = tuple(goal for goal in declaration.goals.values() if goal.stop and goal.about(first.setting.problem))
    base = _base(first, stops)
    algorithm = _explained(declaration, first.setting, partial(fitted, first))
    runs = []
    for one in group:
        values = leaf_values(one, leaves) or {}
        _explained(declaration, one.setting, partial(set_leaves, algorithm, values))
        whole = set_leaves(first.experiment.algorithm, values)
        for number, seed in enumerate(seeds):
            setting, key = one.setting, fingerprint(base, whole, seed)[:32]
            place = (*one.place, purpose == "report", number)
            runs.append(Run(setting.problem, setting.method, setting.label, setting.values, seed, purpose, values, key, place))
    return Program(first.experiment, tuple(runs), stops)


def fitted(one: Resolved) -> Algorithm:
    """Return the algorithm fitted to its problem; `UserError` where options, algorithm and problem do not go together."""
    experiment, built = one.experiment, one.case.built
    run = experiment.run
    check_parts(experiment.algorithm, built.problem, test=built.test, held_out=built.held_out)
    refuse_engine(built.problem, run.aggregation, compiled=run.engine == "compiled")
    refuse_mixed(built.problem, run.precision)
    wanted_metrics(built.problem, experiment.target, run.metrics, built.test, built.held_out)
    with scope(run.precision):
        return bind(experiment.algorithm, built.problem, run.rounds)


def split_up(program: Program, case: Case) -> list[Program]:
    """Return a program as several of nearly equal size, if it has too many runs."""
    run, algorithm = program.experiment.run, program.experiment.algorithm
    start = jax.eval_shape(case.problem.start, jax.random.key(0))
    state = jax.tree.leaves(jax.eval_shape(algorithm.client_state, start))
    state_bytes = 8 * sum(leaf.size for leaf in state) * case.problem.clients + 32 * sum(
        leaf.size for leaf in jax.tree.leaves(start)
    )
    each = state_bytes + ROW_BYTES * (1 + run.rounds // run.every)
    most = max(1, min(TOGETHER, MEMORY // each))
    parts = -(-len(program.runs) // most)
    size = -(-len(program.runs) // parts)
    return [replace(program, runs=program.runs[k : k + size]) for k in range(0, len(program.runs), size)]


def _base(one: Resolved, stops: tuple[Goal, ...]) -> str:
    """Return the digest of what all runs of a program have in common."""
    experiment = one.experiment
    run = {key: value for key, value in vars(experiment.run).items() if key != "seed"}
    target = experiment.target if experiment.target is not None and experiment.target.stop else None
    ends = [(goal.metric, goal.below, goal.share) for goal in stops]
    parts = (experiment.problem, experiment.split, run, experiment.faults, experiment.privacy, target)
    return fingerprint(SCHEMA, version("turnout"), one.case.built.data, *parts, ends)


def _explained(declaration: Declaration, setting: Setting, make: Any) -> Any:
    """Return make(); a mistake is told with the method, the problem and the setting."""
    try:
        return make()
    except UserError as error:
        where = f"{setting.method} on {setting.problem}{f' with {setting.label}' if setting.values else ''}"
        raise declaration.source.error(("methods", setting.method), f"{where}: {error}") from None


def _same(one: Any, other: Any) -> bool:
    """Return whether two records are equal, arrays entry by entry."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
