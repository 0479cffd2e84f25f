"""A comparison of samplers from beginning to end."""

from pathlib import Path

from turnout.core.errors import UserError
from turnout.reproduce.outcome import Outcome, provenance, told, untimed
from turnout.reproduce.papers import chosen
from turnout.reproduce.sampling.paper import Paper
from turnout.reproduce.sampling.paper import read_paper as read_paper
from turnout.reproduce.sampling.run import Plan, Player, Results
from turnout.reproduce.sampling.tables import Numbers, means, runs
from turnout.reproduce.store import Watch


def plan_of(paper: Paper, figures: list[str], sets: list[str] | None, seeds: int, data: Path | None) -> Plan:
    """Return the plan: the tables are made where no figures are named."""
    if sets is not None:
        raise UserError(f"{paper.name} has one task, with data of its own: leave --sets out")
    return Plan(paper, chosen(paper, figures), not figures, max(seeds, paper.seeds) if not figures else seeds, data)


def reproduce(plan: Plan, folder: Path, watch: Watch, command: str, every_run: bool) -> Outcome:
    """Play what is left to play, write all results to `folder`, and tell how long it took."""
    # Drawing is slow to import.
    from turnout.reproduce.sampling.figures import draw
    from turnout.reproduce.sampling.page import write_all

    untimed(plan.paper.name, every_run)
    paper, player = plan.paper, Player(plan, folder, watch)
    player.play(plan.tasks())
    results = player.results
    if results.tasks:
        results.runs = runs(results.rounds, paper.late)
    numbers = Numbers(means(results.runs) if results.tasks else results.runs)
    sizes = player.built("size").problem.sizes
    figures = [draw(figure, paper, results.rounds, numbers, sizes) for figure in plan.figures]
    many = sum(task.runs for task in results.tasks)
    facts = provenance(paper.name, command) | {
        "seeds": [0, plan.seeds - 1],
        "rounds": paper.own.experiment.run.rounds,
        "runs": many,
        "programs": {name: frame.to_dicts() for name, frame in results.programs.items()},
        "seconds": round(results.seconds, 1),
    }
    page = write_all(folder, paper, figures, results, numbers, plan.whole, facts)
    return Outcome(page, [told(many, len(results.tasks), results.seconds, results.reused), *timing(plan, results)])


def timing(plan: Plan, results: Results) -> list[str]:
    """Say how long the program of the paper's own sampler takes after it was compiled, without and with metrics."""
    if not plan.whole:
        return []
    own = plan.paper.own
    seconds = [results.programs[f"{own.name}-size{suffix}"]["playing"].sum() for suffix in ("-plain", "")]
    rounds, budgets = own.experiment.run.rounds, len(own.sizes)
    return [
        f"{own.title}, {rounds} rounds x {plan.seeds} seeds x {budgets} budgets in one program, after compilation: "
        f"{seconds[0]:.1f} s without metrics, {seconds[1]:.1f} s with all clients’ replies and the test loss in each round"
    ]
