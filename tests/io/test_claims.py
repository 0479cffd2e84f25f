"""Folders of results: one command at a time."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from hypothesis import strategies as st

from tests.helpers.borders import border
from turnout.core.errors import UserError
from turnout.io.claims import CLAIM, claimed, holds_files

HOLDER = """
import pathlib, sys
from turnout.io.claims import claimed
with claimed(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@border(steps=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=12))
def test_one_at_a_time_is_within(folder, steps):
    """Whoever comes and leaves in whatever order, threads being like processes; nothing is left behind."""
    with ExitStack() as stack:
        threads = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(3)]
        claims, within = [ExitStack() for _ in range(3)], set()
        for number, enters in steps:
            run = threads[number].submit
            if not enters:
                run(claims[number].close).result()
                within.discard(number)
            elif within <= {number}:
                run(claims[number].enter_context, claimed(folder)).result()
                within.add(number)
                assert not holds_files(folder)
            else:
                with pytest.raises(UserError, match="another turnout command is writing its results there"):
                    run(claims[number].enter_context, claimed(folder)).result()
        for number in range(3):
            threads[number].submit(claims[number].close).result()
    assert not [*folder.iterdir()]


def test_a_claim_ends_with_its_process(tmp_path):
    """Of another process, that is killed: its file stays, and holds nobody back."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="choose another --out, or wait for it"), claimed(tmp_path):
            pass
        holder.kill()
    assert (tmp_path / CLAIM).exists()
    with claimed(tmp_path):
        pass
    assert not (tmp_path / CLAIM).exists()
