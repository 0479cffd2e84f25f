"""Commands of pages that do not show the files they name are executed literally, with small files of these names."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w

from tests.helpers.commands import SMALL, turnout
from tests.helpers.walkthrough import blocks, has_files
from tests.studies.test_kill import study_of
from turnout.core.errors import UserError
from turnout.data import load

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

ELSEWHERE = {
    "make ": "continuous integration calls these",
    "python -m benchmarks": "takes up to half an hour, and measures times",
    ".example.org:": "needs a process on another machine: tests/federation runs these on one",
    "turnout status DIR --serve": "a server, which does not end: tests/federation/test_status_server.py starts it",
    "turnout service": "needs a user and keys: tests/federation/test_service.py has them",
    "turnout superlink": "a server, which does not end: tests/federation starts it",
    "turnout audit": "reads logs of nodes: tests/federation reads them after runs",
    "--executor slurm": "needs a Slurm cluster: tests/studies/test_jobs.py uses one where there is one",
    "turnout verify --against": "installs packages: tests/vectors/test_verify.py holds the one that is here",
    "turnout verify results": "takes its minutes: tests/studies/test_replay.py plays a small result",
    "turnout verify DIR": "needs a result: tests/studies/test_replay.py plays one",
    "pip install": "changes the environment that runs the tests",
    "examples/hospitals": "needs a package of PyPI: tests/data/test_natural_examples.py cleans a table",
    "examples/schools": "needs a package of PyPI: tests/data/test_natural_examples.py cleans tables",
    "reproduce cost-aware --out": "takes hours: tests/studies/test_published.py plays a part",
    "reproduce niid-bench": "takes hours: tests/studies/test_niid_bench.py plays its parts",
    "python -m pytest": "needs an environment with NVFlare",
    "reproduce k-vib": "takes an hour, or a GPU: tests/studies/test_k_vib.py plays a small form",
}
"""Parts of the commands that are not executed here, and why."""

NEED_DATA = ("mnist", "ag_news_subset")
"""Names in commands of data sets that are not bundled."""

FILE = SMALL | {"algorithm": {"kind": "sppm", "gamma": 1.0, "inner": 3, "solver": "bfgs"}}
TASK = {name: FILE[name] for name in ("problem", "split", "target", "run")} | {"plan": {"allow": ["lbfgs"], "seeds": 5}}
TASK["price"] = [{"kind": "exchanges"}]


def executed(page: Path) -> list[str]:
    """The commands of a page that are executed, without comments; at a blank line a folder begins anew."""
    lines = []
    for block in blocks(page):
        if block.language == "sh":
            lines += ["", *(shlex.join(shlex.split(line, comments=True)) for line in block.text.splitlines())]
    return [line for line in lines if not any(part in line for part in ELSEWHERE)]


FOLLOWED = [page for page in PAGES if not has_files(page) and any(executed(page))]


def prepare(folder: Path, command: str) -> None:
    """Write the files that a command names, and remove the results of the one before."""
    tables = {"FILE.toml": TASK if " plan " in command else FILE, "PUBLIC.toml": TASK, "A.toml": FILE, "B.toml": SMALL}
    for name, content in tables.items():
        (folder / name).write_text(tomli_w.dumps(content))
    if command.endswith(" DIR") or " DIR " in command:
        shutil.rmtree(folder / "DIR", ignore_errors=True)
    if "FILE-or-DIR" in command:
        (folder / "FILE-or-DIR").mkdir(exist_ok=True)
        study_of(folder / "FILE-or-DIR", tuning=True)
    if command.startswith(("turnout resume DIR", "turnout figures DIR")):
        assert turnout("run", folder / "FILE.toml", "--out", folder / "DIR")[0] == 0
    for name in NEED_DATA:
        if name in command:
            try:
                load(name)
            except UserError:
                pytest.skip(f"the data set {name} is not here: set TURNOUT_DATA to a folder that has it")


@pytest.mark.tiers(quick=[], slow=["data", "deploy", "describe"])
@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page, tmp_path, monkeypatch):
    """Those of turnout in this process, which has imported it."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    for number, command in enumerate(executed(page)):
        if not command:
            (folder := tmp_path / str(number)).mkdir()
            monkeypatch.chdir(folder)
            continue
        prepare(folder, command)
        program, *words = shlex.split(command)
        if program == "turnout":
            code, _, err = turnout(*words)
        else:
            done = subprocess.run([program, *words], capture_output=True, text=True)
            code, err = done.returncode, done.stderr
        assert code == 0, f"{command}\n{err}"


@pytest.mark.longer
def test_every_reason_is_that_of_a_command():
    lines = "".join(block.text for page in PAGES for block in blocks(page) if block.language == "sh")
    assert not [part for part in ELSEWHERE if part not in lines]
