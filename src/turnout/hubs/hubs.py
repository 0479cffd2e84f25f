"""What a user says of the hubs between the server and the clients."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.core.records import Count, NonNegative, Positive, config
from turnout.hubs.layout import Layout, numbered


@config
class Hubs:
    """Hubs between the server and the clients, on one level or several: sites, regions, or base stations.

    Every message of the server passes a hub, which sends it on to its clients of the cohort. Replies of which the server takes
    sums with the weights lambda_i or lambda_i / p_i are summed at the hub, so that one reply goes up; others are forwarded. A
    cohort of clients of one hub is served by it, where a round has one cohort and the sampler learns nothing from replies: it
    gets the server's state once, makes all exchanges of the round, and returns the new state (Cohort Squeeze, section 3.6).
    With encrypted sums or privacy none serves, since it would read the replies. In a federation each hub is a process.

    The run is the same with hubs and without, and so are the counts of the links to the clients. What passes the server's own
    link is counted apart: the events `server_exchanges`, `server_contacts`, `server_bytes_up` and so on.

    Args:
        count: Number of hubs, for consecutive clients in parts of nearly equal size; or one number for each level, from the
            server down: [4, 10] are 4 hubs with 10 hubs each.
        of: The hub of each client [n], a number or a name, with several levels a list of names from the server down; or
            "strata", those of the split: the column `hub` of tables, for their natural clients, or clusters of "kmeans".
        table: A CSV file with the column "client", the numbers 0 to n - 1, and one column for each level from the server down.
        latency: Seconds that a message and its reply take on the links above the hubs without payload, for the clock of
            `Devices`; a list has one number for each level from the server down.
        bandwidth_up: Bytes per second from a hub upwards, likewise; None: unlimited.
        bandwidth_down: Bytes per second to a hub, likewise; None: unlimited.

    Raises:
        UserError: On binding, if a client has no hub or two, or a hub no client.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=100, dimension=5, seed=0)
        >>> trace = t.run(t.FedAvg(t.Full(), lr=0.1), problem, rounds=3, hubs=t.Hubs(10))
        >>> totals = trace.ledger.totals()
        >>> totals["bytes_up"], totals["server_bytes_up"]
        (12000, 1200)
    """

    count: Count | list[Count] | None = None
    of: list | str | None = None
    table: str | Path | None = None
    latency: NonNegative | list[NonNegative] = 0.0
    bandwidth_up: Positive | list[Positive] | None = None
    bandwidth_down: Positive | list[Positive] | None = None

    def __post_init__(self):
        given = [name for name in ("count", "of", "table") if getattr(self, name) is not None]
        if len(given) != 1:
            raise UserError(f"[hubs] has {' and '.join(given) or 'nothing'}: give one of count, of and table")
        if isinstance(self.of, str) and self.of != "strata":
            raise UserError(f"[hubs] of is {self.of!r}: give the hub of each client, or 'strata'")

    def bind(self, population) -> Layout:
        """Return the hubs of the clients of a population.

        Args:
            population: The clients.
        """
        n = population.count
        paths = self._paths(n, population.strata)
        if len(paths) != n:
            raise UserError(f"[hubs] has hubs for {len(paths)} clients, but there are {n}: give each client one")
        if len({len(path) for path in paths}) > 1:
            raise UserError("[hubs] of has clients on different levels: give each client as many hubs above it")
        groups, counts = numbered(paths)
        latency = self._each_level("latency", len(counts))
        slowness = (1 / self._each_level(name, len(counts)) for name in ("bandwidth_down", "bandwidth_up"))
        consecutive = bool(np.all(np.diff(groups[0]) >= 0))
        return Layout(groups, 1e6 * np.stack([latency, *slowness], axis=-1), counts, consecutive=consecutive)

    @property
    def timed(self) -> bool:
        """Whether the links above the hubs take time."""
        return self.latency != 0.0 or self.bandwidth_up is not None or self.bandwidth_down is not None

    def _each_level(self, name: str, levels: int) -> Float[np.ndarray, " levels"]:
        """Return a speed for each level, the lowest first."""
        speed = getattr(self, name)
        given = speed[::-1] if isinstance(speed, list) else [np.inf if speed is None else speed] * levels
        if len(given) != levels:
            raise UserError(f"[hubs] {name} has {len(given)} numbers, but there are {levels} levels of hubs: give one for each")
        return np.array(given, float)

    def _paths(self, n: int, strata) -> list[tuple]:
        """Return for each client the names of its hubs, the highest first."""
        if self.count is not None:
            return _even(self.count if isinstance(self.count, list) else [self.count], n)
        if self.table is not None:
            return _read(Path(self.table), n)
        if isinstance(self.of, str):
            if strata is None:
                raise UserError("[hubs] of = 'strata' needs strata: name the column hub of the data, or take the split 'kmeans'")
            return [(int(stratum),) for stratum in np.asarray(strata)]
        return [tuple(hub) if isinstance(hub, list | tuple) else (hub,) for hub in self.of or ()]


def _even(levels: Sequence[int], n: int) -> list[tuple]:
    """Return the hubs of consecutive clients, as many at each level as `levels` says."""
    lowest = int(np.prod(levels))
    if lowest > n:
        raise UserError(f"[hubs] count makes {lowest} hubs for {n} clients, so that some are empty: take fewer")
    own = np.repeat(np.arange(lowest), np.diff(np.linspace(0, n, lowest + 1).astype(int)))
    return [tuple(int(part) for part in path) for path in zip(*np.unravel_index(own, tuple(levels)), strict=True)]


def _read(path: Path, n: int) -> list[tuple]:
    """Return the hubs in a CSV file."""
    import polars as pl

    try:
        table = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(f"[hubs] table {path} cannot be read ({str(error).splitlines()[0]}): give a CSV file") from None
    levels = [name for name in table.columns if name != "client"]
    if "client" not in table.columns or not levels:
        raise UserError(f"[hubs] table {path} needs the column client, and one for each level of hubs: add them")
    hubs: dict[str, tuple] = {}
    for client, *own in table.select("client", *levels).iter_rows():
        if client in hubs:
            raise UserError(f"[hubs] table {path} has client {client} twice: give it one hub")
        if None in own:
            raise UserError(f"[hubs] table {path} has no hub for client {client}: name one")
        hubs[client] = tuple(own)
    missing = next((i for i in range(n) if str(i) not in hubs), None)
    if missing is not None or len(hubs) != n:
        odd = next((name for name in hubs if name not in map(str, range(n))), None)
        what = f"client {missing} has no hub" if missing is not None else f"client {odd!r} does not exist"
        raise UserError(f"[hubs] table {path}: {what}, but clients are 0 to {n - 1}: name each once")
    return [hubs[str(i)] for i in range(n)]
