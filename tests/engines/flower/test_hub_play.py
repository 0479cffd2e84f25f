"""Hubs that play rounds by themselves, without their network: the compiled run's numbers, and what hubs may not say."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

import turnout as t
from tests.engines.flower.test_groups import CLIENTS as NORMALISED
from tests.engines.flower.test_groups import STATISTICS, written
from tests.engines.flower.test_hubs import CLIENTS, DIMENSION, SKIP, compiled, configured, passed, untimed
from tests.helpers.in_process_hubs import InProcessHubs
from turnout.engines.flower.greeting import MOST_REFUSED, gathered
from turnout.engines.flower.hub_play import Order, packed_busy, packed_order, read_order
from turnout.engines.hubs_ask import APART
from turnout.engines.request import Refused
from turnout.io.serialization import decode, encode

NICE = '[sampler]\nkind = "nice"\nsize = 2\n'


def in_hubs(algorithm: str, rounds: int = 3, more: str = "") -> str:
    return NICE + f'[algorithm]\nkind = "in-hubs"\nrounds = {rounds}\n{more}\n[algorithm.algorithm]\n{algorithm}\n'


FEDAVG = 'kind = "fedavg"\nlr = 0.001\nsteps = 2'
ALGORITHMS = {
    "fedavg": in_hubs(FEDAVG),
    "sppm": in_hubs('kind = "sppm"\ngamma = 0.001\ninner = 3\nsolver = { kind = "bfgs", convexity = 0.0 }', rounds=2),
    "scaffold": in_hubs('kind = "scaffold"\nlr = 0.001\nsteps = 2'),
    "scaffnew": in_hubs('kind = "scaffnew"\nlr = 0.001\nprobability = 0.5'),
    "coded": in_hubs(FEDAVG) + '[exchange]\nup = { kind = "qsgd", bits = 4 }\n',
    "remembered": in_hubs(FEDAVG) + '[exchange]\nup = { kind = "top-k", count = 2 }\nfeedback = "ef21"\n',
    "ef21 above": in_hubs(FEDAVG, more='up = { kind = "top-k", count = 1 }\nfeedback = "ef21"'),
    "ef14 above": in_hubs(FEDAVG, more='up = { kind = "qsgd", bits = 2 }\nfeedback = "ef14"'),
    "momentum": in_hubs(FEDAVG, more='server_optimiser = { kind = "sgd", lr = 0.7, momentum = 0.9, nesterov = true }'),
    "clipped": in_hubs(FEDAVG) + '[faults]\nclip = 1e-3\nmissing = "skip"\n',
    "losses": in_hubs(FEDAVG) + '[faults]\nloss = 0.4\nmissing = "skip"\n',
    "repeats": in_hubs(FEDAVG) + '[faults]\nloss = 0.4\nmissing = "repeat"\n',
}


@pytest.mark.tiers(quick=[], longer=["fedavg-consecutive"], slow=["*-in turn", "ef21 above-consecutive"])
@pytest.mark.parametrize("hubs", ["count = 3", f"of = {[k % 4 for k in range(CLIENTS)]}"], ids=["consecutive", "in turn"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_hubs_play_the_compiled_run(name, hubs):
    """Numbers to 1e-10, all counts, and the bytes on the server's link, of one message and one reply of each hub a round."""
    experiment = configured(ALGORITHMS[name], hubs)
    expected, place = compiled(experiment), InProcessHubs(experiment)
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(trace.columns["value"], expected.columns["value"], rtol=1e-10)
    assert untimed(trace) == untimed(expected) and passed(trace) == passed(expected)
    ((_, messages, _, down, up),) = passed(trace)
    assert place.payloads == {"down": down, "up": up, "messages": messages}
    assert not {"ask", "sum"} & {*place.headers}


@pytest.mark.slow
def test_statistics_of_models_are_those_of_each_hub_and_then_their_mean(tmp_path, monkeypatch):
    """Running means of batch normalisation, in PyTorch."""
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
    (tmp_path / "normalised_clients.py").write_text(NORMALISED)
    monkeypatch.syspath_prepend(tmp_path)
    head, _, inside = STATISTICS.partition("[algorithm]")
    inside, _, run = inside.partition("[run]")
    text = f'{head}[algorithm]\nkind = "in-hubs"\nrounds = 2\n[algorithm.algorithm]{inside}[hubs]\ncount = 2\n[run]{run}'
    experiment = written(tmp_path, "statistics", text)
    place = InProcessHubs(experiment)
    trace, expected = place.session().run().trace, compiled(experiment)
    for name, leaf in expected.x.items():
        np.testing.assert_allclose(trace.x[name], leaf, rtol=2e-5, atol=1e-6, err_msg=name)
    assert any("running_mean" in name for name in trace.x) and untimed(trace) == untimed(expected)
    assert (place.payloads["down"], place.payloads["up"]) == passed(trace)[0][3:]


REPEAT = '[faults]\nmissing = "repeat"\n'
KEEPS = in_hubs('kind = "scaffold"\nlr = 0.001\nsteps = 2', more='up = { kind = "top-k", count = 1 }\nfeedback = "ef21"')
"""Clients and hubs with states of their own."""


@pytest.mark.slow
def test_a_run_goes_on_from_its_checkpoint():
    """Hubs and clients find the states that they had then, though they have played a round since."""
    experiment = configured(KEEPS, rounds=5)
    place = InProcessHubs(experiment)
    first = place.session()
    first.step(1)
    first.step(2)
    snapshot = first.snapshot()
    first.step(1)
    second = place.session(resumed=True)
    second.restore(snapshot)
    second.run()
    np.testing.assert_allclose(second.trace.x, compiled(experiment).x, rtol=1e-10)


class Crash(Exception):
    """A process that ends."""


@pytest.mark.tiers(quick=[], slow=["*"])
@pytest.mark.parametrize("asked", [6, 8, 9])
def test_a_hub_that_is_started_again_in_a_round_plays_it_anew(tmp_path, asked):
    """In the first, the second or the last of its exchanges, from the states of clients before the first."""
    experiment = configured(KEEPS.replace("size = 2", "size = 4") + REPEAT)
    seen = []

    def crash(kind, number, reply):
        seen.append(number)
        if kind == "ask" and number == asked and seen.count(number) == 1:
            place.restart(1)
            raise Crash
        return reply

    place = InProcessHubs(experiment, inner={1: {5: crash}}, folder=tmp_path)
    trace, expected = place.session().run().trace, compiled(experiment)
    assert seen.count(asked) == 1 and max(seen) > 4 * 3
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected)


@pytest.mark.slow
def test_a_hub_whose_states_are_gone_says_so():
    """A reply that is not needed any more is not computed anew from others."""
    experiment = configured(KEEPS + SKIP)
    place = InProcessHubs(experiment)
    session = place.session()
    session.step(1)
    session.step(1)
    place.restart(1)
    session.step(1)
    assert session.trace.ledger.links()[0]["server_arrivals"] == 3 + 2
    assert any("which this hub does not have: give it its former folder" in reason for reason in place.counts)


@pytest.mark.slow
def test_a_reply_that_is_lost_is_sent_again():
    """Without playing again: each node is asked as often as in the compiled run."""
    experiment, replies = configured(in_hubs(FEDAVG) + REPEAT), []

    def lose_first(kind, reply):
        replies.append(kind)
        return None if kind == "play" and replies.count("play") == 1 else reply

    place = InProcessHubs(experiment, {1: lose_first})
    trace, expected = place.session().run().trace, compiled(experiment)
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected) and replies.count("play") == 4 + 1
    assert sum(len(clients) for kind, clients in place.nodes_of[1].asked if kind == "ask") == 4 * 3 * 2


@pytest.mark.slow
def test_a_hub_at_work_is_waited_for():
    """Longer than a deadline, of a microsecond; it plays once."""
    experiment = configured(in_hubs(FEDAVG) + REPEAT)
    place = InProcessHubs(experiment)
    place.deadline = 1e-6
    trace, expected = place.session().run().trace, compiled(experiment)
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected) and place.payloads["messages"] > 4 * 3
    assert sum(len(clients) for kind, clients in place.nodes_of[1].asked if kind == "ask") == 4 * 3 * 2


@pytest.mark.slow
def test_a_hub_that_makes_no_further_exchange_is_left_out_of_the_round():
    """With "skip", it is asked again once, after it has said that it is at work."""
    experiment = configured(in_hubs(FEDAVG) + SKIP)
    place = InProcessHubs(experiment, {1: lambda kind, reply: packed_busy(3) if kind == "play" else reply})
    trace, expected = place.session().run().trace, without_hub(experiment)
    np.testing.assert_array_equal(trace.x, expected.x)
    assert untimed(trace) == untimed(expected) and place.payloads["messages"] == 4 * (2 + 2)


def silent(kind, reply):
    return None if kind == "play" else reply


def without_hub(experiment, hub: int = 1):
    """The run in which a hub never answers."""
    return InProcessHubs(experiment, {hub: silent}).session().run().trace


def another_reply(change, kind, reply) -> bytes:
    return change(*decode(reply, np.zeros(DIMENSION))) if kind == "play" else reply


def resent(tree, told) -> bytes:
    return encode(tree, np.zeros(DIMENSION), told)


def with_count(told: dict, name: str, count) -> dict:
    path = next(path for path, own in told["counts"].items() if "contacts" in own)
    return told | {"counts": told["counts"] | {path: told["counts"][path] | {name: count}}}


COUNTS, SHAPE = "a hub's reply is without its counts, or with others than its calls allow", "of another shape or type"
BAD_HUBS = {
    "garbage": (lambda tree, told: b"garbage", "a hub's reply is malformed"),
    "NaN": (lambda tree, told: resent(np.full(DIMENSION, np.nan), told), "a hub's reply is not finite"),
    "longer": (lambda tree, told: resent(np.zeros(DIMENSION + 1), told), SHAPE),
    "single": (lambda tree, told: resent(tree.astype("float32"), told), SHAPE),
    "two": (lambda tree, told: resent((tree, tree), told), SHAPE),
    "negative": (lambda tree, told: resent(tree, with_count(told, "contacts", -1)), COUNTS),
    "many": (lambda tree, told: resent(tree, with_count(told, "contacts", 3 * 4 + 1)), COUNTS),
    "more arrive": (lambda tree, told: resent(tree, with_count(told, "arrivals", 3 * 4 + 1)), COUNTS),
    "a fraction": (lambda tree, told: resent(tree, with_count(told, "contacts", 0.5)), COUNTS),
    "unknown": (lambda tree, told: resent(tree, with_count(told, "profits", 1)), COUNTS),
    "elsewhere": (lambda tree, told: resent(tree, told | {"counts": {"0.link1": {"contacts": 1}}}), COUNTS),
    "no counts": (lambda tree, told: resent(tree, told | {"counts": None}), COUNTS),
    "others": (lambda tree, told: resent(tree, told | {"made": {"0": 1}}), "with states of other clients or exchanges"),
    "later": (lambda tree, told: resent(tree, told | {"made": {"4": 3}}), "with states of other clients or exchanges"),
    "endless": (lambda tree, told: resent(tree, told | {"exchanges": APART + 1}), "without the number of its exchanges"),
    "busy": (lambda tree, told: resent(None, {"busy": "very"}), "without the number of its exchanges"),
    "blames others": (lambda tree, told: resent(tree, told | {"unusable": {"0": {"late": 1}}}), "malformed"),
}


@pytest.mark.tiers(
    longer=["NaN"],
    slow=[
        "garbage",
        "longer",
        "single",
        "two",
        "negative",
        "many",
        "more arrive",
        "a fraction",
        "unknown",
        "elsewhere",
        "no counts",
        "others",
        "later",
        "endless",
        "busy",
        "blames others",
    ],
)
@pytest.mark.parametrize("name", BAD_HUBS)
def test_what_a_hub_may_not_say_is_counted_and_never_used(name):
    """The run is that of the other hubs."""
    change, reason = BAD_HUBS[name]
    experiment = configured(in_hubs(FEDAVG) + SKIP)
    place = InProcessHubs(experiment, {1: partial(another_reply, change)})
    trace, expected = place.session().run().trace, without_hub(experiment)
    np.testing.assert_array_equal(trace.x, expected.x)
    assert untimed(trace) == untimed(expected) and passed(trace)[0][2] == 4 * 2
    (said,) = [told for told, count in place.counts.items() if count and told.startswith("a hub's reply")]
    assert reason in said and place.counts[said] == 4


@pytest.mark.slow
def test_a_robust_mean_is_taken_in_each_hub_and_of_hubs():
    """As in the compiled run."""
    experiment = configured(in_hubs(FEDAVG).replace("size = 2", "size = 3"), run='aggregation = { kind = "median" }')
    expected, trace = compiled(experiment), InProcessHubs(experiment).session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10, atol=1e-12)
    assert untimed(trace) == untimed(expected)


@pytest.mark.tiers(quick=[], slow=["1000000.0"])
@pytest.mark.parametrize("lie", [-1e6, 1e6])
def test_two_malicious_hubs_of_ten_are_outvoted(lie):
    """Each entry of the change is among those of honest hubs, whatever two hubs say that they have found."""
    run = 'aggregation = { kind = "trimmed-mean", share = 0.25 }'
    experiment, honest = configured(in_hubs(FEDAVG), "count = 10", run, rounds=1, clients=20), {}

    def seen(hub, tree, told):
        honest[hub] = tree
        return resent(tree * (lie if hub in (2, 7) else 1.0), told)

    session = InProcessHubs(experiment, {hub: partial(another_reply, partial(seen, hub)) for hub in range(10)}).session()
    change = session.run().trace.x - np.asarray(session.engine.job.start)
    found = np.stack([honest[hub] for hub in honest.keys() - {2, 7}])
    assert len(found) == 8 and np.any(change != 0)
    assert np.all(change >= found.min(0) - 1e-12) and np.all(change <= found.max(0) + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["clip", "norm"])
def test_a_hub_that_lies_is_bounded_as_a_client_is(bound):
    """With "clip" what it sends is scaled down, and the mean of three hubs moves by a third of it; with "norm" it is left out."""
    experiment = configured(in_hubs(FEDAVG) + SKIP + f"{bound} = 0.3\n", rounds=1)
    place = InProcessHubs(experiment, {1: partial(another_reply, lambda tree, told: resent(-1e6 * tree, told))})
    trace, honest = place.session().run().trace, compiled(experiment)
    without = without_hub(experiment)
    moved = np.linalg.norm(trace.x - (without.x if bound == "norm" else honest.x))
    assert moved <= 1e-12 if bound == "norm" else 0 < moved <= 2 * 0.3 / 3 + 1e-12


def test_what_hubs_compress_has_no_norm_to_bound():
    experiment = configured(in_hubs(FEDAVG, more='up = { kind = "top-k", count = 1 }') + "[faults]\nclip = 1.0\n")
    with pytest.raises(t.UserError, match="norm and clip bound what hubs find, and up compresses it"):
        compiled(experiment)


@pytest.mark.slow
def test_a_hub_that_is_away_has_not_answered_and_comes_back():
    place = InProcessHubs(configured(in_hubs(FEDAVG) + SKIP))
    session, arrived = place.session(), []
    session.step(1)
    for away in (set(), {101}, {101}, set()):
        place.away = away
        session.step(1)
        arrived.append(passed(session.trace)[0][2])
    assert np.diff([0, *arrived]).tolist() == [3, 2, 2, 3]
    assert passed(session.trace)[0][:2] == (4, 4 * 3)


@pytest.mark.slow
def test_a_run_that_needs_all_hubs_ends_in_a_sentence():
    place = InProcessHubs(configured(in_hubs(FEDAVG)))
    session = place.session()
    place.away = {101}
    with pytest.raises(t.UserError, match=r"hub 1 has not played in round 1 \(.*\): look into its log, .* 'skip' .* 'repeat'"):
        session.run()


@pytest.mark.tiers(quick=[], slow=["repeat"])
@pytest.mark.parametrize("missing", ["skip", "repeat"])
def test_a_hub_that_is_refused_again_and_again_is_left_out(missing, monkeypatch):
    """With its clients; where their replies are needed the run ends."""
    monkeypatch.setattr("turnout.engines.flower.clients.FIRST_PAUSE", 0.0)
    experiment = configured(in_hubs(FEDAVG) + f'[faults]\nmissing = "{missing}"\n', rounds=MOST_REFUSED + 2)
    place = InProcessHubs(experiment, {1: partial(another_reply, lambda tree, told: b"garbage")})
    session = place.session()
    if missing == "repeat":
        with pytest.raises(t.UserError, match="hub 1: a hub's reply is malformed, after 12 requests"):
            session.run()
        return
    session.run()
    assert place.counts["a hub's reply is malformed"] == MOST_REFUSED
    assert session.engine.facts()["federation"]["left_out"] == [f"client {i}" for i in range(4, 8)]


@pytest.mark.slow
def test_a_client_that_gives_no_usable_reply_is_told_by_its_hub():
    """By name, as without hubs."""
    experiment = configured(in_hubs(FEDAVG).replace("size = 2", "size = 4") + SKIP)
    place = InProcessHubs(experiment, inner={1: {5: lambda kind, number, reply: b"garbage" if kind == "ask" else reply}})
    session = place.session().run()
    assert session.trace.ledger.totals()["arrivals"] == 4 * 3 * (CLIENTS - 1)
    (status,) = [one for one in session.engine.facts()["federation"]["members"] if one["unusable"]]
    assert status["name"] == "client 5" and sum(status["unusable"].values()) > 0


@pytest.mark.slow
def test_times_are_those_that_the_server_measured():
    """What hubs claim is never longer than what passed; the rest is that of the link."""

    def slow(tree, told):
        return resent(tree, with_count(told, "microseconds", 2**40))

    trace = InProcessHubs(configured(in_hubs(FEDAVG)), {1: partial(another_reply, slow)}).session().run().trace
    totals, (link,) = trace.ledger.totals(), trace.ledger.links()
    assert 0 < totals["seconds"] < 1000 and 0 <= link["seconds"] <= totals["seconds"]


def test_a_hub_of_another_version_is_refused():
    def older(kind, reply):
        return json.dumps(json.loads(reply) | {"version": "0.0.1"}).encode() if kind == "hello" else reply

    place = InProcessHubs(configured(in_hubs(FEDAVG)), {1: older})
    with pytest.raises(t.UserError, match="does not agree on version: give the server and all nodes the same version of turnout"):
        gathered(place.clients(), 0.0)


def test_a_hub_that_does_not_play_says_so():
    place = InProcessHubs(configured(NICE + f"[algorithm]\n{FEDAVG}\n[faults]\nnorm = 1e3\n"))
    members = gathered(place.clients(), 60.0)
    assert place.send({101: (b"{}", b"")}, f"play_{members.mailbox.digest}", 1000, lambda body: None) == {}
    assert "has hubs play no rounds" in place.refused[101]


ORDER = Order("1.loop", 3, 0, 0, [(1, 0), (2, 0)], [(1, 0)] * 2, [(-1, -1)] * 2, 48.0)
BAD_ORDERS = {
    "no JSON": b"\xff",
    "nothing": b"{}",
    "of another call": packed_order(ORDER._replace(path="0.loop")),
    "of more clients": packed_order(ORDER._replace(base=[(1, 0)] * 3)),
    "of half a version": packed_order(ORDER._replace(own=[(1,), (1, 0)])),
    "of a negative round": packed_order(ORDER._replace(round=-1)),
    "long": b" " * 50_000,
}


def test_an_order_is_read_as_it_was_written():
    assert read_order(packed_order(ORDER), 2, ("1.loop",)) == ORDER


@pytest.mark.parametrize("name", BAD_ORDERS)
def test_a_hub_refuses_what_is_no_order_to_it(name):
    with pytest.raises(Refused, match="the request to this hub is not valid"):
        read_order(BAD_ORDERS[name], 2, ("1.loop",))


def test_a_sampler_with_a_state_is_refused():
    sampler = '[sampler]\nkind = "adaptive-size"\nsampler = { kind = "independent", size = 2.0 }\n'
    with pytest.raises(t.UserError, match="AdaptiveSize keeps a state, which hubs of a federation do not share"):
        InProcessHubs(configured(in_hubs(FEDAVG).replace(NICE, sampler))).session()


@t.record
class Both(t.InHubs):
    """Asks clients by itself after hubs have worked."""

    def round(self, ask, server):
        server = super().round(ask, server)
        return server._replace(x=server.x + ask(self.sampler, self.algorithm.train, (server.x, None)).mean())


@pytest.mark.slow
def test_codecs_do_not_go_with_exchanges_of_the_server_itself():
    """Hubs add replies to these up, and payloads of a codec are no numbers to add."""
    experiment = configured(ALGORITHMS["coded"])
    place = InProcessHubs(experiment)
    place.experiment = replace(experiment, algorithm=Both(experiment.algorithm.algorithm, rounds=1))
    with pytest.raises(t.UserError, match="add replies to 'algorithm.train' as they are, .* leave .exchange. out"):
        place.session()
