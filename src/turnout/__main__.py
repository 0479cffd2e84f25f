"""The program `turnout`, which is also `python -m turnout`."""

import atexit
import os
import signal
import sys

from turnout.core.interrupts import interruptible

STOPPED = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the command line; Ctrl-C ends it at any time."""
    # What Python does after that takes no time, and would be stopped with noise.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            # The command line is slow to import.
            from turnout import cli

            cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("turnout: stopped\n")
        _end()
    except SystemExit as end:
        if end.code == STOPPED:
            _end()
        raise


def _end() -> None:
    """End the process, though other threads compute: these would crash while Python takes itself apart."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(STOPPED)


if __name__ == "__main__":
    main()
