"""Options of a run: one record for `run`, `sweep`, `Session` and the table [run] of a configuration."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from jaxtyping import PyTree

from turnout.accounting.target import Target
from turnout.codecs import Exchange
from turnout.core.errors import UserError, unknown
from turnout.core.records import Count, Index, config
from turnout.core.robust_means import RobustMean
from turnout.core.seeds import Seeds
from turnout.devices import Devices
from turnout.engines.faults import Faults
from turnout.engines.inputs import Aggregation
from turnout.hubs import Hubs
from turnout.privacy.mechanism import Privacy
from turnout.problems.base import Precision, Problem
from turnout.runs.callbacks import Callback
from turnout.runs.own_metrics import Metric


@config
class RunOptions:
    """Options of a run: length, seeds, engine, precision, evaluation and faults.

    A field with `repr=False` holds an object, which the table [run] of a configuration cannot name.

    Args:
        rounds: Number of rounds to run.
        seed: Seed of all random draws: cohorts, batches, faults and initial parameters.
        every: Rounds between two rows of the trace.
        precision: "double" (64 bits), "single" (32 bits) or "mixed" (32 bits, clients in bfloat16); default: the problem's.
        engine: "compiled" (one program for the whole run) or "nodes" (separate clients, which exchange bytes).
        storage: "memory" or "disk" (rows and states of clients are read when they are drawn); default: where the rows are.
        evaluate: Number of clients, drawn once, on which f is evaluated, with standard errors; default: all. For storage "disk".
        mesh: Number of devices (accelerators, or cores) over which the compiled engine spreads the clients, or a sweep its cells.
        aggregation: "plain" (the server receives each reply), "sum" or "encrypted" (their weighted sum), or a robust mean.
        memory: Bytes of client data that one exchange processes at a time; "auto": 256 MiB, or 1/4 of an accelerator's.
        start: Initial parameters, or the file of a saved model; default: the problem's.
        metrics: Names among `turnout.engines.metrics.NAMES`, or a `Metric` of one's own; default: value and accuracy.
        seeds: A seed for each purpose, in the place of `seed`.
        target: Metric to reach; costs are counted up to there. With `target.stop` the run ends there.
        exchange: Codecs of messages and replies.
        faults: Probability that a reply is lost, and what follows.
        devices: Speeds of the clients' devices, from which the run has a clock.
        hubs: Hubs between the server and the clients, whose link to the server is counted apart.
        privacy: Differential privacy of the replies.
        test: Problem that holds the test rows.
        held_out: Problem whose clients are evaluated but never drawn.
        callbacks: What is told of the run's start, rows and end, see `Callback`; not in a sweep.
        debug: Whether rounds and clients run one by one without compilation, so that print and breakpoints work; not in a sweep.
    """

    rounds: Index
    seed: Index = 0
    every: Count = 1
    precision: Precision | None = None
    engine: Literal["compiled", "nodes"] = "compiled"
    storage: Literal["memory", "disk"] | None = None
    evaluate: Count | None = None
    mesh: Count = 1
    aggregation: Aggregation | RobustMean = "plain"
    memory: Count | Literal["auto"] = "auto"
    start: PyTree | Path | str | None = None
    metrics: tuple[str | Metric, ...] | list[str | Metric] | None = None
    seeds: Seeds | None = field(default=None, repr=False)
    target: Target | None = field(default=None, repr=False)
    exchange: Exchange | None = field(default=None, repr=False)
    faults: Faults | None = field(default=None, repr=False)
    devices: Devices | None = field(default=None, repr=False)
    hubs: Hubs | None = field(default=None, repr=False)
    privacy: Privacy | None = field(default=None, repr=False)
    test: Problem | None = field(default=None, repr=False)
    held_out: Problem | None = field(default=None, repr=False)
    callbacks: tuple[Callback, ...] | list[Callback] = field(default=(), repr=False)
    debug: bool = field(default=False, repr=False)

    def purpose_seeds(self) -> Seeds:
        """Return the seed of each purpose."""
        return self.seeds or Seeds.of(self.seed)


def with_settings(options: RunOptions | None, settings: Mapping[str, Any], without: tuple[str, ...] = ()) -> RunOptions:
    """Return `options` with the fields named in `settings` replaced; `UserError` for a name that is none, or in `without`.

    Args:
        options: The options; None for the defaults.
        settings: New values by name.
        without: Names of options that do not apply here.
    """
    if not isinstance(options, RunOptions | None):
        raise UserError(f"options of a run are a RunOptions or keywords, not {options!r}: write rounds=..., for instance")
    names = [f.name for f in fields(RunOptions) if f.name not in without]
    for name in settings:
        if name not in names:
            raise unknown("option", name, names)
    if options is not None:
        return replace(options, **settings)
    if "rounds" not in settings:
        raise UserError("rounds is missing: give the number of rounds, rounds=100 for instance")
    return RunOptions(**settings)


def takes_options(*without: str) -> Callable[[Callable], Callable]:
    """Show the options in the place of `**settings` in a function's signature and in its docstring, some left `without`."""

    def decorate(function: Callable) -> Callable:
        shown = [f for f in fields(RunOptions) if f.name not in without]
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters += [
            inspect.Parameter(
                f.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if f.default is MISSING else f.default,
                annotation=f.type,
            )
            for f in shown
        ]
        function.__signature__ = signature.replace(parameters=parameters)
        texts = dict(re.findall(r"^ +(\w+): (.*)$", RunOptions.__doc__ or "", re.MULTILINE))
        function.__doc__ = re.sub(
            r"^( +)\*\*settings: .*$",
            lambda found: "\n".join(f"{found[1]}{f.name}: {texts[f.name]}" for f in shown),
            function.__doc__ or "",
            flags=re.MULTILINE,
        )
        return function

    return decorate
