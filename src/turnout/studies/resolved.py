"""Settings with what they play, and which of them share a compiled program."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from turnout.accounting.target import is_own
from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.engines.metrics import NAMES
from turnout.engines.sweep import set_leaves
from turnout.experiment.build import options_of
from turnout.experiment.experiment import Experiment
from turnout.runs.hub_layout import with_hubs
from turnout.runs.setup import bind, fit, scope
from turnout.studies.cases import Case, Cases
from turnout.studies.declaration import Declaration
from turnout.studies.grid import CLIENTS, Setting

RATE = "m/n"
"""The share of the clients that a cohort of `sampler.size` has, as a constant to scale with."""

SWEPT = ("algorithm.", "sampler.")
"""Where the keys are that may be leaves of a compiled program."""


@dataclass(frozen=True)
class Resolved:
    """A setting with its number in the study, its configuration and its problem."""

    place: tuple[int, int]
    setting: Setting
    experiment: Experiment
    case: Case

    @property
    def units(self) -> dict[str, float]:
        """The constants that its numbers may be multiples of."""
        return units_of(self.experiment, self.case)


def resolve(declaration: Declaration, place: tuple[int, int], setting: Setting, cases: Cases) -> Resolved:
    """Return a setting with what it plays: metrics are those of the configuration, the goals and the figures."""
    experiment = setting.experiment()
    case = explained(declaration, setting, partial(cases.of, experiment))
    if setting.reader.scale:
        experiment = replace(setting, reader=setting.reader.scaled(units_of(experiment, case))).experiment()
    asked = [goal.metric for goal in declaration.goals.values() if goal.about(setting.problem, setting.values)]
    panels = [panel for figure in declaration.figures for panel in figure.panels if panel.y in NAMES or is_own(panel.y)]
    asked += [panel.y for panel in panels if setting.problem in panel.problems and setting.method in panel.methods]
    given = experiment.run.metrics
    if asked or given is not None:
        experiment = replace(experiment, run=replace(experiment.run, metrics=list(dict.fromkeys([*(given or ()), *asked]))))
    return Resolved(place, setting, experiment, case)


def units_of(experiment: Experiment, case: Case) -> dict[str, float]:
    """Return the constants that numbers of a configuration may be multiples of: those of the problem, and m / n."""
    size = getattr(getattr(experiment.algorithm, "sampler", None), "size", None)
    return case.units if size is None else {**case.units, RATE: size / case.problem.population.count}


def grouped(resolved: list[Resolved], settings: list[Setting], apart: set[str]) -> Iterable[tuple[list[Resolved], list[str]]]:
    """Yield the settings that share a program, and the swept keys that are leaves of it.

    Args:
        resolved: The settings that are played.
        settings: All settings of the method on the problem.
        apart: Swept keys that are no leaves, whatever they are.
    """
    scale = settings[0].reader.scale
    apart = apart | {key for key, unit in scale.items() if unit == CLIENTS}
    if RATE in scale.values():
        apart = apart | {"sampler.size"}
    alternatives: dict[str, list] = {}
    for setting in settings:
        for key, value in setting.values.items():
            alternatives.setdefault(key, []).append(value)
    leaves: dict[tuple, list[str]] = {}
    groups: dict[tuple, list[Resolved]] = {}
    for one in resolved:
        values = one.setting.values
        numeric = {key for key in values if all(map(_is_number, alternatives[key]))}
        maybe = [key for key in values if key.startswith(SWEPT) and key in numeric - apart]
        fixed = tuple((key, repr(value)) for key, value in values.items() if key not in maybe)
        if fixed not in leaves:
            leaves[fixed] = [key for key in maybe if is_leaf(one, key, alternatives[key])]
        others = tuple(repr(values[key]) for key in maybe if key not in leaves[fixed])
        groups.setdefault((fixed, others), []).append(one)
    return ((group, leaves[fixed]) for (fixed, _), group in groups.items())


def is_leaf(one: Resolved, key: str, alternatives: list[Any]) -> bool:
    """Return whether `key` may be set after the algorithm is fitted to the problem as well as before."""
    now, name = leaf_values(one, [key]), key.removeprefix("algorithm.")
    other = next((value for value in alternatives if value != one.setting.values[key]), None)
    if other is None or now is None:
        return False
    if key in one.setting.reader.scale:
        other *= one.units[one.setting.reader.scale[key]]
    try:
        with scope(one.experiment.run.precision):
            problem = with_hubs(one.case.problem, one.experiment.hubs)
            before = bind(set_leaves(one.experiment.algorithm, {name: other}), problem, one.experiment.run.rounds)
            after = set_leaves(bind(one.experiment.algorithm, problem, one.experiment.run.rounds), {name: other})
        return _same(before, after)
    except UserError:
        return False


def leaf_values(one: Resolved, keys: list[str]) -> dict[str, float] | None:
    """Return the numbers at `keys` in the algorithm of a setting; None where one is something else."""
    values: dict[str, float] = {}
    for key in keys:
        scale = one.setting.reader.scale.get(key)
        value = one.setting.values[key]
        values[key.removeprefix("algorithm.")] = value if scale is None else value * one.units[scale]
    return values if all(map(_is_number, values.values())) else None


def fitted(one: Resolved) -> Algorithm:
    """Return the algorithm fitted to its problem; `UserError` where options, algorithm and problem do not go together."""
    options = options_of(one.experiment, one.case.built)
    problem = with_hubs(one.case.problem, one.experiment.hubs)
    return fit(one.experiment.algorithm, problem, options, compiled=options.engine == "compiled").algorithm


def explained(declaration: Declaration, setting: Setting, make: Any) -> Any:
    """Return make(); a mistake is told with the method, the problem and the setting."""
    try:
        return make()
    except UserError as error:
        where = f"{setting.method} on {setting.problem}{f' with {setting.label}' if setting.values else ''}"
        raise declaration.source.error(("methods", setting.method), f"{where}: {error}") from error


def _same(one: Any, other: Any) -> bool:
    """Return whether two records are equal, arrays entry by entry."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
