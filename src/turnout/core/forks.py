"""Processes that were forked from one in which programs ran, and lack the threads that JAX had there."""

import os
from functools import cache

from turnout.core.errors import UserError

_forked: list[int] = []
"""The number of this process, if it was forked after `watch_forks`."""


@cache
def watch_forks() -> None:
    """From now on, let `refuse_forked` raise in processes that are forked from this one."""
    # Windows has no forks.
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _forked.append(os.getpid()))


def refuse_forked() -> None:
    """Raise `UserError` in a process that was forked from one with `watch_forks`, where a program would wait for ever."""
    if _forked:
        raise UserError(
            "this process was forked after turnout had run, and JAX's threads are not in it: start workers by "
            'multiprocessing.get_context("spawn")'
        )
