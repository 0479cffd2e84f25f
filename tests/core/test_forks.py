"""Processes that are forked from one in which programs ran."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json
from multiprocessing import get_context
import turnout as t

def last(seed):
    problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
    try:
        trace = t.run(t.FedAvg(t.Nice(2), lr=0.05), problem, rounds=2, seed=seed, metrics=("value",))
    except t.UserError as error:
        return str(error)
    return float(trace.frame["value"][-1])

def in_worker(how):
    with get_context(how).Pool(1) as pool:
        return pool.apply(last, (0,))

if __name__ == "__main__":
    print(json.dumps([in_worker("fork"), last(0), in_worker("fork"), in_worker("spawn")]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_forked_after_a_run_is_told_to_be_spawned(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=120, check=True)
    forked_before, here, forked_after, spawned = json.loads(done.stdout)
    assert forked_before == here == spawned
    assert forked_after.endswith('start workers by multiprocessing.get_context("spawn")')
