"""Requests that a SuperLink has lost, which was killed and started again: scripted answers in the place of a network."""

from itertools import count

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.app import Error, Metadata
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.supercore.task_identity import TaskIdentity

from turnout.engines.flower import mailbox as module
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.payload import pack, pack_body


class SuperLink:
    """Loses the first messages to each of some nodes, and has the replies to the others at once.

    Args:
        losses: How many messages to each node, by its id.
        code: The code of the error that it gives instead.
    """

    def __init__(self, losses: dict[int, int], code: int = ErrorCode.MESSAGE_UNAVAILABLE):
        self.code = code
        self.losses, self.numbers, self.node_of = dict(losses), count(), {}
        self.pushes: list[list[int]] = []

    def push_messages(self, messages):
        self.pushes.append([message.metadata.dst_node_id for message in messages])
        sent = {f"message {next(self.numbers)}": message.metadata.dst_node_id for message in messages}
        self.node_of |= sent
        return [*sent]

    def reply(self, message: str):
        node, metadata = self.node_of[message], Metadata(1, "", 1, 0, message, "", 0.0, 60.0, "query")
        if self.losses.get(node, 0):
            self.losses[node] -= 1
            return make_message(metadata, error=Error(self.code, "unknown"))
        return make_message(metadata, pack(pack_body(b"reply"), b"{}"))


class Transfers:
    """The replies of that SuperLink on their way."""

    def __init__(self, grid: SuperLink, limit: int):
        self.grid, self.open = grid, []

    def __len__(self):
        return len(self.open)

    def look(self, asked):
        self.open += sorted(asked)
        return asked

    def advance(self):
        while self.open:
            message = self.open.pop()
            yield message, self.grid.reply(message)

    def close(self):
        pass


@pytest.fixture(autouse=True)
def scripted(monkeypatch):
    """Messages of a run, whose replies come from the script."""
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    monkeypatch.setattr(module, "Transfers", Transfers)


def test_a_request_that_is_lost_is_sent_once_more_and_its_client_is_not_blamed():
    link = SuperLink({5: 1, 7: 1})
    mailbox = Mailbox(link, deadline=60.0)
    replies = mailbox.send({node: (b"{}", b"body") for node in (5, 6, 7)}, "ask", 100, lambda body: None)
    assert {node: bytes(body) for node, body in replies.items()} == dict.fromkeys((5, 6, 7), b"reply")
    assert [sorted(nodes) for nodes in link.pushes] == [[5, 6, 7], [5, 7]]
    assert not mailbox.refused and not any(mailbox.counts.values())


def test_a_request_that_is_lost_again_is_refused():
    """A node that lies about it holds up nothing."""
    link = SuperLink({5: 2})
    mailbox = Mailbox(link, deadline=60.0)
    assert not mailbox.send({5: (b"{}", b"body")}, "ask", 100, lambda body: None)
    assert link.pushes == [[5], [5]] and mailbox.refused == {5: "error 3: unknown"}


def test_a_node_that_is_away_is_missing_and_not_refused():
    """Refusals in a row would leave it out for good, when it may come back."""
    mailbox = Mailbox(SuperLink({5: 1}, ErrorCode.NODE_UNAVAILABLE), deadline=60.0)
    assert [*mailbox.send({node: (b"{}", b"body") for node in (5, 6)}, "ask", 100, lambda body: None)] == [6]
    assert not mailbox.refused and mailbox.counts["not connected"] == 1
