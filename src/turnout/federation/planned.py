"""The replies that a configuration asks of each client."""

import math

from turnout.core.errors import UserError
from turnout.engines.metrics import asked_for
from turnout.experiment.build import Built
from turnout.experiment.describe import plan_for
from turnout.experiment.experiment import Experiment
from turnout.runs.wanted_metrics import wanted_metrics


def planned_replies(experiment: Experiment, built: Built) -> int:
    """Return the most replies to exchanges and evaluations that a run of `experiment` asks of one client.

    It counts twice the expected number of exchanges where chance decides on it. `UserError` where nothing bounds it.

    Args:
        experiment: The configuration.
        built: The problem built from it.
    """
    run, problem = experiment.run, built.problem
    plan = plan_for(experiment.algorithm, problem, seeds=run.purpose_seeds(), rounds=run.rounds, precision=run.precision)
    exchanges = plan.totals()["exchanges"]
    if exchanges.most is None:
        raise UserError(f"nothing bounds how often {experiment.name} asks a client: give its node a policy with an epsilon")
    metrics = wanted_metrics(problem, experiment.target, run.metrics, built.test, built.held_out)
    evaluations = 1 + math.ceil(run.rounds / run.every) if problem.remote and asked_for(metrics) else 0
    return math.ceil(exchanges.most * (2 if exchanges.error else 1)) + evaluations
