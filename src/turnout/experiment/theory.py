"""What theory guarantees for a configuration, before its run and in the summary of its run."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from turnout.accounting.prices import Selection
from turnout.accounting.target import Target
from turnout.core.errors import UserError
from turnout.core.seeds import host_key
from turnout.experiment.experiment import Experiment
from turnout.experiment.registry import kind_of
from turnout.experiment.summary import to_json
from turnout.io.atomic import write
from turnout.problems import Chain
from turnout.problems.at_optimum import AtOptimum, at_optimum
from turnout.problems.base import Problem
from turnout.report.pictures import write_charts
from turnout.runs.session import Session
from turnout.runs.setup import bind, scope
from turnout.samplers import Full, Nice, Sampler
from turnout.samplers.base import samplers_in
from turnout.theory.applicability import Theory, has_theory, theory_of
from turnout.theory.bounds import Bound, complexity, theorem_1, tolerance
from turnout.theory.constants import DesignConstants
from turnout.theory.feddcd_complexity import table_1
from turnout.theory.kvib import RegretBounds, regret_bounds
from turnout.theory.recommend import Advice, Memory, advise, expected_size
from turnout.theory.selection_costs import Costs, selection_costs

POINTS = 301
"""Points of a curve in a figure."""


@dataclass(frozen=True)
class Guarantees:
    """What theory guarantees for a configuration.

    Args:
        name: The name of the configuration.
        theory: Constants and bounds at the configured `gamma`.
        rounds: The last round of the curves.
        gamma: The configured gamma; None for algorithms without one.
        epsilon: The target on "distance"; None without one.
        recommended: The gamma and the rounds with which Theorem 1 reaches `epsilon`; None where it does not apply.
        tolerance: The b of Lemma 13 at the configured gamma; None where Theorem 1 does not apply.
        orders: Table 1 of FedDCD for the target; None unless that is on "gap" and cohorts are uniform, of two clients or more.
    """

    name: str
    theory: Theory
    rounds: int
    gamma: float | None
    epsilon: float | None
    recommended: tuple[float, int] | None
    tolerance: float | None
    orders: dict[str, float] | None

    def curves(self, t: np.ndarray) -> dict[str, np.ndarray]:
        """Return the bounds after `t` rounds by label: at the configured gamma, at that of Theorem 1, and the lower bound."""
        constants, curves = self.theory.constants, {}
        if isinstance(self.theory.bound, Bound):
            label = f"Theorem {self.theory.bound.theorem}" if self.gamma is None else f"gamma = {self.gamma:g}"
            curves[label] = self.theory.bound.at(t)
        if self.recommended is not None:
            gamma = self.recommended[0]
            curves[f"gamma = {gamma:.4g}, by Theorem 1"] = theorem_1(
                t, gamma, constants.mu, constants.sigma2, constants.distance2
            )
        if self.theory.lower is not None:
            curves["lower bound, Theorem 7.1 of FedDCD"] = self.theory.lower.at(t)
        return curves

    def facts(self) -> dict:
        """Return the entries of a file."""
        recommended = self.recommended and dict(zip(("gamma", "rounds"), self.recommended, strict=True))
        aims = {"epsilon": self.epsilon, "recommended": recommended, "tolerance": self.tolerance}
        curves = {"rounds": milestones(self.rounds), **self.curves(milestones(self.rounds))}
        orders = {} if self.orders is None else {"orders": self.orders}
        return {"name": self.name, **self.theory.facts(), "gamma": self.gamma, **aims, **orders, "curves": curves}


def advice_for(experiment: Experiment, problem: Problem, memory: Memory) -> Advice:
    """Return the recommended sampler for the rounds and the cohort size of `experiment`.

    Args:
        experiment: The configuration.
        problem: The problem.
        memory: What the server may store of each client.
    """
    with scope("double"):
        (sampler, *_) = samplers_in(bind(experiment.algorithm, problem, experiment.run.rounds))
        size = expected_size(sampler, problem.population)
    target, at = experiment.target, _at_optimum(problem)
    if at is None or at.hessian is None:
        return advise(problem.population, size, experiment.run.rounds, memory, sampler=sampler)
    steps = steps_to_optimum(at, of_gap := target is None or target.metric != "distance")
    below = target.below if target is not None and target.metric == ("gap" if of_gap else "distance") else None
    with scope("double"):
        options = {"sampler": sampler, "steps": steps, "target": below, "error": "f - f*" if of_gap else "|x - x*|^2"}
        options["algorithm"] = kind_of(experiment.algorithm)
        return advise(problem.population, size, experiment.run.rounds, memory, **options)


def _at_optimum(problem: Problem) -> AtOptimum | None:
    """Return what is known at the minimiser; None where that cannot be found."""
    if not problem.strongly_convex:
        return None
    try:
        return at_optimum(problem)
    except UserError:
        return None


def steps_to_optimum(at: AtOptimum, of_gap: bool) -> np.ndarray:
    """Return H^-1 grad f_i(x*) of every client [n, d], or (2 H)^(-1/2) grad f_i(x*) for the error in f.

    The latter are given in the basis of H's eigenvectors; directions in which f is flat leave no error in f.
    """
    if not of_gap:
        return np.linalg.solve(at.hessian, at.gradients.T).T
    curvatures, directions = np.linalg.eigh(at.hessian)
    flat = curvatures <= np.finfo(float).eps * curvatures.size * curvatures[-1]
    return at.gradients @ directions / np.sqrt(np.where(flat, np.inf, 2 * curvatures))


def guarantees(experiment: Experiment, problem: Problem) -> Guarantees:
    """Return what theory guarantees for `experiment`, without a run.

    Args:
        experiment: The configuration.
        problem: The problem.
    """
    with scope("double"):
        algorithm = bind(experiment.algorithm, problem, experiment.run.rounds)
    theory = theory_of(algorithm, problem, experiment.faults, experiment.run.purpose_seeds().model)
    constants, target = theory.constants, experiment.target
    epsilon = target.below if target is not None and target.metric == "distance" else None
    gamma, recommended, allowed = getattr(algorithm, "gamma", None), None, None
    # Only Theorem 1 has a formula for gamma.
    if isinstance(theory.bound, Bound) and theory.bound.theorem == 1 and epsilon is not None:
        recommended = complexity(epsilon, constants.mu, constants.sigma2, constants.distance2)
        allowed = tolerance(algorithm.accuracy or epsilon, gamma, constants.mu)
    last = max(experiment.run.rounds, 1 if recommended is None else recommended[1])
    orders = orders_of(algorithm.sampler, constants, target)
    return Guarantees(experiment.name, theory, last, gamma, epsilon, recommended, allowed, orders)


def orders_of(sampler: Sampler, constants: DesignConstants, target: Target | None) -> dict[str, float] | None:
    """Return table 1 of FedDCD; None unless the target is on "gap" and cohorts are uniform, of two clients or more.

    Args:
        sampler: Bound sampler.
        constants: Constants of the problem.
        target: Target of the configuration.
    """
    size = constants.clients if isinstance(sampler, Full) else sampler.size if isinstance(sampler, Nice) else 0
    if target is None or target.metric != "gap" or size < 2:
        return None
    rates = float(constants.convexity.min()), float(constants.smoothness.max())
    return table_1(target.below, size, constants.clients, *rates, float(constants.gradient_norms2.max() ** 0.5))


def costs_of(experiment: Experiment, problem: Problem) -> Costs:
    """Return the costs that theory gives for the target of `experiment`, which is on |grad f|^2.

    C_A = C_R = 1 without a price "selection".

    Args:
        experiment: The configuration.
        problem: The problem.

    Raises:
        UserError: If the target is on something else, or clients differ in weight.
    """
    if experiment.target is None or experiment.target.metric != "gradient":
        raise UserError('the costs of client selection need a target on the gradient: set a [target] on "gradient"')
    with scope("double"):
        algorithm = bind(experiment.algorithm, problem, experiment.run.rounds)
        start = problem.start(host_key(experiment.run.purpose_seeds().model))
    prices = [price for price in experiment.prices if isinstance(price, Selection)] or [Selection()]
    return selection_costs(algorithm, problem, start, math.sqrt(experiment.target.below), prices)


def regrets_of(experiment: Experiment, problem: Problem) -> RegretBounds:
    """Return the bounds of K-Vib on the regret of `experiment`.

    Args:
        experiment: The configuration.
        problem: The problem.

    Raises:
        UserError: If its first sampler does not draw independently by the rule `k-vib`, or T K < N.
    """
    with scope("double"):
        (sampler, *_) = samplers_in(bind(experiment.algorithm, problem, experiment.run.rounds))
        start = problem.start(host_key(experiment.run.purpose_seeds().model))
    return regret_bounds(sampler, problem, experiment.run.rounds, start)


def facts_of_theory(guarantees: Guarantees | None, costs: Costs | None, regrets: RegretBounds | None) -> dict:
    """Return what theory says of a configuration, with `costs` and `regrets` under "selection" and "k-vib"; None is left out."""
    return {
        **({} if guarantees is None else guarantees.facts()),
        **({} if costs is None else {"selection": costs.facts()}),
        **({} if regrets is None else {"k-vib": regrets.facts()}),
    }


def write_guarantees(
    guarantees: Guarantees | None, costs: Costs | None, regrets: RegretBounds | None, folder: Path, command: str
) -> None:
    """Write theory.json and the charts of bounds to `folder`.

    Args:
        guarantees: Bounds; None where no theorem applies.
        costs: Costs of client selection; None where there are none.
        regrets: Bounds on the regret of K-Vib; None where there are none.
        folder: Folder of the results.
        command: The command line, for the summary.
    """
    write(folder / "theory.json", to_json({"command": command, **facts_of_theory(guarantees, costs, regrets)}))
    charts = {**({} if guarantees is None else _bound(guarantees)), **({} if regrets is None else _regrets(regrets))}
    write_charts(folder, charts)


def _bound(guarantees: Guarantees) -> dict:
    """Return the chart of the bounds on the distance by its name; none where there is no bound."""
    from turnout.report.bounds import bound_chart
    from turnout.report.format import METRICS

    t = np.unique(np.linspace(0, guarantees.rounds, POINTS).round())
    floor = None if guarantees.theory.floors is None else guarantees.theory.floors[0]
    curves = guarantees.curves(t)
    return {"bound": bound_chart(t, curves, f"mean {METRICS['distance']}", floor, guarantees.epsilon)} if curves else {}


LABELS = {
    "static_regret": "Theorem 5.2, no p reaches 1",
    "static_regret_capped": "Theorem 5.2",
    "hindsight": "Theorem 5.1",
    "uniform": "loss of uniform draws",
}
"""What the figure calls the bounds on the regret."""


def _regrets(regrets: RegretBounds) -> dict:
    """Return the charts of K-Vib's bounds by their names."""
    from turnout.report.bounds import bound_chart

    curves = regrets.curves(POINTS)
    rounds, labelled = curves["rounds"], {label: curves[name] for name, label in LABELS.items()}
    charts = {"regret": bound_chart(rounds, labelled, "regret of K-Vib in the unit of G²")}
    if "gradient" in curves:
        charts["gradient"] = bound_chart(rounds, {"Theorem 4.1": curves["gradient"]}, "least E|∇f|² of so many rounds")
    return charts


def facts_of(experiment: Experiment, problem: Problem, session: Session) -> dict:
    """Return the entry "theory" of a summary; empty where no theorem applies to the algorithm or the metrics.

    Args:
        experiment: The configuration.
        problem: The problem.
        session: The session of the run.
    """
    about = has_theory(experiment.algorithm) and {"distance", "dual_gap"} & {*session.metrics}
    if not about and not (isinstance(problem, Chain) and {"distance", "gap"} & {*session.metrics}):
        return {}
    if experiment.exchange is not None:
        return {"theory": {"no_bound": "the theorems are about messages and replies that are not compressed"}}
    engine: Any = session.engine
    try:
        theory = theory_of(engine.algorithm, problem, experiment.faults, experiment.run.purpose_seeds().model, engine.job.optimum)
        return {"theory": theory.facts()}
    except UserError as error:
        return {"theory": {"no_bound": str(error)}}


def milestones(last: int) -> np.ndarray:
    """Return 0, 1, 2, 5, 10, 20, 50, ... up to `last`, and `last`."""
    steps = [step * 10**k for k in range(len(str(last))) for step in (1, 2, 5)]
    return np.array([0, *(step for step in steps if step < last), *([last] if last else [])])
