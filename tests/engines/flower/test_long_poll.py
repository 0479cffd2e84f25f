"""Long polling: a request for messages waits until the other side has sent its messages."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.message_pb2 import Message, Metadata
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PushAppMessagesRequest

from turnout.engines.flower import long_poll

PUSH, PULL = "/v1/{}/push-messages", "/v1/{}/pull-messages"
NODE, OTHER = 7, 8


def pull(node: int) -> bytes:
    """Return a node's request for messages."""
    return PullMessagesRequest(node=Node(node_id=node)).SerializeToString()


def announcement(*nodes: int) -> bytes:
    """Return the server's announcement of a message for each node."""
    messages = [Message(metadata=Metadata(dst_node_id=node)) for node in nodes]
    return PushAppMessagesRequest(messages_list=messages).SerializeToString()


PULLS, PUSHES = {"runtime": b"", "fleet": pull(NODE)}, {"runtime": announcement(NODE), "fleet": b"message"}


class Link:
    """An ASGI application that stores pushed messages until the other side pulls them, with long polling around it."""

    def __init__(self):
        self.stored, self.asked, self.app = {"runtime": [], "fleet": []}, 0, long_poll.long_polling(self.serve)

    async def serve(self, scope, receive, send):
        side, what = scope["path"].split("/")[2:]
        body, answer = (await receive())["body"], b""
        if what == "push-messages":
            self.stored["fleet" if side == "runtime" else "runtime"].append(body)
        else:
            self.asked += 1
            answer = self.stored[side].pop() if self.stored[side] else b""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer})

    async def request(self, path, body=b"", leave=None):
        """Return the response to a request; the connection closes when the event `leave` is set."""
        parts, answer = [{"type": "http.request", "body": body, "more_body": False}], []

        async def receive():
            if parts:
                return parts.pop()
            await (leave or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(part):
            answer.append(part.get("body", b""))

        await self.app({"type": "http", "path": path}, receive, send)
        return b"".join(answer)


async def until_held(link, times):
    while link.asked < times:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("one", "other"), [("runtime", "fleet"), ("fleet", "runtime")])
def test_a_waiting_request_gets_what_the_other_side_sends(one, other, monkeypatch):
    monkeypatch.setattr(long_poll, "MAX_WAIT", dict.fromkeys(["server", "nodes"], 1000.0))

    async def play():
        link = Link()
        waiting = asyncio.ensure_future(link.request(PULL.format(one), PULLS[one]))
        await until_held(link, 1)
        await link.request(PUSH.format(other), PUSHES[other])
        # Objects of the message may still be on their way; the sender's own request says that all were sent.
        assert not waiting.done()
        back = asyncio.ensure_future(link.request(PULL.format(other), PULLS[other]))
        assert await asyncio.wait_for(waiting, 60) == PUSHES[other]
        back.cancel()

    asyncio.run(play())


@given(st.sets(st.integers(1, 9)), st.sets(st.integers(1, 9), min_size=1))
def test_only_the_nodes_with_messages_ask_again(waiting, addressed):
    async def play():
        link = Link()
        requests = [asyncio.ensure_future(link.request(PULL.format("fleet"), pull(node))) for node in waiting]
        await until_held(link, len(waiting))
        await link.request(PUSH.format("runtime"), announcement(*addressed))
        back = asyncio.ensure_future(link.request(PULL.format("runtime")))
        await until_held(link, len(waiting) + 1)
        assert link.asked == len(waiting) + 1 + len(waiting & addressed)
        for request in (back, *requests):
            request.cancel()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_poll, "MAX_WAIT", dict.fromkeys(["server", "nodes"], 1000.0))
        asyncio.run(play())


def test_a_node_without_messages_is_known(monkeypatch):
    monkeypatch.setattr(long_poll, "MAX_WAIT", dict.fromkeys(["server", "nodes"], 0.01))

    async def play():
        link = Link()
        assert [await link.request(PULL.format("fleet"), pull(node)) for node in (NODE, NODE, OTHER)] == [b""] * 3
        assert link.asked == 2
        await link.request(PUSH.format("runtime"), announcement(NODE))
        assert await link.request(PULL.format("fleet"), pull(OTHER)) == b"" and link.asked == 2
        assert await link.request(PULL.format("fleet"), pull(NODE)) == announcement(NODE) and link.asked == 3
        # There may be another one.
        assert await link.request(PULL.format("fleet"), pull(NODE)) == b"" and link.asked == 4
        assert await link.request(PULL.format("fleet"), pull(NODE)) == b"" and link.asked == 4

    asyncio.run(play())


def test_a_node_whose_request_failed_is_not_known_to_have_no_messages():
    async def play():
        arrivals = long_poll.Arrivals()

        async def fails():
            raise ConnectionError

        async def empty():
            return long_poll.NOTHING

        with pytest.raises(ConnectionError):
            await long_poll.ask(fails, arrivals, NODE)
        assert not arrivals.without
        await long_poll.ask(empty, arrivals, NODE)
        await long_poll.ask(empty, arrivals, "server")
        assert arrivals.without == {NODE}

    asyncio.run(play())


@given(st.binary(max_size=30))
def test_who_sends_or_asks_for_messages_in_bytes_that_are_none_is_nobody_or_anybody(body):
    assert all(type(node) is int for node in long_poll.addressees(body))
    assert type(long_poll.receiver_of("nodes", body)) is int


def test_requests_go_on_by_rank_and_those_of_senders_who_gave_up_not_at_all():
    """A slow SuperLink serves the server, then heartbeats, then replies, and drops what nobody waits for any more."""
    served, free = [], asyncio.Event()

    async def slow(scope, receive, send):
        served.append(scope["path"])
        await receive()
        await free.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def play():
        link, leave = Link(), asyncio.Event()
        link.app = long_poll.long_polling(slow)
        first, given_up, node, reply, heartbeat, server = (
            "/v1/fleet/register-node", "/v1/fleet/confirm-message-received", "/v1/fleet/pull-object", long_poll.REPLY_PATH,
            long_poll.HEARTBEAT_PATH, "/v1/runtime/pull-object",
        )  # fmt: skip
        requests = []
        for path in (first, given_up, node, reply, heartbeat, server):
            requests.append(asyncio.ensure_future(link.request(path, leave=leave if path == given_up else None)))
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert served == [first]
        leave.set()
        for _ in range(10):
            await asyncio.sleep(0)
        free.set()
        await asyncio.wait_for(asyncio.gather(*requests), 60)
        assert served == [first, server, heartbeat, reply, node]

    asyncio.run(play())


def test_a_closed_connection_gets_no_message(monkeypatch):
    monkeypatch.setattr(long_poll, "MAX_WAIT", dict.fromkeys(["server", "nodes"], 1000.0))

    async def play():
        link, leave = Link(), asyncio.Event()
        waiting = asyncio.ensure_future(link.request(PULL.format("fleet"), pull(NODE), leave))
        await until_held(link, 1)
        leave.set()
        assert await asyncio.wait_for(waiting, 60) == b""
        await link.request(PUSH.format("runtime"), announcement(NODE))
        assert await link.request(PULL.format("fleet"), pull(NODE)) == announcement(NODE)

    asyncio.run(play())


def test_a_request_is_answered_after_the_longest_wait(monkeypatch):
    monkeypatch.setattr(long_poll, "MAX_WAIT", dict.fromkeys(["server", "nodes"], 0.01))
    link = Link()
    assert asyncio.run(link.request(PULL.format("fleet"))) == b"" and link.asked == 1


def test_a_request_that_fails_is_tried_again(monkeypatch):
    monkeypatch.setattr(long_poll, "PAUSE", 0.0)
    asked = []

    async def busy(scope, receive, send):
        asked.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 500 if len(asked) < 3 else 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    link = Link()
    link.app = long_poll.long_polling(busy)
    assert asyncio.run(link.request("/v1/fleet/push-object", b"part")) == b"done" and asked == [b"part"] * 3
