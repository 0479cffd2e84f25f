"""Which limits to drop where they leave nothing to play."""

from collections import Counter
from contextlib import suppress

from turnout.core.errors import UserError
from turnout.planner.candidates import Family
from turnout.planner.task import Task, allowed
from turnout.planner.trials import TrialStore
from turnout.studies.cases import Cases


def nothing_left(task: Task, cases: Cases, refused: dict[str, str]) -> str:
    """Say that nothing is left to play, and which limit to drop for it to be something.

    Args:
        task: The task.
        cases: Builds its problem.
        refused: Why each family is left out.
    """
    hindrances = hindrances_of(task, cases)
    alone = Counter(key for keys in hindrances for key in keys if len(keys) == 1)
    if alone:
        ways = " or ".join(f"{key} ({count} of {len(refused)} families are left then)" for key, count in alone.most_common())
        return f"nothing is left to play: drop {ways}"
    if hindrances:
        return f"nothing is left to play: drop {' and '.join(sorted(min(hindrances, key=len)))} together"
    return f"nothing is left to play: {next(iter(refused.values()))}"


def hindrances_of(task: Task, cases: Cases) -> list[set[str]]:
    """Return for each family that fits the problem the limits that hinder it, in the setting that the fewest do."""
    names, barred = allowed(task)
    found = []
    for name in (*names, *barred):
        with suppress(UserError):
            own = Family(task.declaration, name, cases, TrialStore(None), task.limits).hindrance()
            if own is not None:
                found.append(own | barred.get(name, {}).keys())
    return found
