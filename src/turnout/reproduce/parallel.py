"""Playing tasks side by side."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

SIDE_BY_SIDE = 2
"""Tasks played at a time: a run's steps are too small to keep more than one core busy."""


def side_by_side(tasks: Sequence, play: Callable[[Any, int], Any], keep: Callable[[Any, Any], None]) -> None:
    """Call keep(task, play(task, k)) for the k-th of `tasks`, in their order, SIDE_BY_SIDE of them being played at a time."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        played = [pool.submit(play, task, number) for number, task in enumerate(tasks)]
        try:
            for task, future in zip(tasks, played, strict=True):
                keep(task, future.result())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def group_by_group(tasks: Sequence, key: Callable[[Any], str], play: Callable[[str, list, int], None]) -> None:
    """Call play(name, group, done) for each run of `tasks` with the same name `key(task)`, `done` being how many came before."""
    done = 0
    for name, group in groupby(tasks, key=key):
        mine = list(group)
        play(name, mine, done)
        done += len(mine)
