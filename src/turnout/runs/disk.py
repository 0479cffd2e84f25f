"""Runs whose clients are not in memory: when that is, on whom f is evaluated, and what does not go with it."""

from dataclasses import fields, replace

import numpy as np
from jaxtyping import Int

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.problems.base import Population, Problem
from turnout.problems.storage.client_rows import columns_of
from turnout.runs.options import RunOptions
from turnout.samplers.base import Sampler
from turnout.samplers.indexed import FROM, indexed


def on_disk(problem: Problem, options: RunOptions) -> bool:
    """Return whether rows and states of clients are read when they are drawn.

    Args:
        problem: The problem.
        options: Options of the run.
    """
    return columns_of(problem.rows) is not None and options.storage != "memory" and options.engine == "compiled"


def sampled(problem: Problem, options: RunOptions) -> bool:
    """Return whether f is evaluated on some of the clients only."""
    return options.evaluate is not None and options.evaluate < problem.clients


def sample_of(problem: Problem, options: RunOptions) -> Int[np.ndarray, " e"] | None:
    """Return the clients on which f is evaluated, each set of that size being equally likely; None for all."""
    if not sampled(problem, options):
        return None
    generator = np.random.default_rng(options.purpose_seeds().sampling)
    return np.sort(generator.choice(problem.clients, options.evaluate, replace=False, shuffle=False)).astype(np.int32)


def with_indexes(algorithm: Algorithm, population: Population, held: list) -> Algorithm:
    """Return an algorithm whose samplers draw from an index, where there are very many clients and it can hold their scores.

    Args:
        algorithm: The algorithm, bound to the problem.
        population: The clients.
        held: Gets the indexes, and has to live as long as the run.
    """
    if population.count < FROM or algorithm.addressed.places:
        return algorithm
    parts = {f.name: getattr(algorithm, f.name) for f in fields(algorithm) if f.init}
    samplers = {name: indexed(part, population, held) for name, part in parts.items() if isinstance(part, Sampler)}
    return replace(algorithm, **samplers)


def refuse_disk(problem: Problem, options: RunOptions, *, swept: bool, meshed: bool) -> None:
    """Raise `UserError` where rows cannot be read when clients are drawn, as asked.

    Args:
        problem: The problem.
        options: Options of the run.
        swept: Whether it is a sweep.
        meshed: Whether it is spread over devices.
    """
    there = columns_of(problem.rows) is not None
    if options.storage == "disk" and not there:
        raise UserError("storage = 'disk' needs rows in a client file: write one by turnout data write, or leave storage out")
    if options.evaluate is not None and not on_disk(problem, options):
        raise UserError("evaluate is for storage = 'disk': leave it out, and f is evaluated on all clients")
    if not on_disk(problem, options):
        return
    if sampled(problem, options) and options.evaluate == 1:
        raise UserError("evaluate = 1 leaves no standard error: take 2 clients or more")
    for what, wrong in {"a sweep": swept, "a mesh of devices": meshed}.items():
        if wrong:
            raise UserError(f"{what} does not go with clients on disk: set storage = 'memory', or play single runs on one device")
