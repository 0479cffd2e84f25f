"""Long polling: a request for messages waits until the other side has sent its messages."""

import asyncio

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from turnout.engines.flower import long_poll

PUSH, PULL = "/v1/{}/push-messages", "/v1/{}/pull-messages"


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
        waiting = asyncio.ensure_future(link.request(PULL.format(one)))
        await until_held(link, 1)
        await link.request(PUSH.format(other), b"message")
        # Objects of the message may still be on their way; the sender's own request says that all were sent.
        assert not waiting.done()
        back = asyncio.ensure_future(link.request(PULL.format(other)))
        assert await asyncio.wait_for(waiting, 60) == b"message"
        back.cancel()

    asyncio.run(play())


def test_a_closed_connection_gets_no_message(monkeypatch):
    monkeypatch.setattr(long_poll, "MAX_WAIT", dict.fromkeys(["server", "nodes"], 1000.0))

    async def play():
        link, leave = Link(), asyncio.Event()
        waiting = asyncio.ensure_future(link.request(PULL.format("fleet"), leave=leave))
        await until_held(link, 1)
        leave.set()
        assert await asyncio.wait_for(waiting, 60) == b""
        await link.request(PUSH.format("runtime"), b"message")
        assert await link.request(PULL.format("fleet")) == b"message"

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
