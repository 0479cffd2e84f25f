"""Run a module as a program that ends with its parent process, even if the parent is killed.

    python -m turnout.federation.child_process MODULE [ARGUMENTS]

The parent holds the other end of the standard input and writes nothing. When the input ends, the parent is gone.
"""

import os
import runpy
import signal
import sys
import threading
import time

GRACE_SECONDS = 10.0
"""Seconds between SIGTERM and the hard exit, once the parent is gone."""


def exit_with_parent() -> None:
    """Wait for the end of the standard input, then end this process."""
    # A thread blocked in sys.stdin.read would keep the interpreter alive.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def main() -> None:
    """Run the module on the command line."""
    threading.Thread(target=exit_with_parent, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
