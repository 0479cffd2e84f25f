"""The pages of the reference: every public name, with its docstring and its code."""

import ast
import doctest
import inspect
from types import ModuleType

import mathematics
import turnout
import turnout.data
import turnout.data.splits
import turnout.testing
from turnout.core.seeds import Seeds
from turnout.experiment.describe import plan_for
from turnout.experiment.registry import TABLES
from turnout.report.plan import Grid, NamedPlan, calls, markdown

KINDS = {cls: kind for kinds in TABLES.values() for kind, cls in kinds.items()}
"""The name of each class in configurations."""

TOPICS = {
    "Running": ("runs", "planner", "studies", "accounting", "report", "io", "experiment"),
    "Problems": ("problems", "data"),
    "Samplers": ("samplers",),
    "Estimators": ("estimators",),
    "Exchanges": ("codecs", "devices", "engines", "privacy"),
    "Writing your own": ("core", "solvers"),
}
"""The pages of names in `turnout` that are no algorithms, and the packages whose names each has."""

MODULES = {
    "Solvers": (turnout.solvers, "t.solvers"),
    "Client solvers": (turnout.client_solvers, "t.client_solvers"),
    "Optimisers": (turnout.optimisers, "t.optimisers"),
    "Schedules": (turnout.schedules, "t.schedules"),
    "Codecs": (turnout.codecs, "t.codecs"),
    "Devices": (turnout.devices, "t.devices"),
    "Trackers": (turnout.trackers, "t.trackers"),
    "Data sets": (turnout.data, "turnout.data"),
    "Splits": (turnout.data.splits, "turnout.data.splits"),
    "Checks": (turnout.testing, "turnout.testing"),
}
"""Modules of parts with a page each, and how a program calls them."""


def pages() -> dict[str, str]:
    """Return all pages by their paths."""
    made = {file("algorithms", name): one(name, cls) for name, cls in algorithms().items()}
    made |= {file(title): page(title, names, "turnout", "t") for title, names in topics().items()}
    made |= {file(title): page(title, public(module), module.__name__, called) for title, (module, called) in MODULES.items()}
    return made


def navigation() -> list:
    """Return the entries of all pages."""
    return [
        *({title: file(title)} for title in topics()),
        *({title: file(title)} for title in MODULES),
        {"Algorithms": [{name: file("algorithms", name)} for name in algorithms()]},
    ]


def algorithms() -> dict[str, type]:
    """Return the algorithms by name."""
    found = {name: target for name, target in names().items() if package(target) == "algorithms"}
    return dict(sorted(found.items(), key=lambda pair: pair[0].lower()))


def topics() -> dict[str, list[str]]:
    """Return the names on each page of names in `turnout`; every name that is no algorithm is on one."""
    left = {name: package(target) for name, target in names().items() if package(target) != "algorithms"}
    unknown = {name: where for name, where in left.items() if not any(where in packages for packages in TOPICS.values())}
    if unknown:
        raise LookupError(f"no page of the reference has {unknown}: add their packages to TOPICS")
    return {title: sorted(name for name, where in left.items() if where in packages) for title, packages in TOPICS.items()}


def names() -> dict[str, type]:
    """Return the public classes and functions of `turnout`."""
    return {name: target for name in turnout.__all__ if not inspect.ismodule(target := getattr(turnout, name))}


def public(module: ModuleType) -> list[str]:
    """Return the public classes and functions of a module."""
    defined = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    listed = getattr(module, "__all__", None) or [name for name in defined if not name.startswith("_")]
    return sorted(name for name in listed if callable(getattr(module, name)))


def package(target) -> str:
    """Return the package of turnout that a class or function is in."""
    return target.__module__.split(".")[1]


def file(*words: str) -> str:
    """Return the path of a page."""
    return "/".join(("reference", *(word.lower().replace(" ", "-") for word in words))) + ".md"


def one(name: str, cls: type) -> str:
    """Return the page of an algorithm: its docstring and code, its name in configurations, and what its example sends."""
    call, algorithm = example(name, cls)
    problem = turnout.Quadratic.random(clients=8, dimension=3, seed=0)
    devices = turnout.Devices(latency=0.1) if hasattr(algorithm, "in_flight") else None
    table = calls(NamedPlan(name, plan_for(algorithm, problem, seeds=Seeds.of(0), rounds=100, devices=devices), ()))
    return "\n\n".join([
        f"{described('turnout', name)}    options:\n      heading_level: 1",
        f'In configurations it is `kind = "{KINDS[cls]}"` of `[algorithm]` ([configuration](../../configuration.md)).',
        "## Update",
        mathematics.updates(name),
        "[Notation](../../notation.md) explains the symbols.",
        "## What a round sends",
        f"`{call}`, with eight clients and three parameters, as [`turnout describe`](../../describe.md) tells:",
        markdown(Grid("", table.headings, table.rows)).partition("\n\n")[2],
    ])  # fmt: skip


def example(name: str, cls: type) -> tuple[str, turnout.Algorithm]:
    """Return the call in the docstring's example that makes the algorithm, and the algorithm."""
    statements = ast.parse("".join(one.source for one in doctest.DocTestParser().get_examples(cls.__doc__ or ""))).body
    known: dict = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
                return ast.unparse(node), eval(compile(ast.Expression(node), name, "eval"), known)
        exec(compile(ast.Module([statement], []), name, "exec"), known)
    raise LookupError(f"the docstring of {name} has no example that makes one")


def page(title: str, listed: list[str], module: str, called: str) -> str:
    """Return a page of several names.

    Args:
        title: Its title.
        listed: The names.
        module: The module that has them.
        called: What a program writes for the module.
    """
    imported = " (`import turnout as t`)" if called.startswith("t.") or called == "t" else ""
    first = f"# {title}\n\nNames of `{called}`{imported}"
    return "\n\n".join([f"{first}.", *(described(module, name) for name in listed)])


def described(module: str, name: str) -> str:
    """Return the directive for the docstring and the code of a name."""
    return f"::: {module}.{name}\n"
