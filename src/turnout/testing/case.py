"""A part under test: an algorithm on a small problem, with the runs that several checks share."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import NamedTuple, NoReturn

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.engines.nodes import Nodes
from turnout.io.serialization import Buffer
from turnout.problems.base import Problem
from turnout.problems.grouped import with_groups
from turnout.runs.session import Session
from turnout.runs.setup import scope
from turnout.runs.trace import Trace

ROUNDS = 3
"""Rounds of every run."""

SEED = 4


class Request(NamedTuple):
    """One message that a node got and its reply, as bytes; `made` is the round and the exchange."""

    made: tuple[int, int]
    client: int
    method: str
    message: bytes
    reply: bytes


class Case:
    """An algorithm and a problem, with the runs that the checks compare; each is played once.

    Args:
        algorithm: The algorithm, with the sampler and all other parts that it is to be checked with.
        problem: A small problem that has a smooth loss.
        name: What error messages call the part under test; the class of `algorithm` unless given.
    """

    def __init__(self, algorithm: Algorithm, problem: Problem, name: str | None = None):
        self.algorithm, self.problem = algorithm, problem
        self.name = name or type(algorithm).__name__

    def session(self, algorithm: Algorithm | None = None, seed: int = SEED, rounds: int = ROUNDS, **options) -> Session:
        """Return a run that is not played yet."""
        return Session(algorithm or self.algorithm, self.problem, seed=seed, rounds=rounds, **options)

    def run(self, algorithm: Algorithm | None = None, **options) -> Trace:
        """Play a run to its end."""
        return self.session(algorithm, **options).run().trace

    @cached_property
    def compiled(self) -> Trace:
        """The run of the compiled engine."""
        return self.run()

    @cached_property
    def _recorded(self) -> tuple[Trace, list[Request]]:
        requests: list[Request] = []
        return self.run(deployed=partial(recording, self._grouped, requests)), requests

    @property
    def nodes(self) -> Trace:
        """The same run on separate nodes, whose replies arrive in a shuffled order."""
        return self._recorded[0]

    @property
    def requests(self) -> list[Request]:
        """What the nodes of that run received and sent."""
        return self._recorded[1]

    @property
    def start(self) -> PyTree:
        """The first parameters."""
        with scope(self.problem.precision):
            return self._grouped.start(jax.random.key(SEED))

    @property
    def _grouped(self) -> Problem:
        """The problem with the groups that the algorithm asks for."""
        return with_groups(self.problem, self.algorithm.model_groups, self.name)

    @property
    def tolerance(self) -> float:
        """How far numbers of two engines may differ, relative to 1 or their size."""
        return 1e-10 if self.problem.precision == "double" else 1e-4

    def fail(self, sentence: str) -> NoReturn:
        """Raise `UserError` about the part under test."""
        raise UserError(f"{self.name} {sentence}")

    def require_same(self, one: Trace, other: Trace, sentence: str, tolerance: float = 0.0) -> None:
        """Raise `UserError` with `sentence` where two runs differ in their parameters or in their ledgers."""
        if not np.array_equal(one.columns["counts"], other.columns["counts"]):
            ours, theirs = one.ledger.totals(), other.ledger.totals()
            event = next((name for name in ours if ours[name] != theirs[name]), "the order of")
            self.fail(f"{sentence}: their ledgers differ in {event}, {ours.get(event)} against {theirs.get(event)}")
        gap = distance(one.x, other.x)
        if not gap <= tolerance:
            self.fail(f"{sentence}: their parameters differ by {gap:.1e}")


def recording(problem: Problem, requests: list[Request], *arguments) -> Nodes:
    """Return the engine of separate nodes, which adds what they receive and send to `requests`."""
    engine = Nodes(problem, *arguments)
    for node in engine.nodes:
        node.answer = partial(_record, node.answer, node.number, requests)
    return engine


def _record(
    answer: Callable, client: int, requests: list[Request], header: bytes, body: Buffer, digest: bytes | None = None
) -> bytes:
    reply, marks = answer(header, body, digest), json.loads(header)
    requests.append(Request(tuple(marks["made"]), client, marks["method"], bytes(body), bytes(reply)))
    return reply


def distance(one: PyTree, other: PyTree) -> float:
    """Return the largest difference of two entries, relative to their size where that is above 1; NaN counts as infinite."""
    gaps = [
        np.max(np.abs(np.asarray(a) - np.asarray(b)) / np.maximum(1, np.abs(b)), initial=0)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    ]
    gap = float(np.max(gaps, initial=0))
    return np.inf if np.isnan(gap) else gap


def varied(record):
    """Return the record with its own numbers changed a little, where their bounds allow; a sweep may change these."""
    for name, value in numbers(record).items():
        for other in (value + 1, value - 1) if isinstance(value, int) else (0.9 * value, 1.1 * value):
            try:
                record = replace(record, **{name: other})
                break
            except UserError:
                continue
    return record


def numbers(record) -> dict[str, float]:
    """Return the fields of a record that are numbers and part of no shape."""
    values = {f.name: getattr(record, f.name) for f in fields(record) if f.init and f.repr and not f.metadata.get("static")}
    return {name: value for name, value in values.items() if type(value) in (int, float)}
