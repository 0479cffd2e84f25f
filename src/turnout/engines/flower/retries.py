"""When a failing request is not sent again."""

from collections.abc import Callable

import httpx


def stop_if_unauthorized(should_giveup: Callable[[Exception], bool]) -> Callable[[Exception], bool]:
    """Return the condition to stop retrying a request: also when the SuperLink no longer knows the sender.

    Flower interrupts the process instead, which may be writing the results of a complete run.

    Args:
        should_giveup: Flower's condition.
    """

    def condition(error: Exception) -> bool:
        unauthorized = isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.UNAUTHORIZED
        return unauthorized or should_giveup(error)

    return condition
