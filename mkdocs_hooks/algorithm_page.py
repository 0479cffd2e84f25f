"""The page of an algorithm after its docstring: its update, what a round sends, and a measured curve."""

import ast
import doctest
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import curves
import mathematics
from facts import fact

import turnout
from turnout.core.seeds import Seeds
from turnout.engines.cost_estimate.estimate import CostEstimate
from turnout.experiment.describe import plan_for
from turnout.experiment.registry import TABLES
from turnout.report.plan import Grid, NamedPlan, calls, markdown

KINDS = {cls: kind for kinds in TABLES.values() for kind, cls in kinds.items()}
"""The name of each class in configurations."""


class Example(NamedTuple):
    """What the example of a docstring makes.

    Args:
        call: The call that makes the algorithm.
        before: The lines that make what the call names.
        algorithm: The algorithm.
    """

    call: str
    before: str
    algorithm: turnout.Algorithm


def rest(name: str, cls: type) -> str:
    """Return the page of an algorithm without its docstring, in Markdown."""
    call, before, algorithm = example(name, cls)
    flies = hasattr(algorithm, "in_flight")
    clients = "eight clients in two hubs" if algorithm.works_in_hubs else "eight clients"
    table = known("table", name, cls, lambda: sent(name, cls))
    return "\n\n".join([
        f'In configurations it is `kind = "{KINDS[cls]}"` of `[algorithm]` ([configuration](../../configuration.md)).',
        "## Update",
        mathematics.updates(name),
        "[Notation](../../notation.md) explains the symbols.",
        "## What a round sends",
        f"`{call}`, with {clients} and three parameters, as [`turnout describe`](../../describe.md) tells:",
        table,
        *(["## A measured run", curves.section(name, call, before, flies)] if curves.drawn(algorithm) else []),
    ])  # fmt: skip


def known(what: str, name: str, cls: type, compute: Callable[[], Any]) -> Any:
    """Return compute(), which is about the example of an algorithm, or what is kept of it."""
    call, before, _ = example(name, cls)
    return fact(what, name, cls, f"{before}\n{call}", compute)


def sent(name: str, cls: type) -> str:
    """Return the table of what a round of the example sends, in Markdown."""
    table = calls(NamedPlan(name, estimated(name, cls), ()))
    return markdown(Grid("", table.headings, table.rows)).partition("\n\n")[2]


@cache
def estimated(name: str, cls: type) -> CostEstimate:
    """Return what the algorithm of the docstring's example sends, with eight clients and three parameters."""
    algorithm = example(name, cls).algorithm
    devices = turnout.Devices(latency=0.1) if hasattr(algorithm, "in_flight") else None
    hubs = turnout.Hubs(2) if algorithm.works_in_hubs else None
    return plan_for(algorithm, problem(), seeds=Seeds.of(0), rounds=100, devices=devices, hubs=hubs)


def problem() -> turnout.Problem:
    """Return the problem with eight clients and three parameters."""
    return turnout.Quadratic.random(clients=8, dimension=3, seed=0)


def assigned(statement: ast.Assign) -> list[str]:
    """Return the names that a statement gives values to."""
    return [part.id for target in statement.targets for part in ast.walk(target) if isinstance(part, ast.Name)]


@cache
def example(name: str, cls: type) -> Example:
    """Return the call in the docstring's example that makes the algorithm, with what it needs."""
    statements = ast.parse("".join(one.source for one in doctest.DocTestParser().get_examples(cls.__doc__ or ""))).body
    known: dict = {}
    before: list[ast.stmt] = []
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
                used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
                lines = [ast.unparse(one) for one in before if isinstance(one, ast.Assign) and {*assigned(one)} & used]
                made = eval(compile(ast.Expression(node), name, "eval"), known)
                return Example(ast.unparse(node), "\n".join(lines), made)
        exec(compile(ast.Module([statement], []), name, "exec"), known)
        before.append(statement)
    raise LookupError(f"the docstring of {name} has no example that makes one")
