"""Units of systemd: systemd accepts them, and they run the command that was named, with its options."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.commands import turnout
from turnout.cli import command_line
from turnout.federation.service import quoted

COMMANDS = {
    "superlink": ("keys", "--host", "0.0.0.0"),
    "serve": ("run.toml", "--superlink", "lab:9092", "--keys", "keys", "--out", "out", "--deadline", "3"),
    "hub": ("run.toml", "--hub", "0", "--superlink", "lab:1", "--authority", "ca.crt", "--key", "key", "--keys", "keys"),
    "node": ("run.toml", "--clients", "0,2-3", *"--superlink lab:1 --authority ca.crt --key keys --states states".split()),
}
FILES = ("run.toml", "ca.crt", "key", "keys", "out", "states")
WRITTEN = {"superlink": "keys", "serve": "out", "hub": "keys", "node": "states"}


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder of files and folders, whose name systemd would read as something else."""
    folder = tmp_path / 'a %h "$HOME" \\n'
    for name in ("keys", "out", "states"):
        (folder / name).mkdir(parents=True)
    for name in ("run.toml", "ca.crt", "key"):
        (folder / name).touch()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("TURNOUT_DATA", raising=False)
    return folder


def parsed(name: str, words: list[str]) -> dict:
    """The options of a command as its parser reads them."""
    return command_line().commands[name].make_context(name, words).params


def words_of(line: str) -> list[str]:
    """The words of a line of a unit, without what protects them from systemd."""
    return [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(line)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_unit_runs_the_command_with_its_options(place, name):
    code, text, wrong = turnout("service", "--user", "daemon", name, *COMMANDS[name])
    assert (code, wrong) == (0, "")
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    program, command, *rest = words_of(lines["ExecStart"])
    assert Path(program).is_absolute() and command == name
    given = parsed(name, [*COMMANDS[name]])
    assert parsed(name, rest) == {key: str(place / value) if value in FILES else value for key, value in given.items()}
    assert words_of(lines["ReadWritePaths"]) == [str(place / WRITTEN[name])] and lines["User"] == "daemon"


@pytest.mark.longer
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here: install the package systemd")
def test_systemd_accepts_the_units(place, tmp_path):
    for name, options in COMMANDS.items():
        assert turnout("service", "--user", "daemon", "--out", tmp_path / "units", name, *options)[0] == 0
    units = sorted((tmp_path / "units").iterdir())
    assert [unit.stem for unit in units] == [f"turnout-{name}" for name in ("hub-0", "node-0_2-3", "serve", "superlink")]
    verified = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")


@settings(max_examples=50)
@given(st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), min_size=1))
def test_quotes_keep_a_word(word):
    assert words_of(quoted(word)) == [word.replace("\n", "\\n")]


def test_data_of_the_environment_are_an_option(place, monkeypatch):
    monkeypatch.setenv("TURNOUT_DATA", "keys")
    _, text, _ = turnout("service", "--user", "daemon", "serve", *COMMANDS["serve"])
    (line,) = (line for line in text.splitlines() if line.startswith("ExecStart="))
    assert words_of(line)[-2:] == ["--data", str(place / "keys")]


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("--user", "daemon", "superlink", "nowhere"), "nowhere is not there: make it"),
        (("--user", "root", "superlink", "keys"), "needs no root: name the user"),
        (("run", "run.toml"), "a service runs one of superlink, serve, hub, node"),
    ],
)
def test_a_mistake_is_a_sentence(place, arguments, told):
    code, out, wrong = turnout("service", *arguments)
    assert (code, out) == (2, "") and told in wrong and wrong.count("\n") == 1


def test_an_option_that_the_command_has_not_is_told(place):
    code, out, wrong = turnout("service", "--user", "daemon", "superlink", "keys", "--deadline", "3")
    assert (code, out) == (2, "") and "--deadline" in wrong


def test_a_program_that_is_not_installed_is_told(place, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(place / "python"))
    code, _, wrong = turnout("service", "--user", "daemon", "superlink", "keys")
    assert code == 2 and "install turnout with pip" in wrong
