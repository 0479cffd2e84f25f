"""Rounds with clients that are connected to hubs, which add replies up where the server takes one sum of them."""

from functools import partial
from typing import ClassVar

import numpy as np

from turnout.core.replies import Weight
from turnout.engines.flower.engine import Flower, FlowerAsk
from turnout.engines.flower.hub_mailbox import SUM, HubMailbox
from turnout.engines.flower.hub_messages import Part, Whole
from turnout.engines.flower.reply_checks import validate_reply
from turnout.engines.messaging import Request, SummedReplies, added
from turnout.engines.reply_usage import Survey, weight_of


class SummedByHubs(SummedReplies):
    """Replies of which hubs sent sums."""

    why = "hubs add these replies up, so that the server cannot look at each: leave [hubs] out"


class HubAsk(FlowerAsk):
    """Answers `ask` by one message to each hub."""

    summed: ClassVar[type[SummedReplies]] = SummedByHubs

    @property
    def mailbox(self) -> HubMailbox:
        """The mailbox, which keeps the sums."""
        mailbox = self.clients.mailbox
        assert isinstance(mailbox, HubMailbox)
        return mailbox

    def _consult(self, number, path, method, message):
        self._weight = None
        super()._consult(number, path, method, message)

    def _run_clients(self, cohort, method, message, losses):
        self._message, self._lost = message, (np.asarray(losses) > 0) & (not self._repeats)
        return super()._run_clients(cohort, method, message, losses)

    def _requests(self, cohort, method, messages):
        whole, ids, weights = Whole(self._message, self.job.start), np.asarray(cohort.ids).tolist(), self._weights(cohort)
        places = np.flatnonzero(cohort.active).tolist()
        return [Request(k, ids[k], self._header(method, ids[k], weights[k]), Part(whole, k)) for k in places]

    def _weights(self, cohort):
        # What is lost by configuration was computed all the same, and is added zero times.
        weights = super()._weights(cohort)
        return weights if self._weight is None else np.where(self._lost, 0.0, np.asarray(weights)).tolist()

    def _exchange(self, requests, expected, losses):
        self.mailbox.sums.clear()
        return super()._exchange(requests, expected, losses)

    def _wanted(self, expected):
        if self._weight is None:
            return super()._wanted(expected)
        return SUM, partial(validate_reply, start=self.job.start, expected=expected)

    def _total(self, replies, expected):
        return added(self.mailbox.sums, expected)


class HubFlower(Flower):
    """Runs one algorithm with the nodes of a federation that are connected to hubs."""

    asks = HubAsk

    def __init__(self, mailbox: HubMailbox, *arguments):
        super().__init__(mailbox, *arguments)
        mailbox.skips = self._skips

    def _sums_of(self, surveyed: Survey) -> dict[str, Weight | None]:
        hubs = self.job.hubs
        assert hubs is not None
        each = {site.path: hubs.forwards(site.path) for site in surveyed.sites}
        return {path: None if forwarded else weight_of(surveyed.uses(path)) for path, forwarded in each.items()}
