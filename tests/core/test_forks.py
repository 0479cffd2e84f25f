"""Processes that are forked from one in which programs ran."""

import multiprocessing
import os
import subprocess
import sys

import pytest

PROGRAM = """
import multiprocessing, sys
import turnout as t

def last(seed):
    problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
    try:
        trace = t.run(t.FedAvg(t.Nice(2), lr=0.05), problem, rounds=2, seed=seed, metrics=("value",))
    except t.UserError as error:
        return str(error)
    return float(trace.frame["value"][-1])

if __name__ == "__main__":
    here = last(0) if sys.argv[2] == "after" else None
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        there = pool.apply(last, (0,))
    print(there, (here or last(0)) == there)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    ("how", "when", "said"),
    [("fork", "after", 'multiprocessing.get_context("spawn") False'), ("fork", "before", " True"), ("spawn", "after", " True")],
)
def test_a_process_forked_after_a_run_is_told_to_be_spawned(tmp_path, how, when, said):
    assert how in multiprocessing.get_all_start_methods()
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = subprocess.run([sys.executable, file, how, when], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip().endswith(said)
