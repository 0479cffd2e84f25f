"""One client of a federation that runs a configuration."""

from functools import partial
from pathlib import Path

from turnout.core.errors import UserError
from turnout.engines.budget import Budget
from turnout.engines.encryption import SumKey
from turnout.engines.flower.state_store import DiskReply, DiskStates
from turnout.engines.node import Node
from turnout.engines.public_counts import PublicCounts
from turnout.experiment.build import Built
from turnout.experiment.client import client_of
from turnout.experiment.experiment import Experiment
from turnout.federation.handshake import handshake_of
from turnout.federation.policy import Policy
from turnout.privacy.accounting import local_epsilon
from turnout.privacy.mechanism import Privacy, Protection
from turnout.runs.setup import scope


def node_of(
    experiment: Experiment, built: Built, client: int, folder: Path, policy: Policy | None = None, sum_key: Path | None = None
) -> Node:
    """Return one client of `experiment`, with its private states in a subfolder of `folder`.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        client: Id of the client.
        folder: Folder of the private states.
        policy: The policy of the site.
        sum_key: File of the members' key for encrypted sums.
    """
    privacy, digest = experiment.privacy, handshake_of(experiment, built).digest
    node, job, algorithm = client_of(experiment, built, client, sum_key_of(experiment, built, sum_key))
    own = folder / f"{digest}-{client}"
    with scope(experiment.run.precision):
        node.states = DiskStates(own, node.first)
    if node.local:
        budget = budget_of(experiment, built, folder / f"privacy-{client}.json", digest, policy)
        node.public = PublicCounts(job, algorithm)
        node.last, node.protect, node.spent = DiskReply(own / "last"), partial(release, privacy, budget), budget.spent
    return node


def sum_key_of(experiment: Experiment, built: Built, file: Path | None) -> SumKey | None:
    """Return the members' key if replies are encrypted; `UserError` where its file is needed and missing.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        file: File of the key.
    """
    if experiment.run.aggregation != "encrypted":
        return None
    if file is None:
        raise UserError("aggregation = 'encrypted' needs the members' key: give turnout node --sum-key FILE (turnout sum-key)")
    return SumKey.read(file, built.problem.clients)


def budget_of(experiment: Experiment, built: Built, file: Path, run: str, policy: Policy | None) -> Budget:
    """Return what a client may spend: what the policy allows in all, or else what the configured run needs.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        file: File of what the client has spent.
        run: Digest of the configuration.
        policy: The policy of the site.
    """
    if policy is not None and policy.epsilon is not None:
        return Budget(file, run, policy.epsilon, policy.delta, overall=True)
    # Estimates take memory that other nodes do not need.
    from turnout.federation.planned import planned_replies

    privacy = experiment.privacy
    limit = local_epsilon({privacy.noise_multiplier: planned_replies(experiment, built)}, privacy.delta)
    return Budget(file, run, limit, privacy.delta)


def release(privacy: Privacy, budget: Budget) -> Protection:
    """Return the protection of one more reply of the local model, with new noise unless a seed is given, and charge for it.

    Args:
        privacy: Options of differential privacy.
        budget: What the client has spent.
    """
    budget.charge(privacy.noise_multiplier)
    return privacy.protection()
