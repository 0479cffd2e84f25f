"""A method without a plan."""

import math
from dataclasses import replace

from turnout.accounting.prices import Price, price_of
from turnout.algorithms.fedavg import FedAvg
from turnout.algorithms.feddyn import FedDyn
from turnout.algorithms.scaffold import Scaffold
from turnout.algorithms.sppm import Sppm
from turnout.client_solvers.newton import NewtonCg
from turnout.core.algorithm import Algorithm
from turnout.core.field_checks import checked
from turnout.core.seeds import Seeds, host_key
from turnout.experiment.describe import plan_for
from turnout.planner.candidates import ALL, FREE, cost_of_ten
from turnout.problems.base import Problem
from turnout.problems.curvature import smoothness
from turnout.problems.derivatives import vector
from turnout.problems.grouped import Grouped
from turnout.problems.means import Means
from turnout.problems.quadratic import Quadratic
from turnout.problems.ridge import Ridge
from turnout.samplers.nice import Nice
from turnout.samplers.shuffled import ShuffledNice
from turnout.solvers.newton import Newton
from turnout.solvers.sketched_newton import SketchedNewton

QUADRATIC = (Means, Quadratic, Ridge)
"""Problems whose Hessian is the same everywhere, so that one exchange of Hessians leads to the minimiser."""

EXACT = 1e9
"""The step size of SPPM at which the proximal term does not count."""

LARGEST = 2**30
"""Bytes of the matrices that a method may hold at once."""

DEARER = 1.5
"""How many times as much an exchange with Hessians may cost as one with gradients: it saves about a third of the exchanges."""


def auto(problem: Problem, price: Price | None = None) -> Algorithm:
    """Return a method for a problem at a price, with all its numbers, without playing anything.

    * f quadratic or strongly convex: Newton's method with all clients; sketched Newton where an exchange with Hessians costs more
      than 1.5 times as much.
    * Else, L_i known: SCAFFOLD. With L = max_i L_i its step size and number of steps are 1 / L and 32 where clients cost next to
      nothing, 1 / L and 8 where they are all that costs, and 2 / L and 8 between.
    * L_i not known, as of networks: FedDyn with gamma = 100 / L, whose clients find their steps by a line search; L is the
      largest curvature of f at the start.
    * No curvature there, groups of leaves, or clients on other machines: FedAvg, 16 steps, lr = "auto".

    Cohorts of the last three are all clients where these cost next to nothing, a twentieth where they are all that costs, and a
    fifth between. Where matrices do not fit, SCAFFOLD takes the place of Newton's method. `turnout.plan` finds what is cheapest
    for one target, which is worth its time where a run is repeated.

    Args:
        problem: The problem.
        price: What is paid for; None: `Exchanges`.

    Raises:
        UserError: One of them is no problem, or no price.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> method = t.auto(problem)
        >>> type(method).__name__, type(method.solver).__name__
        ('Sppm', 'Newton')
        >>> bool(t.run(method, problem, rounds=1, metrics=["gap"]).frame["gap"][-1] < 1e-12)
        True
    """
    checked("problem", problem, Problem)
    price = price_of(price)
    ten, n = cost_of_ten(price), problem.population.count
    free, alone = ten <= FREE, ten >= ALL
    cohort = ShuffledNice(n if free else math.ceil(n / 20) if alone else math.ceil(n / 5))
    largest = 0.0 if problem.remote or isinstance(problem, Grouped) else smoothness(problem)
    if not largest > 0:
        return FedAvg(cohort, lr="auto", steps=16)
    known, twice = problem.constants(), problem.twice_differentiable
    convex = twice and known is not None and float(known.convexity.min()) > 0
    if (isinstance(problem, QUADRATIC) or convex) and (second := _second_order(problem, price)) is not None:
        return second
    if known is None and twice:
        return FedDyn(cohort, NewtonCg(), gamma=100 / largest)
    return Scaffold(cohort, lr=(1 if free or alone else 2) / largest, steps=32 if free else 8)


def _second_order(problem: Problem, price: Price) -> Algorithm | None:
    """Return Newton's method or sketched Newton with all clients; None where their matrices do not fit."""
    n, matrix = problem.population.count, 8 * vector(problem.start(host_key(0))).size ** 2
    newton = Sppm(Nice(n), Newton(), gamma=EXACT, inner=1)
    sketched = replace(newton, solver=SketchedNewton(scale=0.6), averaging=1.0)
    if n * matrix <= LARGEST:
        dear = not isinstance(problem, QUADRATIC) and _cost(newton, problem, price) > DEARER * _cost(sketched, problem, price)
        return sketched if dear else newton
    return sketched if matrix <= LARGEST else None


def _cost(algorithm: Algorithm, problem: Problem, price: Price) -> float:
    """Return what a round is expected to cost, as far as it can be foretold."""
    return plan_for(algorithm, problem, seeds=Seeds.of(0), rounds=1).cost(price).least
