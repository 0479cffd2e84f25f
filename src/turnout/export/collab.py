"""A configuration as a job of NVFlare, in its Collab API."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turnout.core.errors import UserError
from turnout.experiment.build import build
from turnout.experiment.config import read
from turnout.experiment.experiment import Experiment
from turnout.experiment.remote_spec import RemoteSpec

if TYPE_CHECKING:
    from nvflare.collab import CollabRecipe  # pyright: ignore[reportMissingImports]


def nvflare(file: Path | str, sites: Sequence[str] | None = None, deadline: float = 600.0) -> "CollabRecipe":
    """Return a configuration as a recipe of NVFlare's Collab API, which NVFlare simulates, tries out or runs in production.

    Its server draws the cohorts and plays the rounds; each site is a client, and publishes `answer`, which runs a local method.
    The server's job folder has the results in `turnout`, the same files as those of `turnout run`. Sites need turnout, and the
    Python files that the configuration names.

    Args:
        file: The configuration (TOML).
        sites: The name of each client's site; default: site-1, site-2 and so on, as in NVFlare's simulator.
        deadline: Seconds that an exchange waits for replies, > 0.

    Raises:
        UserError: NVFlare is not installed, the names are not one for each client, or the configuration has what a job cannot
            carry: a sweep, hubs, differential privacy or encrypted sums.

    Examples:
        >>> import turnout as t
        >>> recipe = t.export.nvflare("fedavg.toml")  # doctest: +SKIP
    """
    try:
        from nvflare.collab import CollabRecipe  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UserError(f"turnout.export.nvflare needs NVFlare 2.9 ({error}): pip install 'nvflare>=2.9'") from None
    from turnout.export.collab_sites import Server, Site

    experiment = read(Path(file))
    refuse_what_is_not_carried(experiment)
    remote = isinstance(experiment.problem, RemoteSpec)
    count = experiment.problem.clients if remote else build(experiment, None).problem.clients
    names = [f"site-{i}" for i in range(1, count + 1)] if sites is None else list(sites)
    if len({*names}) != count or len(names) != count:
        raise UserError(f"{file} has {count} clients: give the names of as many sites, each once")
    configuration = experiment.to_toml()
    return CollabRecipe(
        job_name=experiment.name,
        server=Server(configuration, names, deadline),
        client=Site(configuration, names),
        min_clients=count,
        sync_task_timeout=deadline,
    )


def refuse_what_is_not_carried(experiment: Experiment) -> None:
    """Raise `UserError` for a configuration that a job of NVFlare cannot carry.

    Args:
        experiment: The configuration.
    """
    refused = {
        "[sweep]": experiment.sweep,
        "[hubs]": experiment.hubs,
        "[privacy]": experiment.privacy,
        "aggregation = 'encrypted'": experiment.run.aggregation == "encrypted",
    }
    for what, given in refused.items():
        if given:
            raise UserError(f"{experiment.name}: a job of NVFlare does not carry {what}: leave it out, or use turnout deploy")
