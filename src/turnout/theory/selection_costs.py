"""The costs of client selection that theory gives for a problem, at its measured constants and given prices."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import PyTree

from turnout.accounting.prices import Selection
from turnout.core.errors import UserError
from turnout.problems.base import Problem
from turnout.problems.derivatives import Derivatives, vector
from turnout.samplers import Delegate
from turnout.samplers.base import samplers_in
from turnout.samplers.full_pass import cohort_size
from turnout.theory.dissimilarity import measured
from turnout.theory.selection import Case, practical, rg_saga, rg_svrg, svrg
from turnout.theory.selection_complexity import TABLE

GUARANTEES = {"rg-saga": rg_saga, "rg-svrg": rg_svrg, "svrg": svrg}
"""The theorems about I-CGM, by its estimators."""

NAMES = ("delta", "Delta_1", "Delta_max", "L_1", "L_max", "L_f")
"""The paper's names of the fields of a `Dissimilarity`."""


@dataclass(frozen=True)
class Costs:
    """The costs that theory gives.

    Args:
        cases: One `Case` for each price.
        warning: Why the theorems do not hold for the configured lambda; None if they do.
    """

    cases: tuple[Case, ...]
    warning: str | None

    def facts(self) -> dict:
        """Return the entries of a file."""
        case = self.cases[0]
        constants = {**dict(zip(NAMES, case.constants, strict=True)), "delta_m": case.deviation, "zeta": case.heterogeneity}
        target = {"n": case.clients, "m": case.size, "F^0": case.gap, "epsilon": case.epsilon}
        prices = [_facts(case) for case in self.cases]
        return {"constants": constants, "target": target, "warning": self.warning, "prices": prices}


def _facts(case: Case) -> dict:
    table = {row.method: dict(zip(("price", "queries"), row.amounts(case), strict=True)) for row in TABLE}
    guarantees = {name: of(case) for name, of in GUARANTEES.items()}
    facts = {name: {**result._asdict(), "parameters": result.parameters._asdict()} for name, result in guarantees.items()}
    return {"price": case.price.label, "table": table, "guarantees": facts, "practical": practical(case)._asdict()}


def selection_costs(algorithm, problem: Problem, start: PyTree, epsilon: float, prices: Sequence[Selection]) -> Costs:
    """Return the costs to |grad f| <= `epsilon` from the parameters `start`, at each of `prices`.

    Args:
        algorithm: Algorithm that is bound to `problem`; its first sampler has the cohort size m, and its delegate is client 1.
        problem: The problem.
        start: x^0.
        epsilon: Norm of the gradient to reach.
        prices: Prices of selections.

    Raises:
        UserError: If clients differ in weight.
    """
    if np.ptp(problem.population.lambdas) > 1e-9:
        raise UserError("cost-aware client selection is about clients of equal weight: take weights = 'uniform'")
    (sampler, *_) = samplers_in(algorithm)
    size = cohort_size(sampler, problem.population)
    delegate = getattr(algorithm, "delegate", None)
    constants = measured(problem, start, int(delegate.client) if isinstance(delegate, Delegate) else 0)
    gap, zeta = at_start(problem, start)
    cases = tuple(Case(constants, problem.clients, size, gap, epsilon, price, zeta) for price in prices)
    warning = getattr(algorithm, "selection_warning", lambda constants: None)
    return Costs(cases, warning(constants))


def at_start(problem: Problem, start: PyTree) -> tuple[float, float]:
    """Return F^0 = f(x^0) - f* and zeta, zeta^2 = (1/n) sum_i |grad h_i(x^0)|^2, for x^0 = `start`.

    f* is the lowest value that L-BFGS reaches from x^0.

    Args:
        problem: The problem.
        start: x^0.
    """
    # Slow to import, and not needed by all commands.
    from scipy.optimize import minimize

    derivatives = Derivatives(problem)
    x = vector(start)
    lowest = minimize(derivatives.of_f, x, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).fun
    gradients = derivatives.of_clients(x)
    deviations = gradients - gradients.mean(0)
    return derivatives.of_f(x)[0] - float(lowest), float(np.sqrt(np.mean(np.sum(deviations**2, axis=1))))
