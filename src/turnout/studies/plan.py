"""The plan of a study: which runs there are, and which of them share a compiled program."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import jax

from turnout.engines.sweep import set_leaves
from turnout.experiment.experiment import Experiment
from turnout.experiment.groups_spec import GroupsSpec
from turnout.runs.own_metrics import own_metrics
from turnout.runs.setup import EXCHANGE_BYTES
from turnout.studies.cases import Case, Cases
from turnout.studies.declaration import Declaration
from turnout.studies.fingerprint import code_of, fingerprint
from turnout.studies.goals import Goal
from turnout.studies.grid import Setting, settings_of
from turnout.studies.resolved import Resolved, explained, fitted, grouped, leaf_values, resolve

SCHEMA = 1
"""The number of the form in which runs are stored."""

TOGETHER = 50
"""The most runs of one program: what is lost if the process is killed, and what one worker takes at a time."""

MEMORY = 2**30
"""Bytes that the states and rows of one program's runs may take, at a rough estimate."""

ROW_BYTES = 1024

Numbered = list[tuple[int, Setting]]
"""Settings with their numbers."""


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
        stem: The digest of all of this but the number of rounds.
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
    stem: str
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

    @property
    def key(self) -> str:
        """The digest of what determines all runs."""
        return sha256("".join(run.key for run in self.runs).encode()).hexdigest()[:32]

    @property
    def stem(self) -> str:
        """The digest of what determines all runs but the number of rounds."""
        return sha256("".join(run.stem for run in self.runs).encode()).hexdigest()[:32]

    @property
    def compiled(self) -> bool:
        """Whether the runs can be the cells of one sweep, which has one seed a cell and the compiled engine."""
        run = self.experiment.run
        purposes = (run.sampling_seed, run.local_seed, run.model_seed, run.faults_seed)
        return run.engine == "compiled" and self.experiment.privacy is None and all(seed is None for seed in purposes)


def plan_of(
    declaration: Declaration,
    cases: Cases,
    purpose: str,
    chosen: Mapping[tuple[str, str], set[str]] | None = None,
) -> list[Program]:
    """Return all programs in the order of the study; `UserError` for a mistake in any of them.

    Args:
        declaration: The study.
        cases: Its problems.
        purpose: "tune" or "report".
        chosen: The settings of each problem and method; default: all. Tuning leaves out methods with a single setting.
    """
    programs, apart = [], {key for goal in declaration.goals.values() for key in goal.where or {}}
    for pair, (problem, name) in enumerate(declaration.pairs):
        settings = settings_of(declaration, problem, name)
        if purpose == "tune" and len(settings) == 1:
            continue
        wanted = (chosen or {}).get((problem, name))
        numbered = [(number, setting) for number, setting in enumerate(settings) if wanted is None or setting.label in wanted]
        for seeds, split, before in _by_split(declaration, problem, numbered, declaration.seeds_of(problem, name, purpose)):
            resolved = [resolve(declaration, (pair, number), setting, cases) for number, setting in split]
            for group, leaves in grouped(resolved, settings, apart):
                programs += split_up(program_of(declaration, group, leaves, seeds, purpose, before), group[0].case)
    return programs


def _by_split(
    declaration: Declaration, problem: str, numbered: Numbered, seeds: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], Numbered, int]]:
    """Yield seeds that share a split, the settings with this split, and how many seeds came before."""
    if problem not in declaration.split_by_seed:
        yield seeds, numbered, 0
        return
    for before, seed in enumerate(seeds):
        yield (seed,), [(number, setting.with_split_seed(seed)) for number, setting in numbered], before


def program_of(
    declaration: Declaration, group: list[Resolved], leaves: list[str], seeds: tuple[int, ...], purpose: str, before: int = 0
) -> Program:
    """Return the program of a `group` of settings, checked; so many seeds came `before` its own."""
    first = group[0]
    stops = tuple(
        goal for goal in declaration.goals.values() if goal.stop and goal.about(first.setting.problem, first.setting.values)
    )
    base, endless = _base(first, stops), _base(first, stops, "rounds")
    algorithm = explained(declaration, first.setting, partial(fitted, first))
    runs = []
    for one in group:
        values = leaf_values(one, leaves) or {}
        explained(declaration, one.setting, partial(set_leaves, algorithm, values))
        whole = set_leaves(first.experiment.algorithm, values)
        for number, seed in enumerate(seeds, before):
            setting, (key, stem) = one.setting, (fingerprint(part, whole, seed)[:32] for part in (base, endless))
            place, own = (
                (*one.place, purpose == "report", number),
                (setting.problem, setting.method, setting.label, setting.values),
            )
            runs.append(Run(*own, seed, purpose, values, key, stem, place))
    return Program(first.experiment, tuple(runs), stops)


def split_up(program: Program, case: Case) -> list[Program]:
    """Return a program as several of nearly equal size, if it has too many runs: more than one where no sweep can have them."""
    run, algorithm = program.experiment.run, program.experiment.algorithm
    start = jax.eval_shape(case.problem.start, jax.random.key(0))
    state = jax.eval_shape(algorithm.client_state, start)
    parameters, memory = (sum(leaf.size for leaf in jax.tree.leaves(part)) for part in (start, state))
    each = 32 * parameters + 8 * memory * case.problem.clients + ROW_BYTES * (1 + run.rounds // run.every)
    most = max(1, min(TOGETHER, MEMORY // each)) if program.compiled else 1
    parts = -(-len(program.runs) // most)
    size = -(-len(program.runs) // parts)
    return [replace(program, runs=program.runs[k : k + size]) for k in range(0, len(program.runs), size)]


def _base(one: Resolved, stops: tuple[Goal, ...], *without: str) -> str:
    """Return the digest of what all runs of a program have in common, `without` some options."""
    experiment = one.experiment
    run = {key: value for key, value in vars(experiment.run).items() if key not in ("seed", "timing", *without)}
    run["memory"] = EXCHANGE_BYTES if run["memory"] == "auto" else run["memory"]
    target = experiment.target if experiment.target is not None and experiment.target.stop else None
    ends = [(goal.metric, goal.below, goal.share) for goal in stops]
    parts = (experiment.problem, experiment.split, run, experiment.faults, experiment.privacy, target)
    # What a run without codecs, devices and groups is known by stays what it was.
    further = [part for part in (experiment.exchange, experiment.devices, experiment.hubs) if part is not None]
    further += [experiment.groups] if experiment.groups != GroupsSpec() else []
    wanted = None if experiment.target is None else experiment.target.metric
    further += [code_of(metric.function) for metric in own_metrics(experiment.run.metrics, wanted)]
    return fingerprint(SCHEMA, version("turnout"), one.case.built.data, *parts, ends, *further)


def name_of(run: Run) -> str:
    """Name a run."""
    return f"{run.method} on {run.problem}{f' with {run.setting}' if run.setting else ''}, seed {run.seed}"


def seed_words(seeds: tuple[int, ...]) -> str:
    """Name seeds."""
    if len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"
