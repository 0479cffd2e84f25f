"""The trace of a run: one row for each evaluated round."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import PyTree

from turnout.accounting.counters import to_ledger
from turnout.accounting.ledger import EVENTS, Ledger, Site
from turnout.accounting.prices import Price, cost_to_target, price_of
from turnout.accounting.target import Target
from turnout.core.errors import UserError
from turnout.core.extras import extra
from turnout.core.leaf_names import OwnLeaves, with_leaves
from turnout.core.schema import Schema
from turnout.engines.metrics import NAMES
from turnout.io.atomic import write
from turnout.io.models import encode_model
from turnout.runs.going_on import Played

if TYPE_CHECKING:
    import polars as pl

    from turnout.report.loaded_run import Result


@dataclass
class Trace:
    """The rows of one run so far, and its parameters after the last of them.

    Args:
        sites: Call sites of the algorithm.
        label: Name of the run.
        target: Metric to reach.
        x: Parameters after the last row; of a run that diverged the last good ones, which are those of its last row.
        diverged: Round of divergence, which ended the run; None: it did not diverge.
        met: Round in which the target was met and ended the run; None: it did not.
        stopped: Round in which a callback ended the run; None: none did.
        columns: Arrays by name: "round", "counts" [rows, sites, counters, 2] and one for each metric.
        whole: Returns what the file of a model holds beside the parameters; None: nothing.
        schema: What the numbers of the problem's rows stand for, which the file of a model tells; None where that is not known.
        each_client: Returns the frame `clients` of the models of clients, given x and `own`.
        each_row: Returns the frame `confusion` of these.
        own: Returns the personal leaves of a client by name; None where clients have none, or only they know them.
        played: What a finished run needs to go on.

    Examples:
        >>> import turnout as t
        >>> trace = t.run(t.MbGd(t.Nice(4), lr=0.1), t.Quadratic.random(12, 5), rounds=3, target=t.Target("gradient", 1e3))
        >>> trace.frame.select("round", "exchanges", "contacts").rows()
        [(0, 0, 0), (1, 1, 4), (2, 2, 8), (3, 3, 12)]
        >>> trace.cost(), trace.x.shape
        (0.0, (5,))
    """

    sites: tuple[Site, ...]
    label: str = "run"
    target: Target | None = None
    x: PyTree = None
    diverged: int | None = None
    met: int | None = None
    stopped: int | None = None
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    whole: Callable[[PyTree], PyTree] | None = field(default=None, repr=False, compare=False)
    schema: Schema | None = field(default=None, repr=False, compare=False)
    each_client: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    each_row: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    own: OwnLeaves = field(default=None, repr=False, compare=False)
    played: Played | None = field(default=None, repr=False, compare=False)
    _room: dict[str, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def extend(self, table: dict[str, np.ndarray]) -> None:
        """Append rows, in amortised time proportional to their number."""
        self.columns = {name: self._extended(name, column) for name, column in table.items()}

    def _extended(self, name: str, column: np.ndarray) -> np.ndarray:
        old = self.columns.get(name, column[:0])
        rows = len(old) + len(column)
        room = self._room.get(name)
        if room is None or old.base is not room or len(room) < rows:
            room = self._room[name] = np.empty((2 * rows, *column.shape[1:]), column.dtype)
            room[: len(old)] = old
        room[len(old) : rows] = column
        return room[:rows]

    def __len__(self) -> int:
        return len(self.columns["round"]) if self.columns else 0

    def __repr__(self) -> str:
        if not len(self):
            return f"Trace({self.label!r}, no round was played)"
        ends = (f"{name}={value:.4g}" for name, value in self.metrics.items())
        reasons = {"diverged": self.diverged, "met its target": self.met, "stopped by a callback": self.stopped}
        ended = (f"{reason} at round {round}" for reason, round in reasons.items() if round is not None)
        played = f"round={int(self.columns['round'][-1])}"
        return f"Trace({', '.join([repr(self.label), played, *ends, *ended])})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the last row, and a chart."""
        from turnout.report.notebook import runs_html

        return runs_html({self.label: [self.frame]}) if len(self) else repr(self)

    @property
    def clients(self) -> "pl.DataFrame":
        """What the last parameters x give each client: "client", "rows", "loss" f_i(x), and "accuracy" where there are classes.

        Raises:
            UserError: Only the nodes have the rows.
        """
        if self.each_client is None:
            raise UserError("this trace was read from a file, which has no rows of clients: run it again")
        return self.each_client(self.x, self.own)

    def model(self, client: int) -> PyTree:
        """Return the model that a client uses: the last parameters x, with its own personal leaves where it has some.

        Args:
            client: Number of the client.

        Raises:
            UserError: Clients have personal leaves, and there is no such client.
        """
        return self.x if self.own is None else with_leaves(self.x, self.own(client))

    @property
    def confusion(self) -> "pl.DataFrame":
        """How many rows of each class ("actual") the last parameters x take for each class (the other columns).

        These are the test rows where the run has some, else the rows of all clients.

        Raises:
            UserError: Only the nodes have the rows, or rows have no classes.
        """
        if self.each_row is None:
            raise UserError("this trace was read from a file, which has no rows: run it again")
        return self.each_row(self.x, self.own)

    @property
    def over(self) -> bool:
        """Whether the run ended before its last round."""
        return not (self.diverged is self.met is self.stopped is None)

    @property
    def ledger(self) -> Ledger:
        """The events at each call site up to the last row."""
        return to_ledger(self.sites, self.columns["counts"][-1])

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the last row."""
        return {name: float(column[-1]) for name, column in self._metric_columns().items()}

    @property
    def frame(self) -> "pl.DataFrame":
        """Round, metrics and cumulative events, one row for each evaluated round."""
        return self.frame_from(0)

    def frame_from(self, first: int) -> "pl.DataFrame":
        """Return the rows of `frame` from the row `first` on, in time proportional to their number."""
        return frame_of(self.sites, {name: column[first:] for name, column in self.columns.items()})

    def cost(self, price: Price | None = None) -> float | None:
        """Return the cost of reaching the target; None if it was not reached.

        Args:
            price: Price of the events; default: one for each exchange.
        """
        hit = self.target.first_hit(self.columns) if self.target else None
        return cost_to_target(price_of(price), self.frame, hit)

    def result(self) -> "Result":
        """Return the run as reports read it: its frame, and a summary with target and ledger."""
        from turnout.report.loaded_run import Result

        target = {"metric": self.target.metric, "below": self.target.below} if self.target else None
        ledger = {"totals": self.ledger.totals(), "sites": self.ledger.rows()}
        return Result(self.label, {"name": self.label, "target": target, "ledger": ledger}, self.frame)

    def save_model(self, path: Path | str, x: PyTree = None, **facts) -> None:
        """Write parameters to a safetensors file: of PyTorch clients the whole state_dict, with buffers and tied names.

        Personal leaves are those of a client that never took part; `model` returns the model of one that did. A `Caution` is
        given where PyTorch clients have buffers of their own, which the file cannot hold.

        Args:
            path: The file.
            x: The parameters; default: those after the last row.
            **facts: Metadata to store beside the round and the version.
        """
        x = self.x if x is None else x
        write(Path(path), encode_model(x, {**self.facts(int(self.columns["round"][-1])), **facts}, self.state(x)))

    def facts(self, round: int) -> dict[str, Any]:
        """Return what the file of a model tells beside its numbers: version, round, classes, features and preprocessing.

        Args:
            round: The round of the parameters.
        """
        return {"version": version("turnout"), "round": round, **(self.schema.facts() if self.schema else {})}

    def state(self, x: PyTree) -> PyTree:
        """Return what the file of a model with the parameters x holds at this point of the run."""
        return x if self.whole is None else self.whole(x)

    def chart(self, *prices: Price, metric: str | None = None):
        """Return an Altair chart of a metric against cost.

        Args:
            *prices: Prices of the events, one curve for each; default: one for each exchange.
            metric: Name of the metric; default: that of the target, or the first.

        Raises:
            UserError: Altair is not installed.
        """
        altair = extra("altair", "a chart", "report")
        from turnout.report.charts import curves

        metric = metric or (self.target.metric if self.target else next(iter(self._metric_columns())))
        return altair.Chart.from_dict(curves(self.result(), metric, [*map(price_of, prices or (None,))]))

    def _metric_columns(self) -> dict[str, np.ndarray]:
        return _metrics(self.columns)


def frame_of(sites: tuple[Site, ...], columns: dict[str, np.ndarray]) -> "pl.DataFrame":
    """Return round, metrics and cumulative events of the rows of one run or several.

    Args:
        sites: Call sites of the algorithm.
        columns: Arrays by name: "round", "counts" [rows, sites, counters, 2] and one for each metric.
    """
    import polars as pl

    totals, count = to_ledger(sites, columns["counts"]).totals(), len(columns["round"])
    metrics = [pl.Series(name, column) for name, column in _metrics(columns).items()]
    events = [_integers(name, np.broadcast_to(totals[name], count)) for name in EVENTS]
    # polars takes a list of series faster than a dictionary of them.
    return pl.DataFrame([pl.Series("round", columns["round"].astype(np.int64)), *metrics, *events])


def _metrics(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    own = [name for name in columns if name not in (*NAMES, "round", "counts")]
    return {name: columns[name].astype(float) for name in (*NAMES, *own) if name in columns}


def _integers(name: str, values: np.ndarray) -> "pl.Series":
    """Return counts as 64-bit integers, or as floats where they are too large for these."""
    import polars as pl

    if values.dtype != object:
        return pl.Series(name, values)
    return pl.Series(name, values.tolist(), dtype=pl.Int64 if max(values, default=0) < 2**63 else pl.Float64)
