"""The summary of a run as JSON: its configuration, costs and final metrics."""

import dataclasses
import json
from importlib.metadata import version
from typing import Any

import jax
import numpy as np

from turnout.devices import Devices
from turnout.experiment.experiment import Experiment
from turnout.experiment.provenance import provenance, versions
from turnout.experiment.registry import fields_of
from turnout.experiment.result_types import Confusion, ProblemFacts, RunSummary, SamplerFacts, Table, TargetFacts
from turnout.hubs import Hubs
from turnout.io.json_text import plain
from turnout.problems.base import Problem
from turnout.problems.grouped import ungrouped
from turnout.problems.storage.client_rows import columns_of
from turnout.runs.clients_frame import tabulates
from turnout.runs.session import Session
from turnout.runs.trace import Trace
from turnout.samplers.base import samplers_in

MOST_CLASSES = 50
"""The most classes of which a summary has a confusion table."""


def summarise(experiment: Experiment, problem: Problem, trace: Trace, command: str, seconds: float) -> RunSummary:
    """Return the summary of a run that has ended.

    Args:
        experiment: The configuration.
        problem: The problem.
        trace: Trace of the run.
        command: The command line, for the summary.
        seconds: Duration of the run in seconds.
    """
    sampler = samplers_in(experiment.algorithm)[0]
    return {
        "name": trace.label,
        "turnout": version("turnout"),
        "versions": versions(),
        **provenance(),
        "device": jax.devices()[0].device_kind,
        "command": command,
        "status": "diverged" if trace.diverged is not None else "finished" if trace.met is None else "stopped at the target",
        "diverged": trace.diverged,
        "seeds": {
            "run": experiment.run.seed,
            **vars(experiment.run.purpose_seeds()),
            "split": getattr(experiment.split, "seed", None),
        },
        "problem": ProblemFacts(**{**shown(experiment.problem), "clients": problem.clients, **_sizes(problem, trace.x)}),
        "split": experiment.split and shown(experiment.split),
        "sampler": SamplerFacts(
            **{
                **shown(sampler),
                "design": type(sampler).__doc__.splitlines()[0],
                "replacement": sampler.replacement,
                "weights": sampler.weights,
                "selection": next((site.selection for site in trace.sites), None),
            }
        ),
        "algorithm": Table(**{key: value for key, value in shown(experiment.algorithm).items() if key != "sampler"}),
        "precision": experiment.run.precision,
        "engine": experiment.run.engine,
        "aggregation": shown(experiment.run.aggregation),
        "exchange": experiment.exchange and {name: shown(part) for name, part in vars(experiment.exchange).items()},
        "faults": dataclasses.asdict(experiment.faults) if experiment.faults else None,
        "groups": experiment.groups.table(),
        "devices": shown_table(experiment.devices),
        "hubs": shown_table(experiment.hubs),
        "rounds": int(trace.columns["round"][-1]),
        "ledger": {"totals": trace.ledger.totals(), "sites": trace.ledger.rows()},
        "metrics": trace.metrics,
        "target": target_costs(experiment, trace),
        "prices": [shown(price) for price in experiment.prices],
        "seconds": round(seconds, 3),
    }


def confusion_of(session: Session) -> dict[str, Confusion]:
    """Return the entry "confusion" of a summary: rows by their class and the predicted one; empty where that makes no table.

    Args:
        session: The session of a run that has ended.
    """
    test = session.further["test"]
    problem = test or ungrouped(session.problem)
    if not tabulates(problem) or len(problem.codes) > MOST_CLASSES or columns_of(problem.rows) is not None:
        return {}
    frame = session.trace.confusion
    rows = "test rows" if test else "rows of all clients"
    return {"confusion": {"of": rows, "predicted": frame.columns[1:], "counts": {name: counts for name, *counts in frame.rows()}}}


def to_json(facts: dict) -> str:
    """Write facts as JSON."""
    return json.dumps(facts, indent=2, default=plain) + "\n"


def target_costs(experiment: Experiment, trace) -> TargetFacts | None:
    """Return the cost to the target under every configured price; None without a target.

    Args:
        experiment: The configuration.
        trace: Trace of the run.
    """
    target = experiment.target
    if target is None:
        return None
    hit = target.first_hit(trace.columns)
    return {
        "metric": target.metric,
        "below": target.below,
        "reached": hit is not None,
        "round": None if hit is None else int(trace.columns["round"][hit]),
        "costs": {price.label: trace.cost(price) for price in experiment.prices},
    }


def shown(value) -> Any:
    """Return a configured record, and the records in it, as dictionaries with their kinds first; other values unchanged."""
    if isinstance(value, list):
        return [shown(part) for part in value]
    if not dataclasses.is_dataclass(value):
        return value
    kind, fields = fields_of(value)
    return {"kind": kind, **{name: shown(part) for name, part in fields.items()}}


def shown_table(table: Devices | Hubs | None) -> dict | None:
    """Return what is configured of the devices or hubs.

    Args:
        table: The devices or hubs; None without any.
    """
    return None if table is None else {name: shown(value) for name, value in vars(table).items() if value is not None}


def _sizes(problem: Problem, x) -> dict[str, Any]:
    sizes = problem.sizes
    return {
        "rows": int(sizes.sum()),
        "parameters": int(sum(np.size(leaf) for leaf in jax.tree.leaves(x))),
        "rows_per_client": {
            "smallest": int(sizes.min()),
            "median": float(np.median(sizes)),
            "largest": int(sizes.max()),
        },
    }
