"""The `[groups]` table of a configuration: which leaves of the model are personal, and which are frozen."""

from typing import Any

from turnout.core.records import config
from turnout.problems.base import Problem
from turnout.problems.grouped import Grouped, with_groups
from turnout.problems.groups import Frozen, Personal


@config
class GroupsSpec:
    """The groups of leaves of the model; see `problems.Grouped.of`.

    Args:
        personal: Leaves that each client has for itself, and how it trains them.
        frozen: Names of leaves that stay as they are at the start, or patterns.
    """

    personal: Personal | None = None
    frozen: list[str] | None = None

    def table(self) -> dict[str, Any] | None:
        """Return the table of a configuration; None without groups."""
        personal = (
            None if self.personal is None else {key: value for key, value in vars(self.personal).items() if value is not None}
        )
        given = {"personal": personal, "frozen": self.frozen}
        return {key: value for key, value in given.items() if value is not None} or None

    def of(self, problem: Problem) -> Problem:
        """Return a problem with these groups.

        Args:
            problem: The problem.
        """
        groups = [*([] if self.personal is None else [self.personal]), *([] if self.frozen is None else [Frozen(self.frozen)])]
        return Grouped.of(problem, *groups) if groups else with_groups(problem)
