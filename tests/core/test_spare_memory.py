"""What compiling leaves goes back to the system."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import jax
from turnout.core.spare_memory import give_back, give_back_after_compiling

def held():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(fields["RssAnon"].split()[0]) * 1024

def many(x):
    for k in range(400):
        x = jax.numpy.sort(jax.numpy.sin(x) * k)[::-1]
    return x

if sys.argv[1] == "free":
    give_back_after_compiling()
lowered = jax.jit(many).lower(jax.numpy.ones(7))
program = lowered.compile()
before = held()
give_back()
print(before - held())
"""


def left(how: str) -> int:
    """Return the bytes that a process could still give back after it has compiled a large program."""
    return int(subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library gives nothing back")
def test_compiling_leaves_little():
    kept, freed = left("keep"), left("free")
    assert kept > 2**24
    assert freed < kept / 4
