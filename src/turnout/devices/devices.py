"""What a user says of the clients' devices."""

from pathlib import Path

import numpy as np

from turnout.core.errors import UserError
from turnout.core.records import Count, Index, NonNegative, Positive, config
from turnout.devices.files import read, read_arrivals
from turnout.devices.fleet import Fleet
from turnout.devices.spreads import Spread

SPEEDS = ("seconds_per_query", "latency", "bandwidth_up", "bandwidth_down")


@config
class Devices:
    """How long queries and messages take, from which the clock of a run follows.

    Client i answers after t_i = latency_i + b_down / down_i + q_i s_i + b_up / up_i seconds, for q_i oracle calls, a message of
    b_down bytes and a reply of b_up; a reply that is asked for k times takes k t_i. An exchange takes as long as its slowest
    client that is waited for, and exchanges follow each other. A speed is one number, one for each client, or a distribution
    (`turnout.devices.LogNormal`, `turnout.devices.Classes`) that is drawn once for each client.

    A reply that comes after the deadline, or after the `first` ones, is lost, in the sense of `Faults.missing`, and counts as
    zero. So `Replies.average` is unbiased for sum_i P(i is on time | i is drawn) lambda_i r_i, in which slow clients count less
    or not at all. `Replies.mean` is over those on time, and prefers fast clients as well. The weights lambda_i / p_i stay as they
    are, since the chance to be on time depends on the others in the cohort and is not known.

    Args:
        seconds_per_query: s_i, seconds of one oracle call, >= 0.
        latency: Seconds of an exchange without payload, there and back together, >= 0.
        bandwidth_up: up_i, bytes per second to the server, > 0; None: unlimited.
        bandwidth_down: down_i, bytes per second to the client, > 0; None: unlimited.
        trace: A file with the four speeds of each client, in the place of the numbers above: see `from_csv` and `from_fedscale`.
        samples: Rows of an oracle call, for a trace of FedScale's, which has seconds per row.
        arrivals: A file that says when each request in flight landed, as `turnout deploy` writes it: a run of the same seed and
            configuration then replays that order.
        seed: Seed of the distributions.
        deadline: Seconds after which a reply is lost; None: never.
        first: Replies that an exchange waits for; None: all. A delegate is waited for always.

    Raises:
        UserError: On binding, if there are numbers for other than n clients.

    Examples:
        >>> import turnout as t
        >>> devices = t.Devices(seconds_per_query=[0.1, 0.2, 0.4], latency=0.5, bandwidth_up=80.0)
        >>> trace = t.run(t.MbGd(t.Full(), lr=0.1), t.Quadratic.random(3, 5), rounds=2, devices=devices)
        >>> trace.frame["seconds"].to_list()
        [0.0, 1.4, 2.8]
    """

    example = "t.Devices(seconds_per_query=0.1, latency=0.05)"

    seconds_per_query: NonNegative | list[NonNegative] | np.ndarray | Spread = 0.0
    latency: NonNegative | list[NonNegative] | np.ndarray | Spread = 0.0
    bandwidth_up: Positive | list[Positive] | np.ndarray | Spread | None = None
    bandwidth_down: Positive | list[Positive] | np.ndarray | Spread | None = None
    trace: str | Path | None = None
    samples: Count = 1
    arrivals: str | Path | None = None
    seed: Index = 0
    deadline: Positive | None = None
    first: Count | None = None

    def __post_init__(self):
        given = [name for name in SPEEDS if not _is(getattr(self, name), getattr(Devices, name))]
        if self.trace is not None and given:
            raise UserError(f"[devices] trace has all speeds of the clients: leave {given[0]} out")

    @classmethod
    def from_csv(cls, path: str | Path, **options) -> "Devices":
        """Return the devices in a CSV file with the columns client, seconds_per_query, latency, bandwidth_up, bandwidth_down.

        Clients are 0 to n - 1, in any order, and an empty bandwidth is unlimited. `turnout deploy` writes such a file.

        Args:
            path: The file.
            **options: Other fields, such as `deadline`.

        Raises:
            UserError: On binding, for the first line that is not valid, with its number.
        """
        return cls(trace=path, **options)

    @classmethod
    def from_fedscale(cls, path: str | Path, samples: int, **options) -> "Devices":
        """Return devices drawn from FedScale's capacities: {"1": {"computation": ms, "communication": kbps}, ...} in JSON.

        An oracle call of b rows takes 3 b computation / 1000 seconds (FedScale's factor for a gradient, after the time of a
        forward pass in the file), and both bandwidths are 128 communication bytes per second. The devices of n clients are drawn
        from the file by `seed`, without replacement if it has n or more. The files that FedScale offers are pickles, which can
        run any program when they are read: nothing is unpickled, so write such a file as JSON first.

        Args:
            path: The file.
            samples: b, rows of an oracle call.
            **options: Other fields, such as `deadline`.

        Raises:
            UserError: On binding, where the file is a pickle or an entry is not valid.
        """
        return cls(trace=path, samples=samples, **options)

    def bind(self, n: int) -> Fleet:
        """Return the devices of n clients as arrays.

        Args:
            n: Number of clients.
        """
        random = np.random.default_rng(self.seed)
        if self.trace is not None:
            speeds = read(Path(self.trace), n, self.samples, random)
        else:
            speeds = {name: self._drawn(name, random, n) for name in SPEEDS}
        query, latency, up, down = (speeds[name] for name in SPEEDS)
        return Fleet(
            rates=np.stack([1e6 * latency, 1e6 / down, 1e6 / up, 1e6 * query], axis=-1),
            deadline=None if self.deadline is None else 1e6 * self.deadline,
            first=self.first,
            arrivals=None if self.arrivals is None else read_arrivals(Path(self.arrivals)),
        )

    def _drawn(self, name: str, random: np.random.Generator, n: int) -> np.ndarray:
        """Return a speed of each client; the distributions of different speeds are independent."""
        value = getattr(self, name)
        if isinstance(value, Spread):
            value = value.draw(random.spawn(1)[0], n)
        value = np.asarray(np.inf if value is None else value, float)
        if value.shape not in ((), (n,)):
            raise UserError(f"[devices] {name} has the shape {list(value.shape)}, but there are {n} clients: give one or [{n}]")
        if getattr(self, name) is not None:
            positive = name.startswith("bandwidth")
            valid = np.isfinite(value) & (value > 0 if positive else value >= 0)
            if not valid.all():
                what = f"{'above' if positive else 'at least'} 0 and finite"
                raise UserError(f"[devices] {name} must be {what}, but is {value[~valid].flat[0]:g} for a client: correct it")
        return np.broadcast_to(value, (n,))


def _is(value, default) -> bool:
    return value is default or (isinstance(value, float) and value == default)
