"""Plans from Python."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from turnout.accounting.prices import Exchanges, Price
from turnout.accounting.target import Target
from turnout.core.errors import UserError
from turnout.io.claims import claimed
from turnout.planner.plan import Plan
from turnout.planner.planner import Planner, Watch
from turnout.planner.task import Limits, Task, read_task, task_of
from turnout.problems.base import Problem
from turnout.studies.cases import Cases


def plan(
    problem: Problem | str | Path,
    target: Target | None = None,
    price: Price | Sequence[Price] = (),
    *,
    out: str | Path | None = None,
    like: str | Path | None = None,
    budget: float | None = None,
    allow: list[str] | None = None,
    forbid: list[str] | None = None,
    data: str | Path | None = None,
    watch: Watch = lambda *_: None,
    **limits,
) -> Plan:
    """Find what reaches a target most cheaply: algorithm, sampler, solver and numbers.

    Candidates of all families are played on the problem, none further than it takes to know that it is not the cheapest, and
    the best of them on fresh seeds, which alone are reported.

    Raises:
        UserError: If the task is wrong, nothing is allowed, or no candidate reaches the target.

    Args:
        problem: A problem, or the TOML file of a task.
        target: The target; of a file its own.
        price: The price, or several: the plan is for the first, and tells the winner at each other; of a file its own.
        out: Folder in which runs are kept; default: none are.
        like: A file with a problem that stands in for that of the task.
        budget: The most that a run may cost.
        allow: Names of families, or kinds of their parts, that may play; default: all.
        forbid: Those that may not.
        data: Folder with data files.
        watch: Told what the planner is doing; may raise to interrupt it.
        **limits: Further fields of `Limits`.

    Examples:
        >>> import turnout as t
        >>> made = t.plan(t.Quadratic.random(12, 5), t.Target("gradient", 0.5), allow=["fedavg", "lbfgs"], seeds=5)
        >>> made.ranking["cost"][0]
        2.0
    """
    given = {"budget": budget, "allow": allow, "forbid": forbid, **limits}
    task = _task(problem, target, price, like, {key: value for key, value in given.items() if value is not None})
    note = "" if like is None else f"Planned on a stand-in, the problem of {like}: costs on the real problem differ."
    with nullcontext() if out is None else claimed(Path(out)) as folder:
        return Planner(task, folder, Cases(None if data is None else Path(data)), watch).plan(note)


def _task(problem, target, price, like, given: dict) -> Task:
    """Return the task that the arguments of `plan` describe."""
    if not isinstance(problem, Problem):
        task = read_task(Path(problem), None if like is None else Path(like))
        if target is not None or price != ():
            raise UserError("target and price of a task in a file are in the file: leave the arguments out")
        return replace(task, limits=replace(task.limits, **given))
    if target is None:
        raise UserError("a plan needs a target: give Target('distance', 0.01), for instance")
    prices = tuple(price) if isinstance(price, Sequence) else (price,)
    tables = {"problem": problem, "target": {"metric": target.metric, "below": target.below}}
    return task_of(tables, prices or (Exchanges(),), Limits(**given), type(problem).__name__)
