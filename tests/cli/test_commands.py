"""The group of commands: names, order, help, version and completion, in process."""

import os
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from turnout.cli import COMMANDS, ORDER, command_line

ROOT = Path(__file__).parents[2]
WIDE = {"COLUMNS": "160", "TERMINAL_WIDTH": "160"}


@pytest.fixture(scope="module")
def group():
    return command_line()


def invoke(group, *arguments: str, **environment) -> str:
    """Run the group in process and return its output."""
    result = CliRunner().invoke(group, arguments, prog_name="turnout", env=WIDE | environment)
    assert result.exit_code == 0, result.output
    return result.output


def test_every_command_has_one_module_and_one_place_in_the_help(group):
    modules = {path.stem.replace("_", "-") for path in (ROOT / "src/turnout/cli").glob("*.py")}
    shared = {"--init--", "as-json", "options", "processes", "progress", "published", "tables", "timing"}
    assert sorted(group.commands) == sorted(ORDER) == sorted(modules - shared)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_the_commands_in_the_order_of_use(group, option):
    lines = [line.split() for line in invoke(group, option).splitlines()]
    first = [words[1] for words in lines if len(words) > 1 and words[1] in ORDER]
    titles = [panel for panel in COMMANDS if any(panel.split() == words[1 : 1 + len(panel.split())] for words in lines)]
    assert first == ORDER and titles == list(COMMANDS)


@pytest.mark.parametrize("name", ORDER)
def test_every_command_explains_itself_by_a_short_option_too(group, name):
    shown = invoke(group, name, "-h")
    assert shown == invoke(group, name, "--help") and f"turnout {name}" in shown


def test_the_version_is_that_of_the_package(group):
    assert invoke(group, "--version").split() == ["turnout", metadata("turnout")["Version"]]


def test_the_version_in_the_source_is_the_configured_one():
    import tomllib

    import turnout

    assert turnout.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


IMPORTED = """
import sys
from turnout.cli import main
sys.argv[1:] = {words!r}
try:
    main()
except SystemExit:
    print("imported", *sorted(name for name in sys.modules if name.partition(".")[0] in ("jax", "numpy", "polars", "turnout")))
"""
"""A program that runs a command and shows what it has imported."""

NO_WORK = {
    "help": (["-h"], {*ORDER}),
    "version": (["--version"], set()),
    "help-of-a-command": (["run", "-h"], {"run"}),
    "unknown-command": (["ruun"], {*ORDER}),
    "unknown-option": (["run", "--ouut", "DIR"], {"run"}),
    "missing-argument": (["describe"], {"describe"}),
}


@pytest.mark.parametrize(("words", "names"), NO_WORK.values(), ids=NO_WORK)
def test_an_answer_without_work_imports_neither_jax_nor_the_packages_of_turnout(words, names):
    done = subprocess.run([sys.executable, "-c", IMPORTED.format(words=words)], capture_output=True, text=True)
    imported = {*done.stdout.splitlines()[-1].split()[1:]}
    light = {
        "turnout",
        "turnout.core",
        "turnout.core.errors",
        *(f"turnout.cli{part}" for part in ("", ".as_json", ".options", ".timing")),
    }
    commands = {f"turnout.cli.{name.replace('-', '_')}" for name in names}
    assert commands <= imported <= light | commands | {"turnout.cli.study"}


def test_completion_imports_neither_jax_nor_the_packages_of_turnout():
    request = {"_TURNOUT_COMPLETE": "complete_bash", "COMP_WORDS": "turnout re", "COMP_CWORD": "1"}
    program = IMPORTED.format(words=[])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | request)
    assert "imported" in done.stdout and not {"jax", "numpy", "polars"} & {*done.stdout.split()}


COMPLETIONS = {"turnout re": {"register", "reproduce", "resume", "revoke"}, "turnout sweep --se": {"--set", "--seeds"}}


@pytest.mark.parametrize(("words", "answers"), COMPLETIONS.items())
def test_the_shell_completes_commands_and_options(group, words, answers):
    request = {"_TURNOUT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert set(invoke(group, **request).split()) == answers


def test_completion_can_be_installed(group):
    assert "--install-completion" in invoke(group, "-h") and "--show-completion" in invoke(group, "-h")


def test_the_licence_is_apache_2():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / project["license-files"][0]).read_text()
    assert project["license"] == "Apache-2.0" and "Apache License" in text and "END OF TERMS AND CONDITIONS" in text
    assert project["authors"] and project["urls"] and project["keywords"] and project["classifiers"]
