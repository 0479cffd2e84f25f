"""A child process ends with its parent."""

import signal
import subprocess
import sys

import pytest

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-m", "turnout.federation.child_process", "http.server", "0"], stdin=subprocess.PIPE)
child.wait()
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_process_ends_with_its_parent(end):
    """Both processes hold the output, so it ends when both have ended."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-u", "-c", PARENT], **options) as parent:
        assert "Serving HTTP" in parent.stdout.readline()
        parent.send_signal(end)
        assert parent.stdout.read() == "" and parent.wait() == -end
