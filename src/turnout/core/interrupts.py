"""Ctrl-C, where an exception at any place of the program would do harm."""

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN, LONGEST = 0.02, 10.0
"""Seconds after which an interrupt that had to wait is tried again, and the most that it waits."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `KeyboardInterrupt` after Ctrl-C, once no import is under way, and again where Python drops it; in the main thread.

    Modules that Ctrl-C leaves half imported crash or hide the interrupt, and callbacks of the garbage collector swallow it.
    """
    handler = _Handler()
    previous, hook = signal.signal(signal.SIGINT, handler), sys.unraisablehook

    def unraisable(dropped) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            handler.again()
        else:
            hook(dropped)

    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        sys.unraisablehook = hook


@contextmanager
def uninterrupted_children() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach; who starts them ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Handler:
    """The handler of the signal."""

    def __init__(self):
        self.thread, self.since = threading.get_ident(), None

    def __call__(self, _: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        self.since = self.since or now
        if _importing(frame) and now - self.since < LONGEST:
            self.again()
        else:
            self.since = None
            raise KeyboardInterrupt

    def again(self) -> None:
        """Have the handler called again soon."""
        # The threads, timers and events of `threading` take locks, which the interrupted code may hold; so another thread sleeps.
        _thread.start_new_thread(self._wait_and_call, ())

    def _wait_and_call(self) -> None:
        time.sleep(AGAIN)
        signal.pthread_kill(self.thread, signal.SIGINT)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
