"""Every fenced example of the documentation runs, and names in the text exist: commands, options, paths and modules."""

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import turnout
from tests.helpers.site_hooks import hook
from tests.helpers.walkthrough import blocks as fences
from turnout.cli import command_line
from turnout.experiment.config import Reader
from turnout.federation.policy_file import read_policy
from turnout.planner.task import read_task
from turnout.studies.cases import Cases
from turnout.studies.configurations import read_sources
from turnout.studies.plan import plan_of
from turnout.studies.reader import DeclarationReader

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MADE = {hook("catalogue").PAGE}
"""Pages that hooks of the site make."""

REST = {
    "problem": {"kind": "logistic", "data": "breast_cancer"},
    "split": {"kind": "iid", "clients": 10},
    "sampler": {"kind": "nice", "size": 2},
    "algorithm": {"kind": "fedavg", "lr": 0.1},
}
"""The tables that an example of a configuration may leave out."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def with_blocks(language: str):
    pages = [page for page in PAGES if blocks(page, language)]
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.name)


def text(page: Path) -> str:
    """The text of a page without its examples."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def code_spans(page: Path) -> list[str]:
    """The code in the text of a page."""
    return re.findall(r"`([^`\n]+)`", text(page))


def test_every_example_is_in_a_language_that_is_tested():
    for page in PAGES:
        assert {*re.findall(r"^```(\w*)\n(?=.)", page.read_text(), flags=re.MULTILINE)} <= {"", "python", "toml", "sh"}, page.name


@pytest.mark.tiers(quick=[], longer=["README.md", "vectors.md"], slow=["[!anps]*", "a[!d]*", "s[!c]*", "prices.md", "results.md"])
@with_blocks("python")
def test_the_python_of_a_page_runs(page, tmp_path):
    """The examples of a page are one program."""
    program = "\n".join(blocks(page, "python"))
    environment = {**os.environ, "PYTHONWARNINGS": f"error,{os.environ['PYTHONWARNINGS']}"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.tiers(slow=["studies.md"])
@with_blocks("toml")
def test_the_configurations_of_a_page_are_valid(page, tmp_path):
    for block in blocks(page, "toml"):
        if "[methods." in block:
            study = tmp_path / "study.toml"
            study.write_text(block)
            declaration = DeclarationReader(read_sources([study])).declaration()
            assert plan_of(declaration, Cases(None), "report")
            continue
        if "[plan]" in block:
            task = tmp_path / "task.toml"
            task.write_text(block)
            assert read_task(task).declaration.methods
            continue
        if block.startswith("algorithms = "):
            policy = tmp_path / "policy.toml"
            policy.write_text(block)
            assert read_policy(policy).algorithms
            continue
        tables = REST | tomllib.loads(block)
        if tables["problem"]["kind"] in ("log-sum", "chain", "remote"):
            del tables["split"]
        Reader(page.name, block, tables).experiment(page.stem)


def parse(group: click.Command, words: list[str]) -> None:
    """Parse the words after `turnout` without running the command; Click's exceptions name what is wrong."""
    if isinstance(group, click.Group):
        assert words and words[0] in group.commands, f"no command {' '.join(words)}"
        parse(group.commands[words[0]], words[1:])
    elif not any(option.is_eager and {*option.opts} & {*words} for option in group.params):
        # An eager option, which exists then, acts while it is parsed.
        group.make_context(group.name, list(words))


def check(words: list[str], group: click.Group, shown: set[str]) -> None:
    """Check one line of a shell, on a page that shows some files."""
    program, *rest = words
    if "=" in program:
        check(rest, group, shown)
    elif program == "turnout":
        parse(group, rest)
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        assert {*rest} <= {*targets}
    elif program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        named = ",".join(name for word in rest for name in re.findall(r"\[([\w,-]+)\]", word))
        assert rest[0] == "install" and {*filter(None, named.split(","))} <= {*extras}
    elif program == "python" and rest[0] == "-c":
        compile(rest[1], "example", "exec")
    elif program == "python" and rest[0] == "-m":
        place = ROOT / rest[1].replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists() or importlib.util.find_spec(rest[1])
    elif program == "python":
        assert rest[0] in shown or (ROOT / rest[0]).exists()
    else:
        assert program in ("pytest", "cd"), f"{program} is not checked"


@with_blocks("sh")
def test_the_commands_of_a_page_exist(page):
    group, shown = command_line(), {block.file for block in fences(page)}
    for line in "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            check(words, group, shown)


def test_commands_and_options_in_the_text_exist():
    group = command_line()
    for page in PAGES:
        for span in code_spans(page):
            words = re.sub(r"\[.*?\]", "", span).split()
            if words[:1] == ["turnout"] and len(words) > 1 and not words[1].startswith("-"):
                command: click.Command = group
                for word in words[1:]:
                    if isinstance(command, click.Group):
                        assert word in command.commands, f"{page.name}: {span}"
                        command = command.commands[word]
                options = {name for parameter in command.params for name in parameter.opts}
                assert {word.split("=")[0] for word in words if word.startswith("--")} <= options, f"{page.name}: {span}"


def test_paths_in_the_text_exist():
    folders = ("src/", "tests/", "docs/", "examples/", "benchmarks/", ".ci/")
    for page in PAGES:
        for span in code_spans(page):
            if span.startswith(folders) and not re.search(r"NAME|[*<]", span):
                assert (ROOT / span).exists(), f"{page.name}: {span}"


def resolve(name: str):
    """Return what a dotted name stands for; `AttributeError` if it is nothing."""
    words = name.split(".")
    value, module = turnout, "turnout"
    for word in words[1:]:
        module = f"{module}.{word}"
        if not hasattr(value, word):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError:
                raise AttributeError(f"there is no {name}") from None
        value = getattr(value, word)
    return value


def test_names_of_python_in_the_text_exist():
    for page in PAGES:
        for span in code_spans(page):
            name = re.match(r"@?((?:turnout|t)(?:\.[A-Za-z_]\w*)+)", span)
            if name and not name[1].endswith((".toml", ".md")):
                resolve(re.sub(r"^t\.", "turnout.", name[1]))


def test_links_of_a_page_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text(page)):
            assert (page.parent / target).exists() or target in MADE, f"{page.name}: {target}"


@pytest.mark.slow
def test_only_the_command_line_prints():
    source = ROOT / "src" / "turnout"
    for path in source.rglob("*.py"):
        if path.relative_to(source).parts[0] != "cli":
            calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            assert not any(getattr(call.func, "id", "") == "print" for call in calls), path


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))


@pytest.mark.tiers(quick=[], slow=["own_method"])
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path):
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    done = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
