"""Runs that go on: a finished run gets more rounds, with the numbers of a run that had them from the start."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from turnout.core.errors import UserError
from turnout.runs.options import RunOptions

if TYPE_CHECKING:
    from turnout.runs.session import Session

FIXED = (
    "seed",
    "seeds",
    "every",
    "precision",
    "engine",
    "storage",
    "aggregation",
    "start",
    "metrics",
    "exchange",
    "faults",
    "devices",
    "hubs",
)
"""Options that a run keeps when it goes on."""


@dataclass(frozen=True)
class Played:
    """What a run needs to go on.

    Args:
        options: Its options.
        fitted: Its algorithm, fitted to the problem and the number of rounds.
        snapshot: Where it ended.
    """

    options: RunOptions
    fitted: Any
    snapshot: dict


def go_on(session: "Session", played: Played | None) -> None:
    """Continue a session from the end of a run that had fewer rounds.

    Args:
        session: A session that has not begun.
        played: What the run left; None if nothing.

    Raises:
        UserError: The run diverged, had other options or another algorithm, or its algorithm depends on the number of rounds.
    """
    if played is None:
        raise UserError("go_on needs the trace of a run, which has just been played: give that, or start anew")
    for name in FIXED:
        before, now = (repr(getattr(options, name)) for options in (played.options, session.options))
        if before != now:
            raise UserError(f"a run goes on with the same {name}, {before[:60]}, but it is {now[:60]}: leave it as it was")
    refuse_other_rounds(played.fitted, session.fitted, played.options.rounds, session.rounds)
    session.restore(continued(played.snapshot, session.options.every))
    if session.trace.diverged is not None:
        raise UserError(f"{session.divergence()}, so that there is nothing to go on from: {session.advice()}")
    if session.round >= session.rounds:
        raise UserError(f"the run has {session.round} rounds already: give more than {session.rounds}")
    session.reopen()


def refuse_other_rounds(before: Any, now: Any, old: int, new: int) -> None:
    """Raise `UserError` where two fitted algorithms differ: another one was given, or it depends on the number of rounds.

    Args:
        before: The algorithm, fitted to the first number of rounds.
        now: The algorithm, fitted to the second one.
        old: The first number.
        new: The second number.
    """
    if jax.tree.structure(before) == jax.tree.structure(now):
        leaves = zip(jax.tree.leaves_with_path(before), jax.tree.leaves(now), strict=True)
        path = next((path for (path, one), other in leaves if not np.array_equal(one, other)), None)
        if path is None:
            return
        what = f"{jax.tree_util.keystr(path).lstrip('.')} is another number"
    else:
        what = "its parts are others"
    raise UserError(
        f"a run of {old} rounds does not go on to {new} with this algorithm, of which {what}: where it depends on the number of "
        "rounds, as a schedule may, begin anew; else give the algorithm as it was"
    )


def continued(snapshot: dict, every: int) -> dict:
    """Return a snapshot without the last row of the trace where a run with more rounds would not have it.

    Args:
        snapshot: The snapshot at the end of a run.
        every: Rounds between two rows.
    """
    rounds = snapshot["columns"][0]["round"]
    rows = len(rounds) - int(rounds[-1] % every != 0)
    columns = [{name: column[:rows] for name, column in each.items()} for each in snapshot["columns"]]
    return {**snapshot, "columns": columns, "written": np.array(rows)}
