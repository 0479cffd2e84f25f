"""A comparison by selections from beginning to end."""

from pathlib import Path

from turnout.experiment.problem_specs import DataSpec
from turnout.reproduce.outcome import Outcome, provenance, told, untimed
from turnout.reproduce.papers import among, charted, resolve
from turnout.reproduce.selection.paper import Local, Paper
from turnout.reproduce.selection.paper import read_paper as read_paper
from turnout.reproduce.selection.run import Plan, Player
from turnout.reproduce.selection.tables import Numbers
from turnout.reproduce.store import Watch


def plan_of(paper: Paper, figures: list[str], sets: list[str] | None, seeds: int, data: Path | None) -> Plan:
    """Return the plan: the tables are made where no figures are named; data that are missing raise `UserError`."""
    names = among(paper.name, "set", paper.settings, sets)
    plan = Plan(paper, charted(paper, figures, names), not figures, names, seeds, data)
    problems = [task.experiment.problem for task in plan.tasks()]
    resolve(list(dict.fromkeys(problem.data for problem in problems if isinstance(problem, DataSpec))), data)
    return plan


def reproduce(plan: Plan, folder: Path, watch: Watch, command: str, every_run: bool) -> Outcome:
    """Play what is left to play, write all results to `folder`, and tell how long it took."""
    # Drawing is slow to import.
    from turnout.reproduce.selection.figures import draw
    from turnout.reproduce.selection.page import write_all

    untimed(plan.paper.name, every_run)
    paper, player = plan.paper, Player(plan, folder, watch)
    player.play(plan.tasks())
    results = player.results
    numbers = Numbers(results.hits, paper.setups)
    runs = [chart for figure in plan.figures for chart in figure.shown(plan.problems) if isinstance(chart, Local)]
    local = {
        run: player.steps(run.problem, run.contender, numbers.best(run.problem, run.contender, paper.setups[0]).setting)
        for run in runs
    }
    figures = [draw(figure, paper, results.curves, numbers, plan.problems, local) for figure in plan.figures]
    many = results.hits.height
    facts = provenance(paper.name, command) | {
        "seeds": [0, plan.seeds - 1],
        "problems": {name: facts_of(player, name) for name in player.built},
        "runs": many,
        "seconds": results.each,
    }
    page = write_all(folder, plan, figures, results.hits, results.curves, numbers, facts)
    return Outcome(page, [told(many, len(results.tasks), results.seconds, results.reused)])


def facts_of(player: Player, name: str) -> dict:
    """Return n, m and the constants of a problem."""
    task = next(task for task in player.results.tasks if task.problem == name)
    constants = {key: round(value, 6) for key, value in player.constants(name).items()}
    return {"n": player.built[name].problem.clients, "m": task.experiment.algorithm.sampler.size, **constants}
