"""The pages of the reference: every public name, with its docstring and its code."""

import inspect
import sys
from collections import Counter
from types import ModuleType

import algorithm_page
import catalogue

import turnout
import turnout.data
import turnout.data.splits
import turnout.testing

TOPICS = {
    "Running": ("runs", "planner", "studies", "accounting", "report", "io", "experiment"),
    "Problems": ("problems", "data"),
    "Samplers": ("samplers",),
    "Estimators": ("estimators",),
    "Exchanges": ("codecs", "devices", "engines", "hubs", "privacy"),
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
    "Exports": (turnout.export, "turnout.export"),
    "Data sets": (turnout.data, "turnout.data"),
    "Splits": (turnout.data.splits, "turnout.data.splits"),
    "Checks": (turnout.testing, "turnout.testing"),
}
"""Modules of parts with a page each, and how a program calls them."""


def pages() -> dict[str, str]:
    """Return all pages by their paths."""
    made = {catalogue.PAGE: catalogue.page(algorithms())}
    made |= {file("algorithms", name): one(name, cls) for name, cls in algorithms().items()}
    made |= {file(title): page(title, names, "turnout", "t") for title, names in topics().items()}
    made |= {file(title): page(title, public(module), module.__name__, called) for title, (module, called) in MODULES.items()}
    return made


def navigation() -> list:
    """Return the entries of all pages."""
    return [
        *({title: file(title)} for title in topics()),
        *({title: file(title)} for title in MODULES),
        {"Algorithms": [{"All algorithms": catalogue.PAGE}, *({family: entries(members)} for family, members in members_of())]},
    ]


def members_of():
    """Return the families of algorithms with their members."""
    return catalogue.families(algorithms()).items()


def entries(members: dict[str, type]) -> list[dict[str, str]]:
    """Return the entries of some algorithms."""
    return [{name: file("algorithms", name)} for name in members]


def algorithms() -> dict[str, type]:
    """Return the algorithms by name."""
    found = {name: target for name, target in names().items() if package(target) == "algorithms"}
    return dict(sorted(found.items(), key=lambda pair: pair[0].lower()))


def by_source() -> dict[str, str]:
    """Return the pages of algorithms by the files that have them, where a file has one algorithm."""
    counts = Counter(cls.__module__ for cls in algorithms().values())
    return {
        f"src/{cls.__module__.replace('.', '/')}.py": file("algorithms", name)
        for name, cls in algorithms().items()
        if counts[cls.__module__] == 1
    }


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
    """Return the public classes and functions of a module or package."""
    found = {name: getattr(module, name) for name in getattr(module, "__all__", None) or dir(module) if not name.startswith("_")}
    return sorted(name for name, value in found.items() if callable(value) and value.__module__.startswith(module.__name__))


def package(target) -> str:
    """Return the package of turnout that a class or function is in."""
    return target.__module__.split(".")[1]


def file(*words: str) -> str:
    """Return the path of a page."""
    return "/".join(("reference", *(word.lower().replace(" ", "-") for word in words))) + ".md"


def one(name: str, cls: type) -> str:
    """Return the page of an algorithm."""
    return f"{described('turnout', name)}    options:\n      heading_level: 1\n\n{algorithm_page.rest(name, cls)}"


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
    """Return the directive for the docstring and the code of a name, which has an example."""
    if ">>> " not in (getattr(sys.modules[module], name).__doc__ or ""):
        raise LookupError(f"the docstring of {module}.{name} has no example: write one")
    return f"::: {module}.{name}\n"
