"""Mutation testing: `python -m tests.helpers.mutants` counts the changes of single expressions that tests notice.

Cosmic Ray makes the mutants. Its own runner starts Python for each of them; here a child that has already imported JAX is forked,
which reads the mutant from memory, so that no file changes.
"""

import argparse
import ast
import importlib
import io
import os
import random
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.machinery import SourceFileLoader
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from hypothesis import HealthCheck, Phase, settings

from tests.helpers.mutated_modules import MODULES

IMPORTED_ONCE = ("jax", "scipy.optimize", "scipy.stats", "optax", "equinox", "pydantic")
"""Slow imports, of which none imports turnout and none computes with JAX, so that a child can be forked after them."""

# Whether a test fails is all that counts, so that no smaller example is looked for.
PHASES = [Phase.explicit, Phase.generate]
settings.register_profile("mutants", deadline=None, derandomize=True, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])

FAMILIES = (
    {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"},
    {"BitOr", "BitAnd", "BitXor"},
    {"LShift", "RShift"},
    {"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"},
    {"Is", "IsNot"},
)
"""An operator is replaced by others of its family: those of another family end with a `TypeError` at once."""

FREE_DECORATORS = re.compile("cache|jit|dataclass_transform|runtime_checkable")
"""Decorators that change the speed or the types alone."""


class Mutant(NamedTuple):
    """A changed line of a module."""

    line: int
    before: str
    after: str
    code: str


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield the mutants of a module, but none in annotations and f-strings."""
    source = path.read_text()
    tree = get_ast(source)
    for name in operator_names():
        kind = get_operator(name)
        if kind.arguments() or not _is_in_family(name):
            continue
        operator, places = kind(), []
        for node in ast_nodes(tree):
            places += [node] * len(list(operator.mutation_positions(node)))
        for occurrence, node in enumerate(places):
            code = mutate_code(source, kind(), occurrence)
            if _is_checked(node) and _is_python(code):
                line = node.start_pos[0]
                before, after = (text.split("\n")[line - 1].strip() for text in (source, code))
                yield Mutant(line, before, after, code)


def _is_in_family(name: str) -> bool:
    """Return whether an operator replaces one of a family by another of it, or is of another kind."""
    replaced = re.fullmatch(r"core/Replace(?:Binary|Comparison)Operator_(\w+)_(\w+)", name)
    return replaced is None or any(set(replaced.groups()) <= family for family in FAMILIES)


def _is_checked(node) -> bool:
    """Return whether behaviour depends on a node of the syntax tree: not on annotations, messages and free decorators."""
    while node.parent is not None:
        parent, before = node.parent, node.get_previous_sibling()
        annotates = (parent.type in ("annassign", "tfpdef") and before == ":") or (parent.type == "funcdef" and before == "->")
        free = node.type == "decorator" and FREE_DECORATORS.search(node.get_code())
        asserts = node.type == "argument" and node.children[0].get_code().strip() == "strict"
        if annotates or free or asserts or node.type == "fstring":
            return False
        node = parent
    return True


def _is_python(code: str) -> bool:
    try:
        return bool(ast.parse(code))
    except SyntaxError:
        return False


def tested(path: Path, code: str, tests: list[str], show: bool) -> None:
    """Run tests with the module at `path` made of `code`; exit with pytest's exit status, or `UNUSED`."""
    original, used = SourceFileLoader.get_code, []

    def get_code(self, name):
        if self.path != str(path.resolve()):
            return original(self, name)
        used.append(name)
        return self.source_to_code(code.encode(), self.path)

    SourceFileLoader.get_code = get_code
    alone = ["-p", "no:xdist", "-p", "no:cacheprovider", "-W", "ignore:Module already imported", "--hypothesis-profile=mutants"]
    options = ["-x", "-q", *alone, "-o", "addopts=", "-m", "not everything"]
    with redirect_stdout(sys.stdout if show else io.StringIO()), redirect_stderr(sys.stderr if show else io.StringIO()):
        status = pytest.main([*options, *tests])
    os._exit(status if used else UNUSED)


UNUSED = 100
"""The exit status of tests that do not import the module."""


def status_of(path: Path, code: str, tests: list[str], seconds: float | None, show: bool = False) -> int | None:
    """Return the exit status of `tested` in a process of its own, or None after so many seconds."""
    process = get_context("fork").Process(target=tested, args=(path, code, tests, show))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return process.exitcode


def survivors(path: Path, tests: list[str], chosen: list[Mutant]) -> list[Mutant]:
    """Return the mutants with which all tests pass. A mutant that takes ten times as long as the module has an endless loop."""
    start = time.monotonic()
    if status_of(path, path.read_text(), tests, None, show=True) != 0:
        sys.exit(f"{' '.join(tests)} fail without a mutant, or do not import {path}: correct them first")
    seconds = 30 + 10 * (time.monotonic() - start)
    return [one for one in chosen if status_of(path, one.code, tests, seconds) == 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, required=True, help="mutants of each module, at random with a fixed seed")
    parser.add_argument(
        "modules", nargs="*", default=list(MODULES), help="modules below src/turnout, by default all of the table"
    )
    arguments = parser.parse_args()
    for name in IMPORTED_ONCE:
        importlib.import_module(name)
    killed = total = 0
    for module in arguments.modules:
        path = Path("src/turnout") / module
        everything = sorted(mutants(path))
        chosen = random.Random(module).sample(everything, len(everything))[: arguments.sample]
        left = survivors(path, shlex.split(MODULES[module]), sorted(chosen))
        killed, total = killed + len(chosen) - len(left), total + len(chosen)
        print(f"{module}: {len(chosen) - len(left)} of {len(chosen)} killed, {len(everything)} in all", flush=True)
        for one in left:
            print(f"    {one.line}: {one.before}\n    {' ' * len(str(one.line))}→ {one.after}", flush=True)
    print(f"{killed} of {total} killed ({killed / total:.1%})")


if __name__ == "__main__":
    main()
