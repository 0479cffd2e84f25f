"""The requests in flight of a run on Flower, over all its rounds."""

from collections.abc import Callable

from jaxtyping import PyTree

from turnout.accounting.ledger import Site
from turnout.devices.files import ARRIVALS
from turnout.engines.flower.clients import Clients
from turnout.engines.flower.open_requests import Landed, OpenRequests
from turnout.engines.flower.reply_checks import check_of, size_of
from turnout.engines.inputs import Job


class Flights:
    """The requests in flight of a run, over all its rounds.

    Args:
        job: Inputs of the engine.
        clients: The clients.

    Attributes:
        site: Call site of the last requests.
        log: When each request landed, in microseconds, and whether its reply is used, by the request's number.
    """

    def __init__(self, job: Job, clients: Clients):
        self.job, self.clients = job, clients
        self.site: Site | None = None
        self.log: dict[int, tuple[int, bool]] = {}
        self._requests: OpenRequests | None = None

    def requests(self, expected: PyTree, elapsed: Callable[[], float]) -> OpenRequests:
        """Return what sends requests, whose clock begins with the first one.

        Args:
            expected: Shapes of a reply.
            elapsed: Returns the seconds on the clock.
        """
        if self._requests is None:
            repeats = self.job.faults is not None and self.job.faults.repeats
            self._requests = OpenRequests(self.clients, size_of(expected), check_of(self.job, expected), repeats, elapsed())
        return self._requests

    @property
    def begun(self) -> bool:
        """Whether any request was sent."""
        return self._requests is not None

    def take(self, count: int) -> list[Landed]:
        """Return the next `count` requests to land."""
        return [] if self._requests is None else self._requests.wait(count)

    def to_csv(self) -> str | None:
        """Return when each request landed, as `Devices` replays it; None where none did."""
        if not self.log:
            return None
        rows = [f"{number},{time},{int(used)}" for number, (time, used) in sorted(self.log.items())]
        return "\n".join([",".join(ARRIVALS), *rows, ""])
