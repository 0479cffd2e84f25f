"""What the parties of a federation that plays a configuration have in common."""

from pathlib import Path

from turnout.core.errors import UserError
from turnout.engines.flower.client_app import Terms
from turnout.engines.reply_usage import sums_needed, survey
from turnout.experiment.config import Experiment
from turnout.experiment.remote import RemoteSpec
from turnout.experiment.run import Built, build
from turnout.runs.setup import bind, prepare, refuse_mixed, scope


def terms_of(experiment: Experiment, built: Built) -> Terms:
    """Return what the server and the nodes of `experiment` have to agree on."""
    with scope(experiment.run.precision):
        given = experiment.run.start
        start = prepare(built.problem, experiment.run.purpose_seeds(), None, None, start=given).start
    exact = built.problem.remote or given is not None
    return Terms.of(experiment.to_toml(), experiment.run.precision, start, exact)


def elsewhere(experiment: Experiment, data: Path | None) -> Built:
    """Build `experiment` where the clients need not be: those with rows of their own are taken to have one each.

    What a federation cannot play is refused, before anybody is asked.
    """
    if experiment.sweep:
        raise UserError(f"{experiment.name} has a [sweep] table, whose runs share one program: play it with turnout sweep")
    remote = isinstance(experiment.problem, RemoteSpec)
    built = build(experiment, data, [1] * experiment.problem.clients if remote else None)
    refuse_mixed(built.problem, experiment.run.precision)
    if experiment.run.aggregation == "sum":
        with scope(experiment.run.precision):
            job = prepare(built.problem, experiment.run.purpose_seeds(), None, None)
            algorithm = bind(experiment.algorithm, built.problem, experiment.run.rounds)
            sums_needed(survey(job, algorithm), "aggregation = 'plain'")
    return built
