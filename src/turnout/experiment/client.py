"""One client of a configuration, as a node that answers requests in bytes."""

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.engines.coded_algorithm import coded
from turnout.engines.encryption import SumKey
from turnout.engines.inputs import Job
from turnout.engines.node import Node
from turnout.experiment.build import Built
from turnout.experiment.experiment import Experiment
from turnout.runs.setup import bind, prepare, scope


def client_of(experiment: Experiment, built: Built, client: int, sum_key: SumKey | None = None) -> tuple[Node, Job, Algorithm]:
    """Return one client of `experiment` with its states in memory, the inputs of the run, and the algorithm bound to it.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        client: Id of the client.
        sum_key: The members' key, where replies are encrypted.
    """
    spec, mixed = experiment.run, experiment.run.precision == "mixed"
    if not 0 <= client < built.problem.clients:
        last = built.problem.clients - 1
        raise UserError(f"{experiment.name} has clients 0 to {last}, so that no node can be client {client}")
    with scope(spec.precision):
        job = prepare(built.problem, spec.purpose_seeds(), None, None, start=spec.start, mixed=mixed)
        algorithm = coded(job, bind(experiment.algorithm, built.problem, spec.rounds), experiment.exchange)
        protection = None if experiment.privacy is None else experiment.privacy.protection()
        node = Node(client, built.problem.client(client), algorithm, job.start, job.seeds, protection, mixed, sum_key)
    return node, job, algorithm
