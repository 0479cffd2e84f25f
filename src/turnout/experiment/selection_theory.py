"""What cost-aware client selection promises for a configured problem, at its measured constants and its own costs."""

import math
from dataclasses import dataclass

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from turnout.accounting.prices import Selection
from turnout.algorithms.icgm import Icgm
from turnout.algorithms.passes import cohort_size
from turnout.core.errors import UserError
from turnout.experiment.config import Experiment
from turnout.problems.base import Problem
from turnout.problems.storage.layout import objective, store
from turnout.runs.session import bind, scope
from turnout.samplers import Delegate
from turnout.samplers.base import samplers_in
from turnout.theory.cohort_mean_weights import client_weights
from turnout.theory.dissimilarity import gradients_at, measured
from turnout.theory.selection import Case, doubt, practical, rg_saga, rg_svrg
from turnout.theory.selection_complexity import TABLE

PROMISES = {"rg-saga": rg_saga, "rg-svrg": rg_svrg}
"""The estimators of I-CGM whose parameters the theory chooses."""

NAMES = ("delta", "Delta_1", "Delta_max", "L_1", "L_max", "L_f")
"""What the paper calls the fields of a `Dissimilarity`."""


@dataclass(frozen=True)
class Costs:
    """A `Case` for each price of the kind "selection"; `warning` says where the configured lambda is outside the theory."""

    cases: tuple[Case, ...]
    warning: str | None

    def facts(self) -> dict:
        """Return all of it for a file."""
        case = self.cases[0]
        constants = {**dict(zip(NAMES, case.known, strict=True)), "delta_m": case.deviation, "zeta": case.heterogeneity}
        wish = {"n": case.clients, "m": case.size, "F^0": case.gap, "epsilon": case.epsilon}
        prices = [_facts(case) for case in self.cases]
        return {"constants": constants, "wish": wish, "warning": self.warning, "prices": prices}


def _facts(case: Case) -> dict:
    table = {row.method: dict(zip(("price", "queries"), row.amounts(case), strict=True)) for row in TABLE}
    promises = {name: promise(case) for name, promise in PROMISES.items()}
    facts = {name: {**found._asdict(), "parameters": found.parameters._asdict()} for name, found in promises.items()}
    return {"price": case.price.label, "table": table, "promises": facts, "practical": practical(case)._asdict()}


def costs_of(experiment: Experiment, problem: Problem) -> Costs:
    """Return what is promised of `experiment`, whose target is on |grad f|^2; C_A = C_R = 1 without a price "selection"."""
    if experiment.target is None or experiment.target.metric != "gradient":
        raise UserError('the costs of client selection are those to a small gradient: set a [target] on "gradient"')
    if np.ptp(client_weights(problem.population)) > 1e-9:
        raise UserError("cost-aware client selection is about clients of equal weight: take weights = 'uniform'")
    with scope("double"):
        algorithm = bind(experiment.algorithm, problem, experiment.run.rounds)
        (sampler, *_) = samplers_in(algorithm)
        size = cohort_size(sampler, problem.population)
        start = problem.start(jax.random.key(experiment.run.seeds().model))
    delegate = getattr(algorithm, "delegate", None)
    known = measured(problem, start, int(delegate.client) if isinstance(delegate, Delegate) else 0)
    gap, zeta = at_start(problem, start)
    epsilon = math.sqrt(experiment.target.below)
    prices = [price for price in experiment.prices if isinstance(price, Selection)] or [Selection()]
    cases = tuple(Case(known, problem.clients, size, gap, epsilon, price, zeta) for price in prices)
    lam = algorithm.lam if isinstance(algorithm, Icgm) else None
    return Costs(cases, None if lam is None else doubt(float(lam), float(known.delta_one)))


def at_start(problem: Problem, start: PyTree) -> tuple[float, float]:
    """Return F^0 = f(x^0) - f* and zeta, zeta^2 = (1/n) sum_i |grad h_i(x^0)|^2, for x^0 = `start`.

    f* is the lowest value that L-BFGS finds from x^0.
    """
    # Slow to import, and not needed by all commands.
    from scipy.optimize import minimize

    with jax.enable_x64(True):
        storage = store(problem)
        (known,) = gradients_at(problem, [start])
        unravel = ravel_pytree(start)[1]

        @jax.jit
        def value_and_grad(storage, x):
            value, gradient = objective(storage, "value_and_grad", unravel(x))
            return value, ravel_pytree(gradient)[0]

        def oracle(x):
            value, gradient = value_and_grad(storage, x)
            return float(value), np.asarray(gradient)

        lowest = minimize(oracle, known.x, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).fun
        apart = known.gradients - known.gradients.mean(0)
        return oracle(known.x)[0] - float(lowest), float(np.sqrt(np.mean(np.sum(apart**2, axis=1))))
