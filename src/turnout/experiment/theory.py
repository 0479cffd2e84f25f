"""What theory promises for a configured run: constants, bounds and floors, or why there are none."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from turnout.algorithms import FedProxSppm, Sppm
from turnout.algorithms.dual import DualMethod
from turnout.core.errors import UserError
from turnout.experiment.config import Experiment
from turnout.experiment.feddcd_theory import decay_of, lower_of
from turnout.experiment.selection_theory import Costs
from turnout.experiment.summary import to_json
from turnout.io.atomic import make_folder, write
from turnout.problems import Chain
from turnout.problems.at_optimum import at_optimum
from turnout.problems.base import Problem
from turnout.runs.session import Session
from turnout.runs.setup import bind, scope
from turnout.samplers.base import samplers_in
from turnout.samplers.shuffled import Shuffled
from turnout.theory.bounds import averaged_prox, complexity, contraction, neighbourhood, theorem_1, tolerance
from turnout.theory.cohort_mean_weights import shares
from turnout.theory.constants import DesignConstants, constants_of
from turnout.theory.feddcd import LowerBound
from turnout.theory.recommend import Advice, Memory, advise, expected_size
from turnout.theory.sampling_error import sampling_floor

COHORTS = (1, 2, 3, 5, 10)
"""Numbers of cohorts whose sampling error is reported."""

POINTS = 301
"""Points of a curve in a figure."""


@dataclass(frozen=True)
class Bound:
    """E|x_t - x*|^2 <= rate^t start + neighbourhood, by Theorem 1 or 2 of Cohort Squeeze, or one of FedDCD."""

    theorem: int | str
    rate: float
    neighbourhood: float
    start: float

    def at(self, t):
        """The bound after t rounds, a number or an array."""
        return self.rate ** (1.0 * t) * self.start + self.neighbourhood


@dataclass(frozen=True)
class Theory:
    """The constants; E|x - x*|^2 of cohorts solved exactly, for each of COHORTS; a bound, or why there is none; a lower one."""

    constants: DesignConstants
    floors: list[float] | None
    bound: Bound | str
    lower: LowerBound | None = None

    def facts(self) -> dict:
        """Return all of it for a summary."""
        known = self.constants
        facts: dict[str, Any] = {
            "mu": _range(known.convexity),
            "L": _range(known.smoothness),
            "mu_as": known.mu,
            "sigma2_as": known.sigma2,
            "gradient_norms2": _range(known.gradient_norms2),
            "distance2": known.distance2,
        }
        if self.floors is not None:
            facts["floors"] = {str(m): floor for m, floor in zip(COHORTS, self.floors, strict=True)}
        if self.lower is not None:
            facts["lower"] = vars(self.lower)
        return {**facts, **({"no_bound": self.bound} if isinstance(self.bound, str) else {"bound": vars(self.bound)})}


def theory_of(algorithm, problem: Problem, faults=None, seed: int = 0, optimum=None) -> Theory:
    """Return what is known of the bound `algorithm` on `problem`, `seed` being that of the first parameters."""
    if not problem.strongly_convex:
        raise UserError(f"the theory is about strongly convex problems, and {type(problem).__name__} is not one: take another")
    at = at_optimum(problem, optimum)
    constants = constants_of(problem, algorithm.sampler, at, seed)
    floors = None if isinstance(algorithm, DualMethod) else sampling_floor(problem, algorithm.sampler, COHORTS, at)
    try:
        bound = bound_of(algorithm, problem, constants, faults)
    except UserError as error:
        bound = str(error)
    return Theory(constants, floors, bound, lower_of(algorithm, problem))


def bound_of(algorithm, problem: Problem, constants: DesignConstants, faults=None) -> Bound:
    """Return the bound on the runs of a bound algorithm; a `UserError` says why there is none."""
    if faults is not None and faults.missing == "skip":
        raise UserError("the theorems need every reply, but lost ones are skipped")
    if isinstance(algorithm.sampler, Shuffled):
        raise UserError("the theorems need independent draws, but this sampler shuffles an epoch's cohorts")
    if isinstance(algorithm, FedProxSppm):
        if algorithm.inner != 1:
            raise UserError("Theorem 2 is about one exchange a round: take inner = 1")
        q = shares(algorithm.sampler, problem.population)
        a, b = averaged_prox(algorithm.gamma, constants.convexity, q, constants.gradient_norms2)
        return Bound(2, float(a), float(b / (1 - a)), constants.distance2)
    if isinstance(algorithm, DualMethod):
        found = decay_of(algorithm, problem, constants)
        # Round t hands out the models that its clients have after t - 1 rounds.
        return Bound(found.theorem, found.rate, 0.0, max(found.first / found.rate, constants.distance2))
    if not isinstance(algorithm, Sppm):
        raise UserError(f"no theorem here bounds |x - x*| for {type(algorithm).__name__}")
    for name in ("schedule", "averaging"):
        if getattr(algorithm, name) is not None:
            raise UserError(f"Theorem 1 is about a constant gamma without averaging: leave {name} out")
    if not constants.mu > 0:
        raise UserError("Theorem 1 needs mu_AS > 0, but a cohort of this sampler may be empty or weigh nothing")
    gamma = algorithm.gamma
    left = neighbourhood(gamma, constants.mu, constants.sigma2)
    return Bound(1, contraction(gamma, constants.mu), left, constants.distance2)


@dataclass(frozen=True)
class Promise:
    """What theory promises for a configuration over `rounds` rounds, at its own `gamma` and at the `recommended` one.

    `recommended` are gamma and the rounds to the target `epsilon`; `tolerance` is the b of Lemma 13 at the configured gamma. Each
    is None where it is not known.
    """

    name: str
    theory: Theory
    rounds: int
    gamma: float | None
    epsilon: float | None
    recommended: tuple[float, int] | None
    tolerance: float | None

    def curves(self, t: np.ndarray) -> dict[str, np.ndarray]:
        """Return the bound after `t` rounds, at the configured and at the recommended gamma, and the lower one."""
        known, found = self.theory.constants, {}
        if isinstance(self.theory.bound, Bound):
            label = f"Theorem {self.theory.bound.theorem}" if self.gamma is None else f"gamma = {self.gamma:g}"
            found[label] = self.theory.bound.at(t)
        if self.recommended is not None:
            gamma = self.recommended[0]
            found[f"gamma = {gamma:.4g}, recommended"] = theorem_1(t, gamma, known.mu, known.sigma2, known.distance2)
        if self.theory.lower is not None:
            found["lower bound, Theorem 7.1 of FedDCD"] = self.theory.lower.at(t)
        return found

    def facts(self) -> dict:
        """Return all of it for a file."""
        recommended = self.recommended and dict(zip(("gamma", "rounds"), self.recommended, strict=True))
        aims = {"epsilon": self.epsilon, "recommended": recommended, "tolerance": self.tolerance}
        curves = {"rounds": milestones(self.rounds), **self.curves(milestones(self.rounds))}
        return {"name": self.name, **self.theory.facts(), "gamma": self.gamma, **aims, "curves": curves}


def advice_for(experiment: Experiment, problem: Problem, memory: Memory) -> Advice:
    """Return which sampler suits the rounds and the cohorts of `experiment`."""
    with scope("double"):
        (sampler, *_) = samplers_in(bind(experiment.algorithm, problem, experiment.run.rounds))
        size = expected_size(sampler, problem.population)
        return advise(problem.population, size, experiment.run.rounds, memory)


def promise(experiment: Experiment, problem: Problem) -> Promise:
    """Return what theory promises for `experiment`, none of its rounds played."""
    with scope("double"):
        algorithm = bind(experiment.algorithm, problem, experiment.run.rounds)
    theory = theory_of(algorithm, problem, experiment.faults, experiment.run.purpose_seeds().model)
    known, target = theory.constants, experiment.target
    epsilon = target.below if target is not None and target.metric == "distance" else None
    gamma, recommended, allowed = getattr(algorithm, "gamma", None), None, None
    if isinstance(algorithm, Sppm) and isinstance(theory.bound, Bound) and epsilon is not None:
        recommended = complexity(epsilon, known.mu, known.sigma2, known.distance2)
        allowed = tolerance(algorithm.accuracy or epsilon, gamma, known.mu)
    last = max(experiment.run.rounds, 1 if recommended is None else recommended[1])
    return Promise(experiment.name, theory, last, gamma, epsilon, recommended, allowed)


def write_promise(found: Promise | None, costs: Costs | None, folder: Path, command: str) -> None:
    """Write theory.json, with `costs` under "selection", and, where there is a bound, its figure to `folder`."""
    # Drawing is slow to import.
    from turnout.report.bounds import bound_chart
    from turnout.report.page import drawings

    facts = {
        "command": command,
        **({} if found is None else found.facts()),
        **({} if costs is None else {"selection": costs.facts()}),
    }
    write(folder / "theory.json", to_json(facts))
    if found is None:
        return
    t = np.unique(np.linspace(0, found.rounds, POINTS).round())
    if found.curves(t):
        floor = None if found.theory.floors is None else found.theory.floors[0]
        chart = bound_chart(t, found.curves(t), floor, found.epsilon)
        for kind, drawing in drawings(chart.to_dict()).items():
            write(make_folder(folder / "figures") / f"bound.{kind}", drawing)


def facts_of(experiment: Experiment, problem: Problem, session: Session) -> dict:
    """Return what the summary of a run keeps as "theory": nothing where no theorem is about its algorithm or its metrics."""
    about = isinstance(experiment.algorithm, (Sppm, FedProxSppm, DualMethod)) and "distance" in session.metrics
    if not about and not (isinstance(problem, Chain) and {"distance", "gap"} & {*session.metrics}):
        return {}
    engine: Any = session.engine
    try:
        found = theory_of(engine.algorithm, problem, experiment.faults, experiment.run.purpose_seeds().model, engine.job.optimum)
        return {"theory": found.facts()}
    except UserError as error:
        return {"theory": {"no_bound": str(error)}}


def milestones(last: int) -> np.ndarray:
    """Return 0, 1, 2, 5, 10, 20, 50, ... up to `last`, and `last`."""
    steps = [step * 10**k for k in range(len(str(last))) for step in (1, 2, 5)]
    return np.array([0, *(step for step in steps if step < last), *([last] if last else [])])


def _range(values: np.ndarray) -> list[float]:
    return [float(values.min()), float(values.max())]
