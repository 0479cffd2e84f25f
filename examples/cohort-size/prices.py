"""Prices of a study: every contacted client costs one, or every round."""

from typing import ClassVar

from turnout.core.records import config


@config
class Contacts:
    """Messages sent to clients, one for each client and exchange."""

    unit: ClassVar[str] = "contacts"
    label: ClassVar[str] = "contacts"

    def cost(self, events):
        """Return the number of contacts.

        Args:
            events: Counts by name.
        """
        return events["contacts"]


@config
class Rounds:
    """Draws, one in each round, also of a cohort that is empty by chance."""

    unit: ClassVar[str] = "rounds"
    label: ClassVar[str] = "rounds"

    def cost(self, events):
        """Return the number of rounds.

        Args:
            events: Counts by name.
        """
        return events["draws_arbitrary"]
