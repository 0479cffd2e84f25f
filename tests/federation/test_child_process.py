"""What a process starts on a leash ends with it."""

import signal
import subprocess
import sys

import pytest

STARTER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-m", "turnout.federation.child_process", "http.server", "0"], stdin=subprocess.PIPE)
child.wait()
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_on_a_leash_ends_with_its_starter(end):
    """The output, which both of them hold, is over when both have ended."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-u", "-c", STARTER], **options) as starter:
        assert "Serving HTTP" in starter.stdout.readline()
        starter.send_signal(end)
        assert starter.stdout.read() == "" and starter.wait() == -end
