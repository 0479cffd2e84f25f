"""What hubs between the server and the clients may not read, and what holds through them: without the network."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")
pytest.importorskip("tenseal", reason="TenSEAL is not installed: pip install 'turnout[encrypted]'")

import turnout as t
from tests.engines.flower.test_hub_play import in_hubs
from tests.engines.flower.test_hubs import CLIENTS, DIMENSION, FEDAVG, FULL, SKIP, compiled, configured, passed, untimed
from tests.helpers.in_process_hubs import InProcessHubs
from turnout.engines.encryption import SumKey, new_key
from turnout.engines.flower.greeting import gathered
from turnout.engines.request import Refused
from turnout.engines.sealing import Seal, sealed_for
from turnout.federation.handshake import build_for_federation
from turnout.io.audit import AuditLog, read_entries
from turnout.io.serialization import decode, encode

NICE = '[sampler]\nkind = "nice"\nsize = 6\n'
SCAFFOLD = NICE + '[algorithm]\nkind = "scaffold"\nlr = 0.001\nsteps = 2\n'
ENCRYPTED = 'engine = "nodes"\naggregation = "encrypted"'
LOCAL = '[privacy]\nmodel = "local"\nclip = 0.01\nnoise_multiplier = 1.0\ndelta = 1e-5\nseed = 3\n'


class Overheard(InProcessHubs):
    """Keeps all that hub 1 receives and sends, to the server and to its clients."""

    def __init__(self, experiment, **options):
        self.heard, self.replies = [], []
        super().__init__(experiment, {1: self._hear}, {1: dict.fromkeys(range(4, 8), self._reply)}, **options)

    def _hear(self, kind, reply):
        self.heard.append(reply)
        return reply

    def _reply(self, kind, number, reply):
        self.heard.append(reply)
        self.replies.append((kind, reply))
        return reply

    def _replies(self, requests, kind, limit):
        self.heard += [part for node, request in requests.items() if node == 101 for part in request]
        yield from super()._replies(requests, kind, limit)


@pytest.fixture(scope="module")
def secret():
    place = Overheard(configured(SCAFFOLD, run=ENCRYPTED))
    return place, place.session().run().trace


@pytest.mark.slow
def test_encrypted_sums_pass_hubs(secret):
    """Numbers of the run with sums up to the fixed point; all counts, and what passes the server's link."""
    place, trace = secret
    plain, expected = (compiled(replace_run(place.experiment, how)) for how in ("sum", "encrypted"))
    np.testing.assert_allclose(trace.x, plain.x, atol=1e-10, rtol=0)
    assert untimed(trace) == untimed(expected) and passed(trace) == passed(expected)
    ((_, messages, _, down, up),) = passed(trace)
    assert place.payloads == {"down": down, "up": up, "messages": messages}


def replace_run(experiment, how: str):
    return replace(experiment, run=replace(experiment.run, aggregation=how))


@pytest.mark.slow
def test_a_hub_of_encrypted_sums_reads_none(secret):
    """Of a run with plain sums it has each reply, and its own sum; here none of the numbers, and not the decrypted sum."""
    place, trace = secret
    plain = Overheard(configured(SCAFFOLD))
    plain.session().run()
    numbers = [
        leaf.tobytes() for kind, reply in plain.replies if kind == "ask" for leaf in jax.tree.leaves(decode(reply, None)[0])
    ]
    assert numbers and all(number in b"".join(plain.heard) for number in numbers)
    heard = b"".join(place.heard)
    assert not any(number in heard or number[:8] in heard for number in numbers)
    sums = [decode(reply, None)[0] for kind, reply in place.replies if kind == "decrypt"]
    assert sums and all(one.dtype == np.uint8 for one in sums)
    # The numbers of a sum times 2^40 are far below 2^63, so that their highest bytes say so.
    assert not any(np.all(np.abs(one.view("int64")) < 2**55) for one in sums)


@pytest.mark.longer
def test_a_client_with_another_key_is_refused_also_in_another_hub():
    place = InProcessHubs(configured(FULL + FEDAVG + SKIP, run=ENCRYPTED))
    key = SumKey(new_key(), CLIENTS)
    for hub, nodes in enumerate(place.nodes_of):
        for member in nodes.members:
            member.sum_key = key if hub == 2 or member.number == 5 else place.nodes_of[0].sum_key
    members = gathered(place.clients(), 0.0, True)
    assert sorted(members.nodes) == [0, 1, 2, 3, 4, 6, 7]
    assert any("client 8 has another key for sums than client 0" in reason for reason in place.counts)


@pytest.mark.slow
def test_a_changed_sum_ends_in_a_sentence():
    def changed(kind, number, reply):
        return encode(np.zeros_like(decode(reply, None)[0]), None, decode(reply, None)[1]) if kind == "decrypt" else reply

    place = InProcessHubs(
        configured(FULL + FEDAVG, run=ENCRYPTED), inner={hub: dict.fromkeys(range(CLIENTS), changed) for hub in range(3)}
    )
    with pytest.raises(
        t.UserError, match="the decrypted sum of round 1 was changed by client .* or its hub .*: look into their logs"
    ):
        place.session().run()


@pytest.mark.parametrize("told", [{}, {"beside": "zz"}, {"beside": "00" * 48}, {"beside": 3}])
def test_what_is_not_sealed_for_the_server_is_not_opened(told):
    seal, numbers = Seal(), np.arange(-2, 3)
    sealed, own = sealed_for(seal.public, numbers)
    np.testing.assert_array_equal(seal.opened(sealed, own), numbers)
    for other, with_it in (
        (sealed, told),
        (sealed[::-1].copy(), own),
        (sealed, {"beside": own["beside"][:-2] + f"{int(own['beside'][-2:], 16) ^ 1:02x}"}),
        (sealed[:-1].copy(), own),
    ):
        with pytest.raises(ValueError):
            seal.opened(other, with_it)
    with pytest.raises(ValueError):
        Seal().opened(sealed, own)
    with pytest.raises(ValueError):
        sealed_for("abc", numbers)


@pytest.mark.slow
def test_clients_under_hubs_add_their_own_noise():
    """The compiled run's, with the same seed: each clips its reply and adds noise, before its hub gets it."""
    experiment = configured(SCAFFOLD + LOCAL)
    expected, place = compiled(experiment), InProcessHubs(experiment)
    trace, bare = place.session().run().trace, compiled(replace(experiment, privacy=None))
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert not np.allclose(trace.x, bare.x, rtol=1e-3)
    assert untimed(trace) == untimed(expected) and passed(trace) == passed(expected) and "sum" in place.headers


@pytest.mark.slow
def test_a_hub_writes_down_what_it_was_asked(tmp_path):
    """Requests and answers of each kind; what is refused too."""
    place = InProcessHubs(configured(FULL + FEDAVG, rounds=2))
    place.services[1].log = AuditLog(tmp_path / "audit-hub-1.jsonl")
    members = place.clients()
    session = place.session().run()
    members.mailbox.digest = "another"
    members.mailbox.send({4: (json.dumps({"measure": ["value"]}).encode(), b"")}, "measure_another", 1000, lambda body: None)
    entries = read_entries(tmp_path / "audit-hub-1.jsonl")
    asked = [(entry["asked"], entry["answer"]) for entry in entries]
    assert asked.count(("sum", "reply")) == 2 and ("hello", "reply") in asked
    assert session.trace.ledger.totals()["server_arrivals"] == 2 * 3


@pytest.mark.longer
def test_a_node_of_a_hub_decrypts_only_what_it_is_asked_rightly(secret):
    """A hub is to its clients what a server is: no single reply, and no key that is none."""
    place, _ = secret
    node = place.nodes_of[1].members[4]
    single = node.sum_key.encrypt(np.ones(DIMENSION))
    for header, sentence in (
        ({"replies": 1, "seal": ""}, "this is no sum of 1"),
        ({"replies": 2, "seal": ""}, "this is no sum of 2"),
    ):
        with pytest.raises(Refused, match=sentence):
            node.decrypt(json.dumps(header | {"numbers": DIMENSION}).encode(), encode(single, node.start))


REFUSED = {
    "central": (
        configured(FULL + FEDAVG + LOCAL.replace("local", "central")),
        "hubs add replies before the server adds noise, and read the sums: set .privacy. model = 'local'",
    ),
    "losses": (
        configured(FULL + FEDAVG + SKIP + "loss = 0.1\n", run=ENCRYPTED),
        "hubs cannot leave out of an encrypted sum what .faults. loss takes for lost: leave loss out",
    ),
    "inside": (configured(in_hubs('kind = "fedavg"\nlr = 0.001'), run=ENCRYPTED), "a hub that plays rounds reads the replies"),
    "inside, local": (configured(in_hubs('kind = "fedavg"\nlr = 0.001') + LOCAL), "here hubs draw theirs: leave one of both out"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_hubs_would_read_is_refused_in_a_sentence(name):
    experiment, sentence = REFUSED[name]
    with pytest.raises(t.UserError, match=sentence):
        build_for_federation(experiment, None)
