"""`Experiment`: one configuration as records, and back to TOML."""

import dataclasses
from typing import Any

import tomli_w

from turnout.accounting.prices import Exchanges, Price
from turnout.accounting.target import Target
from turnout.codecs import Exchange
from turnout.core.algorithm import Algorithm
from turnout.core.records import Index, config
from turnout.core.seeds import Seeds
from turnout.devices import Devices
from turnout.engines.faults import Faults
from turnout.experiment.federation_spec import FederationSpec
from turnout.experiment.groups_spec import GroupsSpec
from turnout.experiment.registry import fields_of
from turnout.hubs import Hubs
from turnout.optimisers import AutoLr
from turnout.privacy.mechanism import Privacy
from turnout.problems.base import Precision
from turnout.runs.options import RunOptions


@config
class RunSpec(RunOptions):
    """The table [run]: the fields of `RunOptions` that a file can name, and a seed for each purpose.

    Args:
        sampling_seed: Seed of cohorts; default: `seed`, as of the other three.
        local_seed: Seed of the clients' randomness.
        model_seed: Seed of the initial parameters.
        faults_seed: Seed of lost replies.
        timing: Whether a command says where its seconds went, as with --timing.
    """

    rounds: Index = 100
    precision: Precision = "double"
    start: str | None = None
    metrics: list[str] | None = None
    sampling_seed: Index | None = None
    local_seed: Index | None = None
    model_seed: Index | None = None
    faults_seed: Index | None = None
    timing: bool = False

    def purpose_seeds(self) -> Seeds:
        """Return the seed of each purpose."""
        given = (self.sampling_seed, self.local_seed, self.faults_seed, self.model_seed)
        return Seeds(*(self.seed if seed is None else seed for seed in given))


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One configuration.

    Args:
        name: The name of the run.
        problem: The `[problem]` table, a record with `build`.
        split: The `[split]` table; None for problems without data.
        algorithm: The algorithm, with its sampler.
        run: The options of the run.
        target: The target, if there is one.
        prices: The prices to report.
        exchange: Codecs of messages and replies.
        faults: Lost replies, and what is done about them.
        groups: Groups of leaves of the model, if configured.
        devices: Speeds of the clients' devices, if configured.
        hubs: Hubs between the server and the clients, if configured.
        privacy: Clipping and noise, if configured.
        sweep: The values of each swept setting, by its dotted name.
        federation: What only the server of a federation has to know.
    """

    name: str
    problem: Any
    split: Any
    algorithm: Algorithm
    run: RunSpec = RunSpec()
    target: Target | None = None
    prices: tuple[Price, ...] = (Exchanges(),)
    exchange: Exchange | None = None
    faults: Faults | None = None
    groups: GroupsSpec = GroupsSpec()
    devices: Devices | None = None
    hubs: Hubs | None = None
    privacy: Privacy | None = None
    sweep: dict[str, list] = dataclasses.field(default_factory=dict)
    federation: FederationSpec | None = None

    def to_toml(self) -> str:
        """Return the complete configuration with all defaults; fields that are None are left out."""
        return tomli_w.dumps(self.tables())

    def tables(self) -> dict[str, Any]:
        """Return the tables of the complete configuration."""
        algorithm = _table(self.algorithm)
        tables = {
            "name": self.name,
            "problem": _table(self.problem),
            "split": _table(self.split),
            "sampler": _sampler_in(algorithm),
            "algorithm": algorithm,
            "run": _without_none({f.name: _table(getattr(self.run, f.name)) for f in dataclasses.fields(self.run) if f.repr}),
            "target": _fields(self.target),
            "price": [_table(price) for price in self.prices],
            "exchange": _fields(self.exchange),
            "faults": _fields(self.faults),
            "groups": self.groups.table(),
            "devices": _fields(self.devices),
            "hubs": _fields(self.hubs),
            "privacy": _fields(self.privacy),
            "sweep": self.sweep or None,
            "federation": _fields(self.federation),
        }
        return _without_none(tables)


def _sampler_in(algorithm: dict[str, Any]) -> dict[str, Any]:
    """Take the sampler out of the table of an algorithm, or of the one inside it, and return it."""
    return algorithm.pop("sampler") if "sampler" in algorithm else _sampler_in(algorithm["algorithm"])


def _without_none(values: dict) -> dict:
    return {key: value for key, value in values.items() if value is not None}


def _fields(record) -> dict[str, Any] | None:
    """Return the fields of a record that are set, as tables; None without a record."""
    return None if record is None else _without_none({name: _table(value) for name, value in vars(record).items()})


def _table(value) -> Any:
    """Return a record, and the records in it, as tables with their kinds; other values unchanged."""
    if isinstance(value, list):
        return [_table(part) for part in value]
    if isinstance(value, AutoLr):
        return "auto"
    if not dataclasses.is_dataclass(value):
        return value
    kind, fields = fields_of(value)
    return {"kind": kind, **{key: _table(part) for key, part in _without_none(fields).items()}}
