"""Federations with hubs, without their network: the compiled run's numbers and counts, and what hubs may not do."""

import json
import tomllib
from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.supercore.run import RunNotRunningException

import turnout as t
from tests.helpers.commands import turnout
from tests.helpers.examples import PROBABILITIES, SAMPLERS
from tests.helpers.in_process import Grid, InProcess
from tests.helpers.in_process_hubs import InProcessHubs
from turnout.accounting.ledger import SERVER
from turnout.engines.flower import keys
from turnout.engines.flower.greeting import MOST_REFUSED, gathered
from turnout.engines.flower.hub_members import told_by_hub
from turnout.experiment.build import build, session_of
from turnout.experiment.config import Reader
from turnout.federation.handshake import build_for_federation
from turnout.federation.server import connect_clients
from turnout.io.serialization import decode, encode

CLIENTS, DIMENSION = 12, 5
NICE = '[sampler]\nkind = "nice"\nsize = 6\n'
FULL = '[sampler]\nkind = "full"\n'
FEDAVG = '[algorithm]\nkind = "fedavg"\nlr = 0.001\nsteps = 2\n'
ALGORITHMS = {
    "fedavg": NICE + FEDAVG,
    "scaffold": NICE + '[algorithm]\nkind = "scaffold"\nlr = 0.001\nsteps = 2\n',
    "scaffnew": NICE + '[algorithm]\nkind = "scaffnew"\nlr = 0.001\nprobability = 0.5\n',
    "feddcd": NICE + '[algorithm]\nkind = "feddcd"\nconvexity = 0.1\nsolver = { kind = "bfgs" }\n',
    "ditto": NICE + '[algorithm]\nkind = "ditto"\nlr = 0.001\nlam = 1.0\nown_lr = 0.001\n',
    "stratified": '[sampler]\nkind = "stratified"\n' + FEDAVG,
}
SUMMED = {"fedavg", "scaffold", "ditto", "stratified"}


def configured(tables: str, hubs: str = "count = 3", run: str = "", rounds: int = 4, clients: int = CLIENTS):
    text = (
        f'[problem]\nkind = "log-sum"\nclients = {clients}\ndimension = {DIMENSION}\nparts = 1\n'
        f'[hubs]\n{hubs}\n[run]\nrounds = {rounds}\nmetrics = ["value"]\n{run}\n{tables}'
    )
    return Reader("file.toml", text, tomllib.loads(text)).experiment("file")


def compiled(experiment):
    return session_of(experiment, build(experiment, None)).run().trace


def passed(trace) -> list[tuple]:
    return [tuple(link[name] for name in SERVER) for link in trace.ledger.links()]


def untimed(trace) -> dict:
    return {name: count for name, count in trace.ledger.totals().items() if name not in ("microseconds", "seconds")}


@pytest.mark.tiers(quick=[], slow=["ditto-in turn", "fedavg-consecutive", "fedavg-in turn", "stratified-*"])
@pytest.mark.parametrize("hubs", ["count = 3", f"of = {[k % 4 for k in range(CLIENTS)]}"], ids=["consecutive", "in turn"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_hubs_play_the_compiled_run(name, hubs):
    """Numbers to 1e-10, since floats are added in another order, all counts, and the bytes on the server's link."""
    experiment = configured(ALGORITHMS[name], hubs)
    expected, place = compiled(experiment), InProcessHubs(experiment)
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    np.testing.assert_allclose(trace.columns["value"], expected.columns["value"], rtol=1e-10)
    assert untimed(trace) == untimed(expected) and passed(trace) == passed(expected)
    assert ("measure" in place.headers) == (name == "ditto")
    ((_, messages, _, down, up),) = passed(trace)
    assert place.payloads == {"down": down, "up": up, "messages": messages}
    assert ("sum" in place.headers) == (name in SUMMED) and ("ask" in place.headers) == (name not in SUMMED)


OF_OTHERS = {"available", "importance"}
"""Needs what hubs do not tell, or another problem."""
EVERY_SAMPLER = {name: sampler for name, sampler in SAMPLERS.items() if name not in OF_OTHERS}
EVERY_SAMPLER |= {f"independent-{name}": t.Independent(size=3.0, probability=rule) for name, rule in PROBABILITIES.items()}


@pytest.mark.everything
@pytest.mark.parametrize("name", EVERY_SAMPLER)
def test_hubs_go_with_every_sampler(name):
    """Replies that a sampler learns from, or asks for before it draws, are forwarded."""
    experiment = configured(FULL + FEDAVG, "count = 2", clients=6)
    experiment = replace(experiment, algorithm=replace(experiment.algorithm, sampler=EVERY_SAMPLER[name]))
    place, expected = InProcessHubs(experiment), compiled(experiment)
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    (found,), totals = passed(trace), untimed(trace)
    assert {name: totals[name] for name in totals if name not in SERVER} == {
        name: count for name, count in untimed(expected).items() if name not in SERVER
    }
    assert (place.payloads["down"], place.payloads["up"]) == found[3:]


@pytest.mark.slow
def test_a_run_through_hubs_goes_on_from_its_checkpoint():
    """Another server finds the hubs, and the private states, as they were."""
    experiment = configured(ALGORITHMS["scaffold"])
    place = InProcessHubs(experiment)
    first = place.session()
    first.step(1)
    first.step(2)
    second = place.session(resumed=True)
    second.restore(first.snapshot())
    second.run()
    np.testing.assert_allclose(second.trace.x, compiled(experiment).x, rtol=1e-10)


@pytest.mark.tiers(quick=[], slow=["skip"])
@pytest.mark.parametrize("missing", ["skip", "repeat"])
def test_simulated_losses_are_those_of_the_compiled_run(missing):
    """A reply that is lost by configuration is not in the sum."""
    experiment = configured(ALGORITHMS["scaffold"] + f'[faults]\nloss = 0.4\nmissing = "{missing}"\n')
    expected, trace = compiled(experiment), InProcessHubs(experiment).session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected)


@pytest.mark.slow
def test_norms_are_bounded_where_the_server_sees_each_reply():
    experiment = configured(ALGORITHMS["fedavg"] + '[faults]\nclip = 1e-3\nmissing = "skip"\n')
    place = InProcessHubs(experiment)
    np.testing.assert_allclose(place.session().run().trace.x, compiled(experiment).x, rtol=1e-10)
    assert "ask" in place.headers


SKIP = '[faults]\nmissing = "skip"\n'


def nonsense(kind, number, reply):
    """A reply to an exchange that is not finite."""
    if kind != "ask":
        return reply
    start = np.zeros(DIMENSION)
    tree, header = decode(reply, start)
    return encode(jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), tree), start, header)


@pytest.mark.tiers(quick=[], longer=["fedavg"])
@pytest.mark.parametrize("name", ["fedavg", "feddcd"])
def test_a_wrong_reply_of_a_client_does_not_pass_its_hub(name):
    """The other clients of the hub are heard, as they are without hubs."""
    experiment = configured(ALGORITHMS[name] + SKIP)
    place = InProcessHubs(experiment, inner={1: {5: nonsense}})
    trace = place.session().run().trace
    flat = InProcess(replace(experiment, hubs=None), {5: nonsense})
    expected = flat.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert trace.ledger.totals()["arrivals"] == expected.ledger.totals()["arrivals"] < 24
    assert place.nodes_of[1].counts["not finite"] > 0


@pytest.mark.slow
def test_a_client_whose_reply_was_refused_computes_it_anew():
    """The server asks it again through its hub, and adds a sum of its reply alone."""
    experiment = configured(ALGORITHMS["scaffold"] + '[faults]\nmissing = "repeat"\n')
    once = {1: {5: lambda kind, number, reply: nonsense(kind, number, reply) if number == 1 else reply}}
    place = InProcessHubs(experiment, inner=once)
    trace, expected = place.session().run().trace, compiled(experiment)
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert trace.ledger.totals()["contacts"] == expected.ledger.totals()["contacts"] + 1
    assert place.nodes_of[1].counts["not finite"] == 1


def another_sum(change, kind, reply) -> bytes:
    """The reply of a hub whose sums are changed."""
    return change(*decode(reply, np.zeros(DIMENSION))) if kind == "sum" else reply


def resent(total, header) -> bytes:
    return encode(total, np.zeros(DIMENSION), header)


BAD_HUBS = {
    "NaN": (lambda total, header: resent(np.full(DIMENSION, np.nan), header), "not finite"),
    "infinite": (lambda total, header: resent(np.full(DIMENSION, -np.inf), header), "not finite"),
    "longer": (lambda total, header: resent(np.zeros(DIMENSION + 1), header), "of another shape or type"),
    "single": (lambda total, header: resent(total.astype("float32"), header), "of another shape or type"),
    "no sum": (lambda total, header: resent(None, header), "of another shape or type"),
    "counts": (lambda total, header: resent(total, header | {"queries": [-1] * len(header["clients"])}), "without its counts"),
    "others": (lambda total, header: resent(total, header | {"clients": [0, *header["clients"][1:]]}), "not asked for"),
    "garbage": (lambda total, header: b"garbage", "malformed"),
}


@pytest.mark.tiers(quick=[], longer=["garbage"], slow=["single", "no sum", "counts", "others"])
@pytest.mark.parametrize("name", BAD_HUBS)
def test_a_wrong_sum_of_a_hub_is_counted_and_never_reaches_the_aggregate(name):
    """The run is that of the clients of the other hubs: client 0 is one of them."""
    change, reason = BAD_HUBS[name]
    experiment = configured(FULL + FEDAVG + SKIP)
    place = InProcessHubs(experiment, {1: partial(another_sum, change)})
    trace = place.session().run().trace
    silent = dict.fromkeys(range(4, 8), lambda kind, number, reply: None if kind == "ask" else reply)
    flat = InProcess(replace(experiment, hubs=None), silent)
    np.testing.assert_allclose(trace.x, flat.session().run().trace.x, rtol=1e-10)
    assert trace.ledger.totals()["arrivals"] == 4 * 8
    (said,) = [told for told, count in place.counts.items() if count and told.startswith("of a hub: ")]
    assert reason in said and place.counts[said] == 4


def seen_at(hub: int, honest: dict, factor: float, kind: str, reply: bytes) -> bytes:
    """Note the replies that a hub forwards, and return them times a factor."""
    if kind != "ask":
        return reply
    parts, header = decode(reply, None)
    start, replies = np.zeros(DIMENSION), [part.tobytes() for part in parts]
    decoded = [decode(one, start) for one in replies]
    honest[hub] = [tree for tree, _ in decoded]
    scaled = [np.frombuffer(encode(factor * tree, start, told), np.uint8) for tree, told in decoded]
    return encode(scaled, None, header)


@pytest.mark.tiers(quick=[], slow=["1000000.0"])
@pytest.mark.parametrize("lie", [-1e6, 1e6])
def test_two_malicious_hubs_of_ten_are_outvoted(lie):
    """A robust mean has every reply: each entry of the change is among those of honest clients, whatever two hubs send."""
    run = 'aggregation = { kind = "trimmed-mean", share = 0.25 }'
    experiment = configured(FULL + FEDAVG, "count = 10", run, rounds=1, clients=20)
    seen: dict = {}
    place = InProcessHubs(experiment, {hub: partial(seen_at, hub, seen, lie if hub in (2, 7) else 1.0) for hub in range(10)})
    session = place.session()
    change = session.run().trace.x - np.asarray(session.engine.job.start)
    honest = np.stack([one for hub in seen.keys() - {2, 7} for one in seen[hub]])
    assert len(seen) == 10 and honest.shape == (16, DIMENSION)
    assert np.all(change >= honest.min(0) - 1e-12) and np.all(change <= honest.max(0) + 1e-12) and np.any(change != 0)
    assert passed(session.trace)[0][2] == 20


@pytest.mark.slow
def test_a_hub_that_is_refused_again_and_again_is_left_out():
    experiment = configured(FULL + FEDAVG + SKIP, rounds=MOST_REFUSED + 2)
    place = InProcessHubs(experiment, {1: partial(another_sum, lambda total, header: b"garbage")})
    session = place.session().run()
    assert place.counts["of a hub: malformed"] == MOST_REFUSED
    assert session.engine.facts()["federation"]["left_out"] == [f"client {i}" for i in range(4, 8)]


@pytest.mark.longer
def test_a_hub_that_is_away_takes_its_clients_along_and_brings_them_back():
    """With "skip" they are not asked, and count as lost; nothing is asked of the hub meanwhile."""
    place = InProcessHubs(configured(FULL + FEDAVG + SKIP, run="every = 1"))
    session, absent = place.session(), []
    session.step(1)
    for away in (set(), {101}, {101}, set()):
        place.away = away
        session.step(1)
        absent.append(session.engine.facts()["federation"]["absent"])
    its = [f"client {i}" for i in range(4, 8)]
    assert absent == [[], its, its, []]
    assert session.trace.ledger.totals()["arrivals"] == 2 * CLIENTS + 2 * 8
    assert place.payloads["messages"] == 2 * 3 + 2 * 2


@pytest.mark.longer
def test_a_run_that_needs_all_replies_stops_without_a_hub():
    place = InProcessHubs(configured(FULL + FEDAVG))
    session = place.session()
    place.away = {101}
    with pytest.raises(t.UserError, match="replies were lost by round"):
        session.run()


def test_a_client_that_its_hub_does_not_know_yet_is_waited_for():
    place = InProcessHubs(configured(FULL + FEDAVG))
    late = place.nodes_of[1].apps.pop(15)
    with pytest.raises(t.UserError, match="1 clients did not answer within 0 s, the first is client 5"):
        gathered(place.clients(), 0.0)
    place.nodes_of[1].apps[15] = late
    assert len(gathered(place.clients(), 60.0).nodes) == CLIENTS


def test_a_run_begins_with_a_quorum_of_the_clients_of_all_hubs():
    """Seven or eight of twelve, where one hub of three is away; it joins when it is greeted again."""
    place = InProcessHubs(configured(FULL + FEDAVG + SKIP))
    place.away = {101}
    assert len(gathered(place.clients(quorum=7), 0.0, True).nodes) == 8
    members = gathered(place.clients(quorum=0.66), 0.0, True)
    place.away = set()
    members.greet(1.0)
    assert members.present == {*range(CLIENTS)}
    place.away = {101}
    with pytest.raises(t.UserError, match="4 clients did not answer within 0 s, the first is client 4"):
        gathered(place.clients(quorum=9), 0.0, True)


def test_the_clients_of_a_revoked_hub_are_revoked():
    place = InProcessHubs(configured(FULL + FEDAVG + SKIP))
    with pytest.raises(t.UserError, match="client 4, client 5, client 6, client 7: revoked, but the run needs all clients"):
        gathered(place.clients(revoked=1), 0.0)
    members = gathered(place.clients(revoked=1), 0.0, True)
    assert members.standings() == ["present"] * 4 + ["revoked"] * 4 + ["present"] * 4
    assert [*members.nodes] == [0, 1, 2, 3, 8, 9, 10, 11]


def test_a_node_with_the_key_of_another_hub_is_refused():
    """Hub 1 has a node that says it is client 0, with a key that is not in the hub's registry."""
    place = InProcessHubs(configured(FULL + FEDAVG))
    place.nodes_of[1].apps[10] = place.nodes_of[0].apps[10]
    members = gathered(place.clients(), 60.0)
    assert len(members.nodes) == CLIENTS and sorted(place.services[1].nodes.nodes) == [4, 5, 6, 7]
    (reason,) = place.services[1].nodes.refused.values()
    assert reason.startswith("a node says that it is client 0, but its key is not in the registry")


def test_a_hub_cannot_say_that_it_has_clients_of_another():
    def greedy(kind, reply):
        fields = json.loads(reply)
        return json.dumps(fields | {"clients": {str(i): 1 for i in range(CLIENTS)}}).encode() if kind == "hello" else reply

    place = InProcessHubs(configured(FULL + FEDAVG), {1: greedy})
    place.away = {100, 102}
    with pytest.raises(t.UserError, match="8 clients did not answer"):
        gathered(place.clients(), 0.0)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"clients": 3}', b'{"clients": {"a": 1}}', b'{"clients": {"1": -1}}'])
def test_a_hub_that_does_not_say_whom_it_has_has_nobody(body):
    assert told_by_hub(body).rows == {}


TOLD = {"rows": "client 5 says that it has 1,000,000,000 rows", "schema": "has other classes or features than client 0"}


@pytest.mark.parametrize("name", TOLD)
def test_what_a_hub_says_of_its_clients_is_checked(name):
    """As if the nodes said it: so many rows need to be written down, and classes are those of the other hubs' clients."""

    def changed(schema, kind, reply):
        fields = json.loads(reply)
        fields["clients"] |= {"5": 10**9} if name == "rows" and "5" in fields["clients"] else {}
        return json.dumps(fields | ({"schema": schema} if name == "schema" else {})).encode()

    place = InProcessHubs(configured(FULL + FEDAVG), {0: partial(changed, "one"), 1: partial(changed, "another")})
    with pytest.raises(t.UserError, match=TOLD[name]):
        gathered(place.clients(), 0.0)


def test_a_request_of_another_run_is_not_sent_on():
    place = InProcessHubs(configured(FULL + FEDAVG))
    members = gathered(place.clients(), 60.0)
    members.mailbox.digest = "another"
    header = json.dumps({"measure": ["value"]}).encode()
    assert members.mailbox.send({0: (header, b"")}, "measure_another", 1000, lambda body: None) == {}
    assert "not one of the run for which this hub answers" in members.mailbox.refused[0]


REFUSED = {
    "codec": (
        configured(FULL + FEDAVG + '[exchange]\nup = { kind = "qsgd", bits = 4 }\n'),
        r"leave \[exchange\] or \[hubs\] out",
    ),
    "available": (
        configured('[sampler]\nkind = "available"\nprobability = 0.5\nsampler = { kind = "full" }\n' + FEDAVG),
        "take another sampler than 'available'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_hubs_cannot_do_is_a_sentence(name):
    experiment, sentence = REFUSED[name]
    with pytest.raises(t.UserError, match=sentence):
        build_for_federation(experiment, None)


def test_requests_in_flight_are_refused():
    experiment = configured('[sampler]\nkind = "nice"\nsize = 1\n[algorithm]\nkind = "fedasync"\nlr = 0.001\nin_flight = 2\n')
    with pytest.raises(t.UserError, match="FedAsync has requests in flight"):
        InProcessHubs(experiment).session()


@pytest.mark.longer
def test_speeds_of_hubs_are_those_of_the_network():
    """[hubs] latency and [devices] are for runs on a clock of their own."""
    experiment = configured(FULL + FEDAVG + "[devices]\nlatency = 0.1\n", "count = 3\nlatency = 0.5")
    trace = InProcessHubs(experiment).session().run().trace
    assert trace.ledger.links()[0]["seconds"] == 0.0


class Gone(Grid):
    """A grid whose SuperLink has ended the run."""

    def get_nodes(self):
        raise RunNotRunningException


@pytest.mark.longer
def test_a_hub_whose_superlink_was_away_too_long_ends():
    """And says so, so that whoever supervises it starts it again."""
    place, ended = InProcessHubs(configured(FULL + FEDAVG + SKIP)), []
    session = place.session()
    place.services[1].end = lambda: ended.append(1)
    place.nodes_of[1].grid = Gone(place.nodes_of[1])
    session.step(1)
    session.step(1)
    assert ended == [1] and session.trace.ledger.totals()["arrivals"] == 8
    (reason,) = session.engine.facts()["federation"]["unusable_replies"]
    assert "this hub has lost its SuperLink" in reason


def test_a_hub_that_cannot_be_one_ends_in_a_sentence(tmp_path):
    """Before it starts its SuperLink."""
    for name, experiment in (("flat", replace(configured(FULL + FEDAVG), hubs=None)), ("hubs", configured(FULL + FEDAVG))):
        (tmp_path / f"{name}.toml").write_text(experiment.to_toml())
    keys.write_all(tmp_path, ["localhost"], range(3))
    rest = ("--superlink", "localhost:1", "--authority", tmp_path / keys.AUTHORITY, "--key", tmp_path / "node-0", "--keys")
    for words, sentence in (
        ((tmp_path / "flat.toml", "--hub", 0, *rest, tmp_path), "has no hubs: add [hubs]"),
        ((tmp_path / "hubs.toml", "--hub", 3, *rest, tmp_path), "has hubs 0 to 2, so that no hub can be 3"),
        ((tmp_path / "hubs.toml", "--hub", "2.0", *rest, tmp_path), "has hubs 0 to 2, so that no hub can be 2.0"),
        ((tmp_path / "hubs.toml", "--hub", "2.", *rest, tmp_path), "--hub is '2.': give the hub's number, such as 3"),
        ((tmp_path / "hubs.toml", "--hub", 0, *rest, tmp_path), "has 3 clients, but the configuration has 4"),
        ((tmp_path / "hubs.toml", "--hub", 0, *rest, tmp_path / "none"), "holds no keys of nodes"),
    ):
        code, _, errors = turnout("hub", *words)
        assert code == 2 and sentence in errors and errors.count("\n") == 1
    assert not (tmp_path / "superlink.log").exists()


def test_a_server_that_flower_starts_has_no_hubs():
    with pytest.raises(t.UserError, match="hubs are known by their keys, which flwr run does not check"):
        connect_clients(Grid(None), configured(FULL + FEDAVG), None, 60.0)
