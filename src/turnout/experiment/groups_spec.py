"""The `[groups]` table of a configuration: which leaves of the model are personal or frozen, and which have adapters."""

from typing import Any

from turnout.core.records import config
from turnout.problems.base import Problem
from turnout.problems.grouped import Grouped, with_groups
from turnout.problems.groups import Adapter, Frozen, Personal


@config
class GroupsSpec:
    """The groups of leaves of the model; see `problems.Grouped.of`.

    Args:
        personal: Leaves that each client has for itself, and how it trains them.
        frozen: Names of leaves that stay as they are at the start, or patterns.
        adapter: Matrices that get low-rank adapters.
    """

    personal: Personal | None = None
    frozen: list[str] | None = None
    adapter: Adapter | None = None

    def table(self) -> dict[str, Any] | None:
        """Return the table of a configuration; None without groups."""
        parts = {name: part and _given(vars(part)) for name, part in (("personal", self.personal), ("adapter", self.adapter))}
        return _given({**parts, "frozen": self.frozen}) or None

    def of(self, problem: Problem) -> Problem:
        """Return a problem with these groups.

        Args:
            problem: The problem.
        """
        frozen = None if self.frozen is None else Frozen(self.frozen)
        groups = [group for group in (self.personal, frozen, self.adapter) if group is not None]
        return Grouped.of(problem, *groups) if groups else with_groups(problem)


def _given(table: dict[str, Any]) -> dict[str, Any]:
    """Return what a table says."""
    return {key: value for key, value in table.items() if value is not None}
