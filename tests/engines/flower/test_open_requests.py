"""Whose reply counts for a request in flight: scripted arrivals in the place of a network."""

from collections import Counter, defaultdict
from itertools import count
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from turnout.engines.flower import open_requests


class Link:
    """A mailbox and the transfers of its replies.

    `announced` are the messages whose replies have begun to come, and `arrived` has the replies that are there, in order.
    """

    def __init__(self):
        self.numbers, self.arrived, self.announced = count(), [], set()
        self.grid, self.deadline, self.digest, self.counts = None, 10.0, "digest", Counter()
        self.sent: list[str] = []

    def push(self, requests, kind):
        sent = {f"message {next(self.numbers)}": node for node in requests}
        self.sent += sent
        return sent

    def look(self, unheard):
        return self.announced & unheard

    def advance(self):
        arrived, self.arrived = self.arrived, []
        yield from arrived

    def close(self):
        pass

    def __len__(self):
        return len(self.arrived)


@pytest.fixture
def played(monkeypatch):
    """One client that is asked again, the link to it, and the time."""
    link, now = Link(), [0.0]
    nodes = defaultdict(None, {7: SimpleNamespace(node=17, name="north")})
    clients = SimpleNamespace(mailbox=link, nodes=Nodes(nodes), present=list)
    monkeypatch.setattr(open_requests, "Transfers", lambda *_: link)
    monkeypatch.setattr(open_requests, "opened", lambda message: (message, None))
    monkeypatch.setattr(open_requests, "is_lost", lambda message: message == b"lost")
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + 1))
    monkeypatch.setattr(open_requests, "time", clock)
    return open_requests.OpenRequests(clients, 100, lambda body: None, repeats=True, elapsed=0.0), link, now


class Nodes(dict):
    """The clients of a federation, with the counts of what went wrong."""

    def __init__(self, nodes):
        super().__init__(nodes)
        self.unusable = defaultdict(Counter)


def test_a_reply_to_a_former_message_is_no_reply_to_a_later_request(played):
    """The first message is late while its reply is on its way; the client answers the second one too."""
    requests, link, now = played
    requests.post({7: (b"{}", b"first")})
    link.announced = {link.sent[0]}
    requests._fetch()
    now[0] = 11.0
    requests._give_up()
    now[0] = 12.0
    requests._give_up()
    first, second = link.sent
    link.arrived = [(first, b"reply")]
    requests._fetch()
    link.announced, link.arrived = {second}, [(second, b"reply")]
    (landed,) = requests.wait(1)
    assert (landed.reply, landed.repeats) == (b"reply", 1)
    requests.post({7: (b"{}", b"next")})
    third = link.sent[-1]
    link.announced, link.arrived = {second, third}, [*link.arrived, (second, b"stale"), (third, b"reply to the next")]
    (landed,) = requests.wait(1)
    assert (landed.reply, landed.repeats) == (b"reply to the next", 0)


def test_a_former_message_is_not_waited_for_once_the_client_is_asked_again(played):
    requests, link, now = played
    requests.post({7: (b"{}", b"first")})
    now[0] = 11.0
    requests._give_up()
    now[0] = 12.0
    requests._give_up()
    link.announced, link.arrived = {*link.sent}, [(link.sent[0], b"stale"), (link.sent[1], b"again")]
    (landed,) = requests.wait(1)
    assert landed.reply == b"again"


def test_a_request_that_the_superlink_has_lost_is_sent_again_at_once_and_counts_as_no_refusal(played):
    requests, link, now = played
    requests.post({7: (b"{}", b"first")})
    link.announced, link.arrived = {*link.sent}, [(link.sent[0], b"lost")]
    requests._fetch()
    requests._give_up()
    first, second = link.sent
    link.announced, link.arrived = {second}, [(second, b"reply")]
    (landed,) = requests.wait(1)
    assert (landed.reply, landed.repeats, link.counts) == (b"reply", 0, {})
