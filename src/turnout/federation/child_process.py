"""A module run as a program that ends with the process that started it, however that ends.

    python -m turnout.federation.child_process MODULE [ARGUMENTS]

Who starts it holds the other end of its standard input and writes nothing: where the input ends, the starter is gone.
"""

import os
import runpy
import signal
import sys
import threading
import time

GRACE = 10.0
"""Seconds to end in once the starter is gone."""


def follow() -> None:
    """Wait for the end of the standard input, then end this process."""
    # A thread that waits in sys.stdin would not let the interpreter end.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def main() -> None:
    """Run the module that the command line names."""
    threading.Thread(target=follow, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
