"""The `[federation]` table: with how many clients a server begins and goes on."""

from turnout.core.errors import UserError
from turnout.core.records import Positive, config


@config
class FederationSpec:
    """What only the server of a federation has to know; a run in one process ignores it.

    Args:
        start: How many clients must be connected: a number from 1, or with a point the share of those that are not revoked (0.8).
    """

    start: int | Positive = 1.0

    def __post_init__(self):
        if not isinstance(self.start, int) and self.start > 1:
            raise UserError(f"start is a share of the clients up to 1.0, or a number without a point, but it is {self.start}")
