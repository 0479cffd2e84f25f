"""Running algorithms on problems from Python: one run, or a sweep as one compiled program."""

from collections.abc import Iterable, Mapping

from turnout.core.algorithm import Algorithm
from turnout.core.own_code import with_short_traceback
from turnout.problems.base import Problem
from turnout.runs.going_on import go_on as continue_from
from turnout.runs.options import RunOptions, takes_options, with_settings
from turnout.runs.session import Session
from turnout.runs.sweep import Sweep, cells_of
from turnout.runs.trace import Trace
from turnout.runs.without_effect import tell_without_effect


@takes_options()
@with_short_traceback
def run(
    algorithm: Algorithm, problem: Problem, options: RunOptions | None = None, *, go_on: Trace | None = None, **settings
) -> Trace:
    """Run `algorithm` on `problem` and return the trace, one row every `every` rounds.

    Raises:
        UserError: If options, algorithm and problem do not go together, or the run cannot be completed as asked.

    Args:
        algorithm: Algorithm to run.
        problem: Objective and clients.
        options: Options as a record; keywords below replace its fields.
        go_on: Trace of a run with fewer rounds, which goes on with the numbers of a run that had all rounds from the start.
        **settings: Fields of `RunOptions`.

    Examples:
        >>> import turnout as t
        >>> trace = t.run(t.FedAvg(t.Nice(4), lr=0.05, steps=3), t.Quadratic.random(12, 5), rounds=10, every=5)
        >>> trace.frame["round"].to_list()
        [0, 5, 10]
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["contacts"]
        (10, 40)
    """
    session = Session(algorithm, problem, options, **settings)
    tell_without_effect(session)
    if go_on is not None:
        continue_from(session, go_on.played)
    return session.run().trace


@takes_options("seed", "seeds", "engine", "aggregation", "privacy", "callbacks", "debug")
@with_short_traceback
def sweep(
    algorithm: Algorithm,
    problem: Problem,
    grid: Mapping[str, Iterable[float]],
    options: RunOptions | None = None,
    *,
    seeds: Iterable[int] = (0,),
    **settings,
) -> Sweep:
    """Run every combination of the values in `grid` with every seed, in one compiled program.

    Each cell equals the `run` with these hyper-parameters and this seed.

    Raises:
        UserError: If a name in `grid` is no number of the algorithm, or an option does not go with a sweep.

    Args:
        algorithm: Algorithm to run; `grid` replaces some of its hyper-parameters.
        problem: Objective and clients.
        grid: Values of each hyper-parameter, by name, such as "gamma" or "solver.smoothness".
        options: Options as a record; keywords below replace its fields.
        seeds: Seed of each repetition.
        **settings: Fields of `RunOptions`.

    Examples:
        >>> import turnout as t
        >>> problem, target = t.Quadratic.random(12, 5), t.Target("gradient", 1e-3)
        >>> swept = t.sweep(t.MbGd(t.Full(), lr=0.1), problem, {"lr": [0.01, 0.02]}, rounds=3, seeds=range(2), target=target)
        >>> [cell.name for cell in swept.cells]
        ['lr=0.01 seed=0', 'lr=0.01 seed=1', 'lr=0.02 seed=0', 'lr=0.02 seed=1']
        >>> swept.costs()["reached"].to_list()
        [0, 0]
    """
    cells = cells_of(grid, seeds)
    options = with_settings(options, settings, without=("seed", "engine", "aggregation", "privacy", "callbacks", "debug"))
    return Sweep(cells, Session(algorithm, problem, options, cells=cells).run().traces)
