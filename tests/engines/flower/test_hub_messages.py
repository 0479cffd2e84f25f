"""Messages between the server and hubs: every client gets its own request, and only valid replies are read."""

import json

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

import turnout as t
from turnout.engines.flower.hub_messages import (
    Part,
    Whole,
    packed_replies,
    packed_requests,
    packed_sum,
    read_replies,
    read_requests,
    read_sum,
)
from turnout.engines.messaging import ask_header, messages_of
from turnout.engines.request import AskHeader, Refused, parse_header
from turnout.io.serialization import decode, encode

START = {"a": np.arange(3.0), "b": np.zeros((2, 2))}
OWN = frozenset({1, 4, 6, 9})
PLACES = [4, 9, 1]
"""The clients of the hub in the cohort, of five places, at places 0, 3 and 4."""


def headers(weights=(None, None, None)) -> dict[int, bytes]:
    versions = [np.array([1, 0]), np.array([3, 1]), np.array([1, 0])]
    return {
        client: ask_header("train", base, base, (5, 2), weight)
        for client, base, weight in zip(PLACES, versions, weights, strict=True)
    }


def message():
    """Parameters that are the same for all, and arrays of each client, one of which is shaped like the parameters."""
    stacked = {"a": np.arange(15.0).reshape(5, 3), "b": np.arange(20.0).reshape(5, 2, 2)}
    return START, t.Each((np.arange(5), stacked)), np.ones(2)


@pytest.mark.parametrize("weights", [(None, None, None), (0.25, 0.5, 0.25), (0.1, 0.1, 0.1)])
def test_each_client_gets_its_own_request(weights):
    """Through one hub, and also where this sends it on to one of its own hubs, with some of the clients."""
    whole, all_headers = Whole(message(), START), headers(weights)
    requests = {client: (all_headers[client], Part(whole, place)) for client, place in zip(PLACES, (0, 3, 4), strict=True)}
    order = read_requests(*packed_requests(requests, 12.5, True), START, OWN)
    assert (order.seconds, order.skips, [*order.requests]) == (12.5, True, PLACES)
    each = messages_of(message(), 5)
    for client, place in zip(PLACES, (0, 3, 4), strict=True):
        header, body = order.requests[client]
        assert parse_header(header, AskHeader) == parse_header(all_headers[client], AskHeader)
        assert bytes(body) == encode(each[place], START)
        assert len(requests[client][1]) == 8 * (7 + 1 + 7 + 2)
    some = {client: order.requests[client] for client in PLACES[1:]}
    below = read_requests(*packed_requests(some, 10.0, True), START, frozenset(some)).requests
    assert {client: (header, bytes(body)) for client, (header, body) in below.items()} == {
        client: (header, bytes(body)) for client, (header, body) in some.items()
    }


def test_a_message_to_all_is_sent_once():
    """Hubs share one object, and so do the clients of a hub."""
    whole = Whole((START, np.ones(2)), START)
    both = [packed_requests({client: (headers()[client], Part(whole, 0))}, 1.0, False) for client in PLACES[:2]]
    assert both[0][1] is both[1][1]
    order = read_requests(*packed_requests({i: (headers()[i], Part(whole, 0)) for i in PLACES}, 1.0, False), START, OWN)
    assert len({id(body) for _, body in order.requests.values()}) == 1


def test_what_all_headers_say_is_said_once():
    """A client beyond the first costs its number, and what its header has for itself."""
    many = {client: (ask_header("train", np.array([1, 0]), np.array([1, 0]), (5, 2)), b"") for client in range(100)}
    header, _ = packed_requests(many, 1.0, False)
    assert len(header) < 200 + 10 * len(many)


BAD_REQUESTS = {
    "no JSON": (b"\xff", b""),
    "nobody": (json.dumps({"seconds": 1, "skips": True, "shared": {}, "own": {}, "each": []}).encode(), b""),
    "another hub's": packed_requests({2: (headers()[4], b"")}, 1.0, False),
    "no message": (
        json.dumps({"seconds": 1, "skips": True, "shared": {}, "own": {"4": {}}, "each": [0]}).encode(),
        b"nothing of turnout",
    ),
    "too few parts": (
        json.dumps({"seconds": 1, "skips": True, "shared": {}, "own": {"4": {}}, "each": [0]}).encode(),
        encode([np.zeros((2, 3))], START),
    ),
    "long": (b" " * 50_000, b""),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_hub_refuses_what_is_no_request_to_it(name):
    with pytest.raises(Refused, match="the request to this hub is not valid"):
        read_requests(*BAD_REQUESTS[name], START, OWN)


ASKED = frozenset({1, 4, 9})
COUNTS = {4: {"queries": 2, "missed": 0}, 9: {"queries": 3, "missed": 1}}


def test_replies_are_forwarded_as_they_are():
    replies = {4: encode(START, START, COUNTS[4]), 9: b""}
    answer = read_replies(packed_replies(replies, {1: "not finite"}), ASKED)
    assert answer.replies == replies and answer.refused == {1: "not finite"}


def test_a_sum_comes_with_who_is_in_it_and_their_counts():
    answer, total = read_sum(packed_sum(START, START, COUNTS, {1: ""}), START, ASKED)
    assert {i: decode(reply, None)[1] for i, reply in answer.replies.items()} == COUNTS and answer.refused == {}
    np.testing.assert_equal(total, START)


def test_a_sum_of_nobody_has_no_arrays():
    answer, total = read_sum(packed_sum(START, START, {}, {1: "", 4: "malformed"}), START, ASKED)
    assert total is None and answer.replies == {} and answer.refused == {4: "malformed"}


def told(arrays, **header) -> bytes:
    return encode(arrays, START, {"clients": [4, 9], "refused": {}, **header})


TWO = [np.zeros(1, "uint8"), np.zeros(1, "uint8")]
BAD_REPLIES = {
    "no message": (b"\xff", "malformed"),
    "nobody named": (encode(TWO, START), "malformed"),
    "names": (told(TWO, clients=["4", "9"]), "malformed"),
    "others": (told(TWO, clients=[4, 6]), "of clients that it was not asked for"),
    "twice": (told(TWO, clients=[4, 4]), "two replies of one client"),
    "reasons": (told(TWO, refused=[]), "malformed"),
}


@pytest.mark.parametrize("name", BAD_REPLIES)
def test_the_server_refuses_what_does_not_say_who_has_answered(name):
    body, reason = BAD_REPLIES[name]
    with pytest.raises(ValueError, match=reason):
        read_replies(body, ASKED)
    with pytest.raises(ValueError, match=reason):
        read_sum(body, START, ASKED)


@pytest.mark.parametrize("arrays", [TWO[:1], [*TWO, TWO[0]], [TWO[0], np.zeros(1)], [TWO[0], np.zeros((1, 1), "uint8")], START])
def test_the_server_refuses_other_arrays_than_replies(arrays):
    with pytest.raises(ValueError, match="malformed"):
        read_replies(told(arrays), ASKED)


@pytest.mark.parametrize("missed", [None, [0], [0, -1], [0, True], [0, 2**31], "00"])
def test_the_server_refuses_a_sum_without_counts(missed):
    with pytest.raises(ValueError, match="without its counts"):
        read_sum(told(START, queries=[1, 1], missed=missed), START, ASKED)
