"""Rounds that a hub plays whose members are hubs: it is to these what the server is to it."""

from turnout.engines.flower.hub_engine import HubAsk
from turnout.engines.flower.hub_serving import ServingAsk


class ServingByHubs(ServingAsk, HubAsk):
    """Answers `ask` in a hub that plays a round of the server by messages to its own hubs, one of which may play it in turn."""

    @property
    def done(self):
        return super().done + self.at_work.exchanges
