"""A comparison of costs from beginning to end."""

from pathlib import Path

from turnout.reproduce.costs import words
from turnout.reproduce.costs.paper import Figure, Paper
from turnout.reproduce.costs.paper import read_paper as read_paper
from turnout.reproduce.costs.run import FRESH, Plan, Player, fresh_tasks, tuning_tasks
from turnout.reproduce.costs.tables import Tables
from turnout.reproduce.costs.timing import one_by_one
from turnout.reproduce.outcome import Outcome, provenance, told
from turnout.reproduce.papers import chosen, resolve
from turnout.reproduce.store import Watch
from turnout.runs.setup import bind
from turnout.samplers.base import samplers_in
from turnout.theory.sampling_error import sampling_floor

FLOORS = (1, 2)
"""Cohorts whose sampling error convergence figures show."""


def plan_of(paper: Paper, figures: list[str], sets: list[str] | None, seeds: int, data: Path | None) -> Plan:
    """Return the plan: the tables are made where no figures are named; data sets that are missing raise `UserError`."""
    wanted = chosen(paper, figures)
    if sets is not None:
        names = resolve(sets, data)
    elif figures:
        shown = {name for figure in wanted for name in figure.sets}
        resolve([name for name in paper.sets if name in shown], data)
        names = paper.sets
    else:
        names = resolve(paper.sets, data)
    return Plan(paper, wanted, not figures, names, seeds, data)


def reproduce(plan: Plan, folder: Path, watch: Watch, command: str, every_run: bool) -> Outcome:
    """Play what is left to play, write all results to `folder`, and tell how long it took."""
    # Drawing is slow to import.
    from turnout.reproduce.costs.figures import panels
    from turnout.reproduce.costs.page import write_all
    from turnout.reproduce.page import Drawn

    player = Player(plan, folder, watch)
    player.play(tuning_tasks(plan))
    results, tables = player.results, None
    if plan.tables:
        tables = Tables(plan.paper, [Path(data).name for data in plan.sets], results.hits)
        player.play(fresh_tasks(plan, tables.picked()))
        tables.report(results.hits)
    alone = one_by_one(results.tasks, player.case, every_run)
    runs = sum(task.runs for task in results.tasks)
    sentences = [told(runs, len(results.tasks), results.seconds, results.reused), str(alone)]
    drawn = []
    for figure in plan.figures:
        sets = plan.figure_sets(figure)
        found = panels(figure, plan.paper, sets, results.hits, results.curves, floors(figure, sets, player))
        drawn.append(Drawn(figure.name, figure.title, words.caption(figure), found))
    facts = provenance(plan.paper.name, command) | {
        "seeds": {task.label: [min(task.seeds), max(task.seeds)] for task in results.tasks},
        "fresh_from": FRESH,
        "runs": runs,
        "seconds": {
            "sweeps": round(results.seconds, 1),
            "one_by_one": round(alone.seconds, 1),
            "one_by_one_sample": alone.sample,
        },
    }
    page = write_all(folder, plan.paper, drawn, tables, results, facts)
    return Outcome(page, sentences)


def floors(figure: Figure, sets: list[str], player: Player) -> dict[str, dict[str, float]]:
    """Return, for each data set of a convergence figure, how near a few cohorts of its first line's sampler come at best."""
    if not figure.lines:
        return {}
    found = {}
    for data in sets:
        case, family = player.case(data), player.plan.paper.family(figure.lines[0].family, data)
        (sampler,) = samplers_in(bind(family.experiment.algorithm, case.problem))
        values = sampling_floor(case.problem, sampler, FLOORS, case.at_optimum) or []
        labels = [f"sampling error, {many} cohort{'' if many == 1 else 's'}" for many in FLOORS]
        found[Path(data).name] = dict(zip(labels, values, strict=False))
    return found
