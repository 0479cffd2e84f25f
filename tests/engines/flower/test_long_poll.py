"""A request for messages waits until the other side has sent all of its own."""

import asyncio

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from turnout.engines.flower import long_poll as patience

PUSH, PULL = "/v1/{}/push-messages", "/v1/{}/pull-messages"


class Link:
    """An ASGI application that keeps what is pushed until the other side pulls, and one that is patient with it."""

    def __init__(self):
        self.kept, self.asked, self.app = {"runtime": [], "fleet": []}, 0, patience.patient(self.serve)

    async def serve(self, scope, receive, send):
        side, what = scope["path"].split("/")[2:]
        body, answer = (await receive())["body"], b""
        if what == "push-messages":
            self.kept["fleet" if side == "runtime" else "runtime"].append(body)
        else:
            self.asked += 1
            answer = self.kept[side].pop() if self.kept[side] else b""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer})

    async def request(self, path, body=b"", leave=None):
        """What a request gets; who asked leaves when the event `leave` is set."""
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
    monkeypatch.setattr(patience, "HOLD", 1000.0)

    async def play():
        link = Link()
        waiting = asyncio.ensure_future(link.request(PULL.format(one)))
        await until_held(link, 1)
        await link.request(PUSH.format(other), b"letter")
        # Its parts may still be on their way; that it waits says that they are there.
        assert not waiting.done()
        back = asyncio.ensure_future(link.request(PULL.format(other)))
        assert await asyncio.wait_for(waiting, 60) == b"letter"
        back.cancel()

    asyncio.run(play())


def test_nothing_is_handed_to_who_has_left(monkeypatch):
    monkeypatch.setattr(patience, "HOLD", 1000.0)

    async def play():
        link, leave = Link(), asyncio.Event()
        waiting = asyncio.ensure_future(link.request(PULL.format("fleet"), leave=leave))
        await until_held(link, 1)
        leave.set()
        assert await asyncio.wait_for(waiting, 60) == b""
        await link.request(PUSH.format("runtime"), b"letter")
        assert await link.request(PULL.format("fleet")) == b"letter"

    asyncio.run(play())


def test_a_request_is_answered_in_the_end(monkeypatch):
    monkeypatch.setattr(patience, "HOLD", 0.01)
    link = Link()
    assert asyncio.run(link.request(PULL.format("fleet"))) == b"" and link.asked == 1


def test_a_request_that_fails_is_tried_again(monkeypatch):
    monkeypatch.setattr(patience, "PAUSE", 0.0)
    asked = []

    async def busy(scope, receive, send):
        asked.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 500 if len(asked) < 3 else 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    link = Link()
    link.app = patience.patient(busy)
    assert asyncio.run(link.request("/v1/fleet/push-object", b"part")) == b"done" and asked == [b"part"] * 3
