"""The public surface: names of classes and functions, kinds and keys of configurations, commands and options.

`python -m tests.helpers.surface` writes it to tests/public_surface.txt, before a release.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from pkgutil import iter_modules

import turnout
from turnout.cli import command_line
from turnout.experiment.schema import schema

FILE = Path(__file__).parents[1] / "public_surface.txt"
PACKAGES = (
    "turnout", "turnout.client_solvers", "turnout.codecs", "turnout.data", "turnout.data.splits", "turnout.devices",
    "turnout.estimators", "turnout.optimisers", "turnout.privacy", "turnout.problems", "turnout.samplers", "turnout.solvers",
    "turnout.testing", "turnout.theory", "turnout.vectors",
)  # fmt: skip


def surface() -> list[str]:
    """All names that a user may write."""
    return sorted({*names(), *keys(), *options()})


def names() -> Iterator[str]:
    """Names in packages."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        # Without a list, what it defines and its modules: which others show depends on what was imported.
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == package]
        named = getattr(module, "__all__", None) or [*own, *(found.name for found in iter_modules(module.__path__))]
        yield from (f"{package}.{name}" for name in named if not name.startswith("_"))


def keys() -> Iterator[str]:
    """Keys of configurations."""
    made = schema()
    for table, content in made["properties"].items():
        yield f"[{table}]"
        yield from (f"[{table}] {key}" for key in content.get("properties", {}))
    for table, content in made["$defs"].items():
        for case in content["anyOf"][-1]["allOf"]:
            kind = case["then"]["properties"]["kind"]["const"]
            yield f"{table} {kind}"
            yield from (f"{table} {kind} {key}" for key in case["then"]["properties"] if key != "kind")


def options() -> Iterator[str]:
    """Commands, and their options."""
    commands = {f"turnout {name}": command for name, command in command_line().commands.items()}
    for name, command in [*commands.items()]:
        commands |= {f"{name} {inner}": one for inner, one in getattr(command, "commands", {}).items()}
    for name, command in commands.items():
        yield name
        yield from (f"{name} {option}" for parameter in command.params for option in parameter.opts if option.startswith("--"))


if __name__ == "__main__":
    FILE.write_text("\n".join(surface()) + "\n")
    print(f"{len(surface()):,} names of turnout {turnout.__version__} in {FILE}")
