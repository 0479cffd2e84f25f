"""Docstrings of public names list their parameters, and the examples in docstrings run."""

import doctest
import importlib
import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import turnout
from tests.helpers.site_hooks import hook

REFERENCE = hook("reference")
SOURCE = Path(turnout.__file__).parent
PUBLIC = [name for name in turnout.__all__ if callable(getattr(turnout, name)) and not inspect.ismodule(getattr(turnout, name))]


def parameters(target) -> list[str]:
    """Return the names that the docstring of a public class or function must explain; hidden fields are not the user's."""
    if is_dataclass(target):
        return [field.name for field in fields(target) if field.init and field.repr and field.name != "kind"]
    if inspect.isclass(target) and (target.__init__ is object.__init__ or issubclass(target, Exception)):
        return []
    names = [parameter.name for parameter in inspect.signature(target).parameters.values()]
    return [name for name in names if name not in ("self", "args", "kwargs")]


def explained(docstring: str) -> list[str]:
    """Return the names in the section `Args:` of a docstring."""
    section = re.search(r"^Args:\n((?:[ ]{4,}.*\n|\n)*)", inspect.cleandoc(docstring) + "\n", flags=re.MULTILINE)
    return re.findall(r"^ {4}\**(\w+)(?: \(.*?\))?:", section[1], flags=re.MULTILINE) if section else []


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_docstring_explains_every_parameter(name):
    target = getattr(turnout, name)
    docstring = vars(target).get("__doc__") if inspect.isclass(target) else target.__doc__
    assert docstring and not docstring.startswith(f"{name}("), "there is no docstring"
    missing = [parameter for parameter in parameters(target) if parameter not in explained(docstring)]
    assert not missing, f"Args: of {name} lacks {', '.join(missing)}"


def test_a_public_docstring_has_an_example():
    """Also those of modules of parts, which have pages of the reference too."""
    modules = [turnout, *(module for module, _ in REFERENCE.MODULES.values())]
    names = [(module, name) for module in modules for name in (PUBLIC if module is turnout else REFERENCE.public(module))]
    missing = [f"{module.__name__}.{name}" for module, name in names if ">>> " not in (getattr(module, name).__doc__ or "")]
    assert len(names) > 200 and not missing


WITH_EXAMPLES = sorted(path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text() and "template" not in path.parts)


@pytest.mark.tiers(
    quick=[],
    longer=["c[!l]*", "data/*", "devices/*", "hubs/*", "privacy/*"],
    slow=["algorithms/fed*", "problems/*", "runs/*", "samplers/*"],
)
@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_examples_of_a_module_run(path):
    module = importlib.import_module(
        ".".join(("turnout", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    )
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    for example in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(example, out=report.append)
    assert runner.tries and not runner.failures, "".join(report)
