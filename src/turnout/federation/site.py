"""The app of a site: what `turnout node` serves."""

from pathlib import Path

from flwr.clientapp import ClientApp

from turnout.core.errors import UserError
from turnout.engines.flower.client_app import NodeApp, Service
from turnout.engines.request import Refused
from turnout.experiment.build import Built
from turnout.experiment.config import read
from turnout.experiment.experiment import Experiment
from turnout.federation.handshake import build_for_federation, handshake_of
from turnout.federation.node import node_of
from turnout.federation.policed import PolicedService
from turnout.federation.policy_file import read_policy
from turnout.io.audit import AuditLog


def service_of(
    experiment: Experiment,
    built: Built,
    client: int,
    folder: Path,
    log: Path | None = None,
    policy: Path | None = None,
    sum_key: Path | None = None,
) -> Service:
    """Return what the app of one client of `experiment` answers for.

    Args:
        experiment: The configuration.
        built: The problem built from it.
        client: Id of the client.
        folder: Folder of the private states.
        log: File of the log; None for `audit-CLIENT.jsonl` in `folder`.
        policy: File of the site's policy; None for the configuration as it is.
        sum_key: File of the members' key for encrypted sums.
    """
    allowed, file = None if policy is None else read_policy(policy), AuditLog(log or folder / f"audit-{client}.jsonl")
    if allowed is None:
        return Service(handshake_of(experiment, built), node_of(experiment, built, client, folder, None, sum_key), file)
    try:
        return PolicedService(experiment, built, client, folder, file, allowed, sum_key)
    except Refused as error:
        raise UserError(f"{experiment.name} is not within {policy}: {error}") from None


def app_of(
    file: Path,
    client: int,
    folder: Path,
    data: Path | None,
    log: Path | None = None,
    policy: Path | None = None,
    sum_key: Path | None = None,
) -> ClientApp:
    """Return the app of one client of the configuration `file`, with its private states in `folder`.

    Args:
        file: File of the configuration.
        client: Id of the client.
        folder: Folder of the private states.
        data: Folder with data files; None for the default folders.
        log: File of the log; None for one in `folder`.
        policy: File of the site's policy; None for the configuration as it is.
        sum_key: File of the members' key for encrypted sums.
    """
    (app,) = apps_of(file, {client: folder}, data, log, policy, sum_key)
    return app


def apps_of(
    file: Path,
    folders: dict[int, Path],
    data: Path | None,
    log: Path | None = None,
    policy: Path | None = None,
    sum_key: Path | None = None,
) -> list[ClientApp]:
    """Return the apps of some clients of the configuration `file`, which share the data in memory.

    Args:
        file: File of the configuration.
        folders: Folder of the private states of each client.
        data: Folder with data files; None for the default folders.
        log: File of the log, for one client alone; None for one in the folder of each.
        policy: File of the site's policy; None for the configuration as it is.
        sum_key: File of the members' key for encrypted sums.
    """
    experiment = read(file)
    built = build_for_federation(experiment, data)
    services = [service_of(experiment, built, client, folder, log, policy, sum_key) for client, folder in folders.items()]
    return [NodeApp(lambda _, service=service: service) for service in services]
