"""Runs that several processes play together: the same numbers, one sentence where one dies, and what follows."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

from tests.helpers.commands import children, config, start, turnout, wait_for, whole
from tests.helpers.peer import runs
from turnout.io.ports import free_port

NAMES = ("accfeddcd", "fedavg", "icgm", "mifa", "scaffold", "sppm")
"""Client states that must add up, sums, random branches, requests in flight, control variates, loops over one cohort."""


def close(folder: Path, other: Path) -> None:
    """Assert that two folders hold the same run."""
    left, right = (load_file(path / "model.safetensors") for path in (folder, other))
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_allclose(right[name], left[name], rtol=1e-12, atol=1e-12)
    left, right = (pl.read_parquet(path / "trace.parquet") for path in (folder, other))
    counts = [name for name in left.columns if left[name].dtype.is_integer()]
    assert len(counts) > 10 and left.select(counts).equals(right.select(counts))


@pytest.mark.everything
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.everything)])
def test_processes_play_the_run_of_one(tmp_path, count):
    command = [sys.executable, "-m", "tests.helpers.peer", f"127.0.0.1:{free_port()}"]
    ends = [str(count), str(tmp_path), *NAMES]
    peers = [subprocess.Popen([*command, str(number), *ends]) for number in range(count)]
    assert [peer.wait(timeout=300) for peer in peers] == [0] * count
    first, *others = (np.load(tmp_path / f"{number}.npz") for number in range(count))
    for name, value in runs(NAMES).items():
        np.testing.assert_allclose(first[name], value, rtol=1e-12, atol=0 if name.endswith("counts") else 1e-12)
    for other in others:
        for name in first:
            np.testing.assert_array_equal(other[name], first[name], err_msg=name)


@pytest.mark.slow
def test_the_command_line_plays_a_run_in_two_processes(tmp_path):
    path = config(tmp_path, algorithm={"kind": "scaffold", "lr": 0.3, "steps": 2})
    assert turnout("run", path, "--out", tmp_path / "one")[0] == 0
    code, said, _ = whole("run", path, "--out", tmp_path / "two", "--processes", 2)
    assert code == 0 and said.count("report: ") == 1
    close(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.everything), 1])
def test_a_process_that_dies_ends_the_others_and_the_run_goes_on_with_another_number(tmp_path, victim):
    out = tmp_path / "out"
    path = config(tmp_path, run={"rounds": 1000, "every": 50}, target={"metric": "distance", "below": 1e-30})
    assert whole("run", path, "--out", tmp_path / "one")[0] == 0
    command = start("run", path, "--out", out, "--processes", 2)
    wait_for((out / "checkpoint.safetensors").exists)
    os.kill(children(command.pid)[victim], signal.SIGKILL)
    _, wrong = command.communicate(timeout=30)
    told = [line for line in wrong.splitlines() if not line.startswith("[Gloo]")]
    assert command.returncode == 1 and len(told) == 1
    assert f"process {victim + 1} of 2 was ended by signal 9" in told[0]
    assert whole("resume", out, "--processes", 3)[0] == 0
    close(tmp_path / "one", out)


def test_devices_that_processes_cannot_share(tmp_path):
    path = config(tmp_path, run={"rounds": 2, "mesh": 3})
    code, _, wrong = turnout("run", path, "--out", tmp_path / "out", "--processes", 2)
    assert code == 2 and wrong == "turnout: [run] mesh = 3 is no multiple of --processes 2: change one of them\n"


@pytest.mark.slow
def test_a_mistake_that_every_process_finds_is_told_once(tmp_path):
    path = config(tmp_path, split={"kind": "kmeans", "clusters": 400, "clients_per_cluster": 300})
    code, said, wrong = whole("run", path, "--out", tmp_path / "out", "--processes", 2)
    assert (code, said) == (2, "") and wrong.count("turnout: ") == 1 and "Traceback" not in wrong
