"""A study that is killed at any moment goes on with the same command and gives the same runs."""

import os
import random
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import tomli_w

from tests.helpers.commands import children, start, turnout, wait_for, whole

METHODS = {
    "fedavg": {"algorithm": {"kind": "fedavg", "lr": 0.001}, "grid": {"algorithm.lr": [0.001, 0.002], "sampler.size": [1, 2, 3]}},
    "mbgd": {"algorithm": {"kind": "mbgd", "lr": 0.1}, "grid": {"algorithm.lr": [0.001, 0.002]}},
}


def study_of(folder: Path, tuning: bool) -> Path:
    """Write a study of 40 runs, or with tuning of 30."""
    made = {"problem": {"kind": "log-sum", "clients": 6, "dimension": 5}, "sampler": {"kind": "nice", "size": 2}}
    content = {
        "seeds": 5,
        "run": {"rounds": 20},
        "problems": {"made": made},
        "methods": METHODS,
        "goals": {"near": {"metric": "gradient", "share": 0.9}},
        **({"tuning": {"seeds": 3}} if tuning else {}),
    }
    path = folder / "study.toml"
    path.write_text(tomli_w.dumps(content))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.everything), 2])
def test_a_study_that_is_killed_again_and_again_gives_the_same_runs(tmp_path, workers):
    path, out = study_of(tmp_path, tuning=True), tmp_path / "out"
    assert turnout("study", path, "--out", tmp_path / "whole")[0] == 0
    moments, kills = random.Random(workers), 0
    for files in (0, 1, 0, 1, 1):
        command = start("study", path, "--out", out, "--workers", workers)
        enough = count(out) + files
        wait_for(lambda command=command, enough=enough: command.poll() is not None or count(out) >= enough)
        try:
            command.wait(timeout=moments.uniform(0, 1))
        except subprocess.TimeoutExpired:
            command.kill()
            kills += 1
        _, wrong = command.communicate()
        assert command.returncode in (0, -9), wrong
    assert kills
    assert whole("study", path, "--out", out, "--workers", workers)[0] == 0
    assert (out / "runs.parquet").read_bytes() == (tmp_path / "whole" / "runs.parquet").read_bytes()


@pytest.mark.slow
def test_a_worker_that_is_killed_breaks_its_own_runs_only(tmp_path):
    """Its program is played when the command is started again."""
    path, out = study_of(tmp_path, tuning=False), tmp_path / "out"
    command = start("study", path, "--out", out, "--workers", 2)
    victim = wait_for(lambda: next(iter(workers_of(command.pid)), None))
    os.kill(victim, signal.SIGKILL)
    said, _ = command.communicate(timeout=300)
    assert command.returncode == 1 and "its process died (exit code -9)" in said
    code, said, wrong = turnout("study", path, "--out", out)
    assert (code, wrong) == (0, "") and "broken" not in said
    assert turnout("study", path, "--out", tmp_path / "whole")[0] == 0
    assert (out / "runs.parquet").read_bytes() == (tmp_path / "whole" / "runs.parquet").read_bytes()


def count(out: Path) -> int:
    """The programs of a study that are played."""
    return len(list((out / "runs").glob("*.parquet")))


def workers_of(parent: int) -> list[int]:
    """The processes that play programs for `parent`."""
    found = []
    for child in children(parent):
        with suppress(OSError):
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                found.append(child)
    return found
