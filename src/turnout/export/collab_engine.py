"""Rounds whose clients are the sites of a job of NVFlare."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from turnout.core.errors import UserError
from turnout.engines.flower.reply_checks import check_of, measures_of, validate_reply
from turnout.engines.inputs import Job
from turnout.engines.messaging import MessageAsk, MessageEngine
from turnout.engines.state import Progress, begin

Call = Callable[[str, dict[int, tuple]], tuple[dict, dict[int, str]]]
"""Calls a method of some clients with the arguments for each; returns replies and failures by client."""

Check = Callable[[Any], str | None]
"""Returns why a reply cannot be used, or None."""


class CollabAsk(MessageAsk):
    """Answers `ask` by calls of the sites' method `answer`.

    Args:
        call: Calls a method of some clients, and returns the replies that pass a check.
        *arguments: Arguments of the base class.
    """

    def __init__(self, call: Callable[[str, dict, Check], dict], *arguments):
        super().__init__(*arguments)
        self.call = call

    def _exchange(self, requests, expected, losses):
        contents = {request.number: (request.header, bytes(request.body)) for request in requests}
        replies = self.call("answer", contents, check_of(self.job, expected, self.cut))
        arrived = {request.place: replies[request.number] for request in requests if request.number in replies}
        return arrived, np.zeros_like(losses)

    def _decrypt(self, clients, header, body, expected):
        raise UserError("a job of NVFlare decrypts no sums")


class Collab(MessageEngine):
    """Plays rounds of one algorithm with the sites of a job of NVFlare.

    Args:
        call: Calls a method of some sites.
        names: The name of each client's site.
        job: Inputs of the run.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics in a trace row.
        every: Rounds between two trace rows.
    """

    def __init__(self, call: Call, names: list[str], job: Job, algorithm, metrics: tuple[str, ...], every: int):
        super().__init__(job, algorithm, metrics, every)
        self.call, self.names = call, names
        # Only the states in use have to stay available.
        self._asks = partial(CollabAsk, self._replies, self.versions, self.versions, self.outliers, self.sums)

    def begin(self) -> Progress:
        """Return the state before the first round; the states of clients are represented by their versions."""
        return self._with_versions(begin(self._asks, self.job, self.algorithm, self.sites))

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play until `rows` more trace rows are written or the round `limit` is reached.

        Args:
            progress: State of the run.
            limit: Number of the last round.
            rows: Number of trace rows to write.
        """
        progress, table = self.play(self._asks, progress, limit, rows)
        return self._with_versions(progress), table

    def name_of(self, client: int) -> str:
        """Return the name of a client's site."""
        return self.names[client]

    def own_leaves(self, progress, problem):
        return None

    def _with_versions(self, progress: Progress) -> Progress:
        return progress._replace(clients=self.versions.copy())

    def _everyone(self, requests):
        expected = measures_of(self.asked, self.job.start)
        return self._replies("measure", requests, partial(validate_reply, start=self.job.start, expected=expected))

    def _replies(self, method: str, requests: dict[int, tuple], check: Check) -> dict:
        """Return the clients' usable replies; `UserError` where some are missing, unless the run goes on without them."""
        replies, failures = self.call(method, requests)
        failures |= {i: f"its reply is {why}" for i, reply in replies.items() if (why := check(reply)) is not None}
        if failures and (self.job.faults is None or self.job.faults.missing != "skip"):
            told = "; ".join(f"{self.names[client]}: {why}" for client, why in failures.items())
            raise UserError(f"{told}: set [faults] missing to 'skip' to go on without a reply")
        return {client: reply for client, reply in replies.items() if client not in failures}
