"""The SuperLink's guard reads no request of a stranger, and only so much of a member's."""

import asyncio
import socket
from base64 import b64encode
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

from turnout.engines.flower import connections, guard
from turnout.engines.flower.connections import Connection
from turnout.engines.flower.guard import Keys, guarded
from turnout.engines.flower.server_connection import SECRET_HEADER

MEMBER, STRANGER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
PUSH, PULL, ACTIVATE = "/v1/fleet/push-object", "/v1/fleet/pull-messages", "/v1/fleet/activate-node"
MIB = 2**20


def signature(key, public=None) -> dict[bytes, bytes]:
    """Return the headers of Flower's nodes; `public` is the key that they name."""
    now = datetime.now(UTC).isoformat().encode()
    named = public_key_to_bytes((public or key).public_key())
    return {
        b"flwr-public-key": b64encode(named),
        b"flwr-timestamp": now,
        b"flwr-signature": b64encode(sign_message(key, now)),
    }


class Link:
    """A SuperLink that counts what it reads, behind the guard."""

    def __init__(self):
        self.read, self.lookups, self.answering, self.reason = 0, 0, asyncio.Event(), None
        self.answering.set()
        self.app = guarded(self.serve, "secret", Keys(self.registered, lambda: self.changed))
        self.changed = False

    def registered(self) -> dict[bytes, str | None]:
        self.lookups += 1
        return {public_key_to_bytes(MEMBER.public_key()): self.reason}

    async def serve(self, scope, receive, send):
        part = {"more_body": True}
        while part.get("more_body"):
            part = await receive()
            self.read += len(part["body"])
        await self.answering.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def request(self, path: str, headers: dict, size: int = 10) -> int:
        """Return the status of a request with a body of `size` bytes."""
        left, statuses = size, []

        async def receive():
            nonlocal left
            now = min(left, MIB)
            left -= now
            return {"type": "http.request", "body": bytes(now), "more_body": left > 0}

        async def send(part):
            statuses.append(part.get("status"))

        scope = {"type": "http", "path": path, "headers": [*headers.items()], "client": ("here", 1)}
        await self.app(scope, receive, send)
        return statuses[0]


def status(path: str, headers: dict, size: int = 10) -> tuple[int, int]:
    link = Link()
    return asyncio.run(link.request(path, headers, size)), link.read


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signature(STRANGER),
        signature(STRANGER, MEMBER),
        signature(MEMBER) | {b"flwr-timestamp": b"another time"},
        signature(MEMBER) | {b"flwr-signature": b"!"},
        {b"flwr-public-key": signature(MEMBER)[b"flwr-public-key"]},
        signature(MEMBER) | {b"flwr-public-key": b"!"},
        {SECRET_HEADER.encode(): b"secret"},
    ],
)
def test_no_byte_of_a_strangers_request_is_read(headers):
    assert status(PUSH, headers, 800 * MIB) == (401, 0)


def test_no_byte_is_read_without_the_secret():
    for headers in ({}, {SECRET_HEADER.encode(): b"another"}, signature(MEMBER)):
        assert status("/v1/runtime/push-messages", headers, 800 * MIB) == (403, 0)


@pytest.mark.parametrize(
    ("path", "limit"), [(PUSH, guard.OBJECT_BYTES), (PULL, guard.OTHER_BYTES), (ACTIVATE, guard.OTHER_BYTES)]
)
@pytest.mark.parametrize("declared", [True, False])
def test_a_member_sends_so_many_bytes_and_no_more(path, limit, declared):
    def length(size):
        return signature(MEMBER) | ({b"content-length": str(size).encode()} if declared else {})

    assert status(path, length(limit), limit) == (200, limit)
    code, read = status(path, length(limit + 1), limit + 1)
    assert code == 413 and read <= (0 if declared else limit)


def test_the_server_sends_more():
    secret = {SECRET_HEADER.encode(): b"secret"}
    assert status("/v1/runtime/push-messages", secret, guard.SERVER_BYTES) == (200, guard.SERVER_BYTES)
    assert status("/v1/runtime/push-messages", secret, guard.SERVER_BYTES + 1)[0] == 413


def test_a_chunk_of_flowers_passes():
    from flwr.common.constant import FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE

    assert guard.OBJECT_BYTES >= FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE + 2**16


def test_a_stranger_learns_that_it_is_refused():
    """At its first request, by a status at which Flower's nodes show the reason."""
    assert status(ACTIVATE, signature(STRANGER)) == (410, 0)


def test_a_revoked_member_is_refused_at_its_next_request():
    async def statuses() -> list[int]:
        link = Link()
        before = await link.request(PULL, signature(MEMBER))
        link.reason, link.changed = "revoked", True
        return [before, *[await link.request(path, signature(MEMBER)) for path in (PULL, ACTIVATE, guard.HEARTBEAT_PATH)]]

    assert asyncio.run(statuses()) == [200, 410, 410, 503]


def test_keys_that_cannot_be_read_after_a_change_let_nobody_in():
    async def attempts() -> None:
        link = Link()
        await link.request(PULL, signature(MEMBER))
        link.changed, link.app = True, guarded(link.serve, "secret", Keys(lambda: {}[0], lambda: True))
        for _ in range(2):
            with pytest.raises(KeyError):
                await link.request(PULL, signature(MEMBER))

    asyncio.run(attempts())


@given(st.dictionaries(st.sampled_from([*signature(MEMBER), b"content-length"]), st.binary(max_size=80)))
def test_strange_headers_are_refused(headers):
    assert status(PUSH, headers, MIB) == (401, 0)


@given(st.binary(max_size=30))
def test_strange_lengths_are_no_error(length):
    code, read = status(PUSH, signature(MEMBER) | {b"content-length": length})
    assert (code, read) in ((200, 10), (413, 0))


def test_a_member_has_so_many_requests_at_a_time(monkeypatch):
    async def play():
        link = Link()
        link.answering.clear()
        tasks = [asyncio.ensure_future(link.request(PULL, signature(MEMBER))) for _ in range(guard.MOST_AT_ONCE)]
        while link.read < 10 * guard.MOST_AT_ONCE:
            await asyncio.sleep(0)
        assert await link.request(PULL, signature(MEMBER)) == 429
        link.answering.set()
        assert [await task for task in tasks] == [200] * guard.MOST_AT_ONCE
        assert await link.request(PULL, signature(MEMBER)) == 200

    asyncio.run(play())


def test_a_member_that_sends_many_requests_waits():
    pace = guard.Pace()
    delays = [pace.delay(b"key") for _ in range(guard.BURST + 400)]
    assert max(delays[: guard.BURST]) == 0 and 0 < delays[-1] <= 400 / guard.REQUESTS_PER_SECOND
    assert pace.delay(b"another") == 0


def test_strangers_do_not_make_the_guard_read_the_keys_again_and_again():
    async def play():
        link = Link()
        strangers = [ec.generate_private_key(ec.SECP256R1()) for _ in range(50)]
        assert {*await asyncio.gather(*(link.request(PUSH, signature(key)) for key in strangers))} == {401}
        return link.lookups

    assert asyncio.run(play()) <= 2


async def answers(data: bytes, sender=None) -> bytes:
    """Return what a server with our connections answers to bytes, until it closes the connection."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b""})

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, http=Connection, ws="none", lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve([listening]))
        while not server.started:
            done, _ = await asyncio.wait([serving], timeout=0.01)
            assert not done, serving.exception()
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        try:
            writer.write(data)
            return await asyncio.wait_for(reader.read(), 30)
        except ConnectionError:
            return b""
        finally:
            writer.close()
            server.should_exit = True
            await serving


HEAD = b"GET / HTTP/1.1\r\nhost: here\r\n"


def test_a_connection_that_brings_no_request_is_closed(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
    assert asyncio.run(answers(b"")) == b"" and asyncio.run(answers(HEAD)) == b""


def test_a_head_has_so_many_bytes_and_no_more():
    assert asyncio.run(answers(HEAD + b"\r\n")).startswith(b"HTTP/1.1 200")
    for more in (b"x: " + b"y" * 10**6, b"x: y\r\n" * 10**5, b"x" * 10**6):
        assert asyncio.run(answers(HEAD + more)) == b""


def test_an_address_has_so_many_connections_and_no_more(monkeypatch):
    monkeypatch.setattr(connections, "MOST_OF_ONE", 0)
    assert asyncio.run(answers(HEAD + b"\r\n")) == b"" and not +Connection.open
