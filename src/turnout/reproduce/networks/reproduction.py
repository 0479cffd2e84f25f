"""A comparison on networks from beginning to end."""

from pathlib import Path

import numpy as np

from turnout.reproduce.networks.paper import SCALES as SCALES
from turnout.reproduce.networks.paper import Paper
from turnout.reproduce.networks.paper import read_paper as read_paper
from turnout.reproduce.networks.run import FRESH, Plan, Player
from turnout.reproduce.networks.tables import Numbers
from turnout.reproduce.outcome import Outcome, provenance, told, untimed
from turnout.reproduce.papers import among, charted, resolve
from turnout.reproduce.store import Watch


def plan_of(paper: Paper, figures: list[str], sets: list[str] | None, seeds: int, data: Path | None) -> Plan:
    """Return the plan: the tables are made where no figures are named; data that are missing raise `UserError`."""
    names = among(paper.name, "set", paper.settings, sets)
    plan = Plan(paper, charted(paper, figures, names), not figures, names, seeds, data)
    problems = [paper.settings[name].tables["problem"] for name in names]
    resolve(list(dict.fromkeys(problem[key] for problem in problems for key in ("data", "test") if key in problem)), data)
    return plan


def reproduce(plan: Plan, folder: Path, watch: Watch, command: str, every_run: bool) -> Outcome:
    """Play what is left to play, write all results to `folder`, and tell how long it took."""
    # Drawing is slow to import.
    from turnout.reproduce.networks.figures import draw
    from turnout.reproduce.networks.page import write_all

    untimed(plan.paper.name, every_run)
    paper, player = plan.paper, Player(plan, folder, watch)
    tuned = player.play(plan.tasks())
    chooser = Numbers(paper, tuned.rows, tuned.rows)
    results = player.play(plan.tasks(chosen(plan, chooser)))
    numbers = Numbers(paper, tuned.rows, results.rows)
    sizes = {name: np.asarray(player.problem(name).split.sizes) for name in plan.problems}
    figures = [draw(figure, paper, numbers, plan.problems, sizes) for figure in plan.figures]
    runs = len(tuned.tasks) + len(results.tasks)
    facts = provenance(paper.name, command) | {
        "scale": paper.scale,
        "seeds": {"tuning": list(range(paper.tuning)), "reporting": list(range(FRESH, FRESH + plan.seeds))},
        "runs": runs,
        "seconds": round(tuned.seconds + results.seconds, 1),
    }
    page = write_all(folder, plan, figures, numbers, facts)
    return Outcome(page, [told(runs, runs, tuned.seconds + results.seconds, tuned.reused + results.reused)])


def chosen(plan: Plan, numbers: Numbers) -> set[tuple[str, str, str]]:
    """Return the problem, contender and setting of all runs that report."""
    return {
        (problem, name, setting)
        for problem, name, goal, each in plan.questions()
        for _, setting in numbers.settings(problem, name, goal, each)
    }
