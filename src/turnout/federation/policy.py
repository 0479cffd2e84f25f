"""The policy of a site: what a server may ask of its node."""

import tomllib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any

import annotated_types as at

from turnout.core.errors import UserError
from turnout.core.records import Count, Index, Positive, config
from turnout.engines.metrics import asked_for
from turnout.engines.request import AskHeader, Function, MeasureHeader, Refused, parse_header
from turnout.experiment.build import Built
from turnout.experiment.config import Reader
from turnout.experiment.experiment import Experiment
from turnout.runs.wanted_metrics import wanted_metrics

Hour = Annotated[int, at.Ge(0), at.Le(24)]


@config
class Policy:
    """What a site allows. The server's configuration may be any within it; data and split are those of the node's own file.

    Args:
        algorithms: Kinds of algorithms, or names of classes of one's own.
        rounds: Most rounds of a run.
        methods: Local methods; None for all of the algorithm.
        metrics: What may be asked of f_i.
        packages: Packages whose classes a configuration may name.
        ranges: Smallest and largest value of keys, by the kind of their table.
        rows_told: Whether the server is told the number of rows; it takes the client to have one otherwise.
        epsilon: Most epsilon to spend in all runs together, in the local model of privacy; None asks for no privacy.
        delta: The delta for that epsilon.
        hours: Hours of the day, by the clock of the site, from and up to which the node answers.
        encrypted: Whether a run must encrypt replies, so that the server gets only sums of them.
        request_bytes: Most bytes of a request.
        request_seconds: Most seconds that a request may take.
    """

    algorithms: list[str]
    rounds: Index
    methods: list[str] | None = None
    metrics: list[Function] | tuple[Function, ...] = ("value", "accuracy")
    packages: list[str] | tuple[str, ...] = ()
    ranges: dict | None = None
    rows_told: bool = True
    epsilon: Positive | None = None
    delta: Annotated[float, at.Gt(0), at.Lt(1)] | None = None
    hours: list[Hour] | None = None
    encrypted: bool = False
    request_bytes: Count | None = None
    request_seconds: Positive | None = None

    def __post_init__(self):
        if (self.epsilon is None) != (self.delta is None):
            raise UserError("epsilon and delta belong together: give both, or neither")
        if self.hours is not None and len(self.hours) != 2:
            raise UserError("hours are two, such as [20, 6]: from the first up to the second")

    def parse(self, text: str, own: Experiment) -> Experiment:
        """Return the configuration `text` of a server that has the data of `own`; raise `Refused` for another.

        Nothing that the text names is imported or opened before it is known to be allowed.

        Args:
            text: The server's configuration, in TOML.
            own: The node's configuration.
        """
        try:
            reader = Reader("the server's configuration", text, tomllib.loads(text))
            self._check_tables(reader.tables, own.tables())
            return reader.experiment("server")
        except ValueError as error:
            raise Refused(str(error)) from None

    def check(self, experiment: Experiment, built: Built) -> None:
        """Raise `Refused` if a configuration is not within the policy.

        Args:
            experiment: The configuration.
            built: The problem built from it.
        """
        tables = experiment.tables()
        kind, run = tables["algorithm"]["kind"], experiment.run
        if kind not in self.algorithms:
            raise Refused(f"algorithm {kind!r} is not allowed here, only {listed(self.algorithms)}")
        if run.rounds > self.rounds:
            raise Refused(f"{run.rounds} rounds are not allowed here, at most {self.rounds}")
        for table in kinds_in(tables):
            for key, (low, high) in (self.ranges or {}).get(table["kind"], {}).items():
                if not within(table.get(key), low, high):
                    shown = table.get(key, "not given")
                    raise Refused(f"{key} of {table['kind']} must be from {low:g} to {high:g} here, but it is {shown}")
        if self.encrypted and run.aggregation != "encrypted":
            raise Refused("only [run] aggregation = 'encrypted' is allowed here")
        self._check_data(experiment, built)
        self._check_privacy(experiment)

    def check_request(self, action: str, header: bytes, size: int) -> None:
        """Raise `Refused` if a request is not within the policy.

        Args:
            action: "ask", "measure" or "decrypt".
            header: Header of the request.
            size: Number of bytes of the request.
        """
        if self.request_bytes is not None and size > self.request_bytes:
            raise Refused(f"a request of {size} bytes is not allowed here, at most {self.request_bytes}")
        if action == "measure":
            for name in parse_header(header, MeasureHeader).measure:
                self._check_function(name)
            return
        if action == "decrypt":
            return
        asked = parse_header(header, AskHeader)
        if self.methods is not None and asked.method not in self.methods:
            raise Refused(f"local method {asked.method!r} is not allowed here, only {listed(self.methods)}")
        if asked.made[0] > self.rounds:
            raise Refused(f"round {asked.made[0]} is not allowed here, at most {self.rounds}")

    def check_hours(self) -> None:
        """Raise `Refused` at a time of the day at which the node does not answer."""
        if self.hours is not None and not in_hours(self.hours, datetime.now().hour):
            raise Refused(f"this node answers from {self.hours[0]} to {self.hours[1]} o'clock only")

    def _check_tables(self, given: dict, own: dict) -> None:
        for name in ("problem", "split"):
            if given.get(name) != own.get(name):
                raise Refused(f"[{name}] is another one than this node's: its data are those of its own configuration")
        run = given.get("run", {})
        if (run.get("start") if isinstance(run, dict) else None) != own["run"].get("start"):
            raise Refused("[run] start is another one than this node's: its files are those of its own configuration")
        rest = [table for key, table in given.items() if key not in ("name", "problem", "split")]
        for name in sorted(names_of_classes(rest) - {*self.algorithms}):
            place = name.rpartition(":")[0]
            if place.endswith(".py") or place.split(".")[0] not in self.packages:
                raise Refused(f"class {name!r} is of no package that is allowed here")

    def _check_function(self, name: str) -> None:
        if name not in self.metrics:
            raise Refused(f"the {name} of this client may not be asked for, only {listed(self.metrics)}")

    def _check_data(self, experiment: Experiment, built: Built) -> None:
        if not self.rows_told and getattr(experiment.problem, "weights", "") == "size":
            raise Refused("weights = 'size' needs the number of rows, which this node does not tell")
        run, problem = experiment.run, built.problem
        if problem.remote:
            metrics = wanted_metrics(problem, experiment.target, run.metrics, built.test, built.held_out)
            for name in asked_for(metrics):
                self._check_function("accuracy" if name == "accuracies" else name)

    def _check_privacy(self, experiment: Experiment) -> None:
        privacy = experiment.privacy
        if self.epsilon is None:
            return
        if privacy is None or privacy.model != "local":
            raise Refused("this node needs [privacy] with model = 'local'")
        if privacy.seed is not None:
            raise Refused("[privacy] seed lets whoever knows it remove the noise: leave it out")


def listed(names: Sequence[str]) -> str:
    """Return names in a sentence."""
    return ", ".join(names) or "none"


def kinds_in(value: Any) -> Iterator[dict]:
    """Yield the tables with a kind in `value`."""
    if isinstance(value, dict) and "kind" in value:
        yield value
    for part in parts_of(value):
        yield from kinds_in(part)


def names_of_classes(value: Any) -> set[str]:
    """Return the strings in `value` that may name classes of a user's own."""
    if isinstance(value, str):
        return {value} if ":" in value else set()
    return set().union(*map(names_of_classes, parts_of(value)))


def parts_of(value: Any) -> list:
    """Return the values in a table or a list."""
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def within(value: Any, low: float, high: float) -> bool:
    """Return whether a value is a number from `low` to `high`, or a list of such numbers.

    Args:
        value: The value.
        low: Smallest number.
        high: Largest number.
    """
    if isinstance(value, list):
        return all(within(part, low, high) for part in value)
    return type(value) in (int, float) and low <= value <= high


def in_hours(hours: list[int], hour: int) -> bool:
    """Return whether an `hour` of the day is one of `hours`, which may go over midnight.

    Args:
        hours: The first hour, and the one after the last.
        hour: Hour of the day.
    """
    first, end = hours
    return first <= hour < end if first <= end else hour >= first or hour < end
