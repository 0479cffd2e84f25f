"""A comparison of dual and primal methods from beginning to end."""

from pathlib import Path

from turnout.reproduce.dual.paper import Paper
from turnout.reproduce.dual.paper import read_paper as read_paper
from turnout.reproduce.dual.run import Plan, Player
from turnout.reproduce.dual.tables import Numbers, accuracies, hits, medians
from turnout.reproduce.outcome import Outcome, provenance, told, untimed
from turnout.reproduce.papers import among, charted, resolve
from turnout.reproduce.store import Watch


def plan_of(paper: Paper, figures: list[str], sets: list[str] | None, seeds: int, data: Path | None) -> Plan:
    """Return the plan: the tables are made where no figures are named; data that are missing raise `UserError`."""
    names = among(paper.name, "set", paper.settings, sets)
    plan = Plan(paper, charted(paper, figures, names), not figures, names, seeds, data)
    problems = [task.experiment.problem for task in plan.tasks()]
    files = [name for problem in problems for name in (problem.data, problem.test) if name is not None]
    resolve(list(dict.fromkeys(files)), data)
    return plan


def reproduce(plan: Plan, folder: Path, watch: Watch, command: str, every_run: bool) -> Outcome:
    """Play what is left to play, write all results to `folder`, and tell how long it took."""
    # Drawing is slow to import.
    from turnout.reproduce.dual.figures import draw
    from turnout.reproduce.dual.page import write_all

    untimed(plan.paper.name, every_run)
    paper, player = plan.paper, Player(plan, folder, watch)
    player.play(plan.tasks())
    results = player.results
    found = hits(results.rounds, paper.setups)
    numbers = Numbers(medians(found), accuracies(results.rounds, paper.accuracy))
    figures = [draw(figure, paper, results.rounds, plan.sets) for figure in plan.figures]
    many = sum(len(task.seeds) for task in results.tasks)
    facts = provenance(paper.name, command) | {
        "seeds": {name: [0, plan.seeds_of(paper.settings[name]) - 1] for name in plan.sets},
        "least": results.least,
        "precision": {task.set: task.experiment.run.precision for task in results.tasks},
        "runs": many,
        "seconds": results.each,
    }
    page = write_all(folder, plan, figures, results.rounds, found, numbers, facts)
    return Outcome(page, [told(many, len(results.tasks), results.seconds, results.reused)])
