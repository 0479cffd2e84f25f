"""Sums of replies under encryption: exact, private before the server, and the run of `aggregation = "sum"`."""

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("tenseal", reason="TenSEAL is not installed: pip install 'turnout[encrypted]'")

import turnout as t
from tests.helpers.commands import config, turnout
from tests.helpers.examples import logistic
from tests.helpers.federations import four, play
from turnout.core.errors import UserError
from turnout.core.messages import payload
from turnout.engines.encryption import (
    BYTES,
    DEGREE,
    FRACTION,
    LENGTH,
    MODULUS,
    MOST,
    PRIMES,
    SumKey,
    _opened,
    add,
    ciphertexts,
    encrypted_shape,
    new_key,
    restored,
    server_context,
    unusable,
    write_key,
)
from turnout.engines.node import Node
from turnout.engines.request import Refused
from turnout.experiment.describe import plan_of
from turnout.io.serialization import decode

CLIENTS = 5
KEY = SumKey(new_key(), CLIENTS)
NUMBERS = st.floats(-KEY.limit, KEY.limit, exclude_min=True, exclude_max=True)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=2, max_size=CLIENTS))
def test_a_sum_is_that_of_the_rounded_replies(replies):
    total = KEY.decrypt(add([KEY.encrypt(np.array(reply)) for reply in replies]), 3, len(replies))
    rounded = [[round(number * 2**FRACTION) for number in reply] for reply in replies]
    assert total.tolist() == [sum(column) for column in zip(*rounded, strict=True)]


@pytest.mark.parametrize("numbers", [0, 1, DEGREE - 1, DEGREE, 2 * DEGREE + 5])
def test_replies_of_every_length(numbers):
    replies = np.random.default_rng(numbers).normal(size=(3, numbers))
    sent = [KEY.encrypt(reply) for reply in replies]
    assert {reply.shape for reply in sent} == {encrypted_shape(numbers).shape} == {(ciphertexts(numbers), BYTES)}
    total = restored(KEY.decrypt(add(sent), numbers, 3), np.zeros(numbers))
    np.testing.assert_allclose(total, replies.sum(0), atol=3 * 2.0**-41 + 1e-15)


def test_structure_and_types_come_back():
    like = {"a": np.zeros((2, 2), "float32"), "b": (np.zeros(()), np.zeros(0))}
    reply = jax.tree.map(lambda leaf: leaf + np.asarray(1.5, leaf.dtype), like)
    total = restored(KEY.decrypt(add([KEY.encrypt(reply)] * 2), 5, 2), like)
    jax.tree.map(np.testing.assert_array_equal, total, jax.tree.map(lambda leaf: 2 * leaf, reply))
    assert jax.tree.map(lambda leaf: leaf.dtype, total) == jax.tree.map(lambda leaf: leaf.dtype, like)


def test_the_most_replies_of_the_largest_numbers_are_decrypted_right():
    """The noise is the worst that so many replies can have: that of one of them, as often."""
    key = SumKey(new_key(), MOST)
    number = np.nextafter(key.limit, 0) * np.array([1.0, -1.0])
    total = key.encrypt(number)
    replies = 1
    while replies < MOST:
        total, replies = add([total, total]), 2 * replies
    np.testing.assert_array_equal(key.decrypt(total, 2, MOST), MOST * np.rint(number * 2.0**FRACTION).astype("int64"))


def test_parameters_are_of_128_bits():
    """The standard of homomorphicencryption.org (2018), table 1, secret key with entries -1, 0, 1: 109 bits for n = 4096."""
    assert DEGREE == 4096 and sum(PRIMES) <= 109
    assert MODULUS % (2 * DEGREE) == 1 and 2**60 - MODULUS > 0


@pytest.mark.parametrize("number", [KEY.limit, -KEY.limit, 1e300, np.inf, np.nan])
def test_what_does_not_fit_is_refused_by_the_client(number):
    with pytest.raises(UserError, match="not below .* the most that aggregation = 'encrypted' adds"):
        KEY.encrypt(np.array([0.0, number]))


def test_the_server_cannot_decrypt_and_a_member_decrypts_only_sums_of_two():
    reply = np.array([0.25, -3.0])
    sent = KEY.encrypt(reply)
    assert not server_context().has_secret_key()
    with pytest.raises(ValueError, match="secret_key"):
        _opened(server_context(), sent[0]).decrypt()
    assert not np.array_equal(sent, KEY.encrypt(reply))
    for replies in (0, 1, 2):
        with pytest.raises(Refused, match="no sum of"):
            KEY.decrypt(sent, 2, replies)
    total = add([sent, sent])
    for changed in ((2, 3), (1, 2)):
        with pytest.raises(Refused, match="no sum of"):
            KEY.decrypt(total, *changed)
    with pytest.raises(Refused, match="no sum of 2 replies under the key"):
        SumKey(new_key(), CLIENTS).decrypt(total, 2, 2)
    np.testing.assert_array_equal(restored(KEY.decrypt(total, 2, 2), reply), 2 * reply)


SENT = KEY.encrypt(np.ones(3))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.binary(min_size=1, max_size=40), st.booleans())
def test_what_is_no_ciphertext_is_not_added(place, written, whole):
    """Of the bytes at the beginning some are changed, or nothing else is left."""
    content = bytearray(bytes(BYTES) if whole else SENT[0].tobytes())
    content[place : place + len(written)] = written
    changed = np.frombuffer(bytes(content[:BYTES]), "uint8")[None]
    reason = unusable(changed)
    assert reason in (None, "not encrypted")
    if reason is None:
        add([SENT, changed])
    else:
        with pytest.raises(Refused, match="no encrypted sum"):
            KEY.decrypt(changed, 3, 2)


@pytest.mark.longer
def test_a_key_is_a_file_of_its_owner(tmp_path):
    write_key(tmp_path / "sum.key")
    assert (tmp_path / "sum.key").stat().st_mode & 0o777 == 0o600
    one, other = (SumKey.read(tmp_path / "sum.key", CLIENTS) for _ in range(2))
    assert one.id == other.id != KEY.id
    assert other.decrypt(add([one.encrypt(np.ones(1))] * 2), 1, 2) == [2 * 2**FRACTION]
    with pytest.raises(UserError, match="exists, and keys are not overwritten"):
        write_key(tmp_path / "sum.key")
    with pytest.raises(UserError, match="cannot be read"):
        SumKey.read(tmp_path / "none", CLIENTS)
    with pytest.raises(UserError, match="adds up to 16384 replies"):
        SumKey(new_key(), MOST + 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 200), st.binary(max_size=40), st.booleans())
def test_a_file_that_holds_no_key_is_a_sentence(tmp_path, place, written, whole):
    """Of the bytes at the beginning of a key some are changed, or nothing follows."""
    file = tmp_path / "sum.key"
    if not file.exists():
        write_key(file)
    key = file.read_bytes()
    content = key[:place] + written + (key[place + len(written) :] if whole else b"")
    (tmp_path / "other").write_bytes(content)
    if content != key:
        with pytest.raises(UserError, match="other holds no key for sums, or was changed"):
            SumKey.read(tmp_path / "other", CLIENTS)


UNEQUAL = t.Independent(size=6.0, probability=t.BySize())
ALGORITHMS = {
    "fedavg": t.FedAvg(t.Nice(8), lr=0.1, steps=2),
    "scaffold": t.Scaffold(UNEQUAL, lr=0.05, steps=2),
    "sppm": t.Sppm(UNEQUAL, t.solvers.Lbfgs(), gamma=1.0, inner=3),
}


def both(algorithm, problem, **options):
    return [t.run(algorithm, problem, aggregation=how, engine="nodes", **options) for how in ("sum", "encrypted")]


def same_run(summed, encrypted) -> None:
    """The parameters differ by what is rounded, and the counts at the calls of both are equal."""
    for one, other in zip(jax.tree.leaves(summed.x), jax.tree.leaves(encrypted.x), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10, rtol=0)
    counts = [
        {row["path"]: {k: v for k, v in row.items() if k != "bytes_up"} for row in trace.ledger.rows()}
        for trace in (summed, encrypted)
    ]
    assert counts[0] == {path: row for path, row in counts[1].items() if row["method"] != "decrypt"}


@pytest.mark.tiers(quick=[], longer=["scaffold-skip"], slow=["sppm-repeat"])
@pytest.mark.parametrize("missing", ["none", "skip", "repeat"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_run_is_that_of_sums(name, missing):
    faults = None if missing == "none" else t.Faults(0.3, missing)
    same_run(*both(ALGORITHMS[name], logistic(), rounds=4, seed=2, faults=faults))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["central", "local"])
def test_noise_is_added_before_encryption_or_to_the_sum(model):
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'turnout[privacy]'")
    privacy = t.Privacy(clip=0.1, noise_multiplier=1.0, delta=1e-5, model=model, seed=3)
    same_run(*both(ALGORITHMS["fedavg"], logistic(), rounds=2, seed=2, privacy=privacy))


@pytest.mark.longer
def test_the_ledger_has_what_is_sent(monkeypatch):
    """Of three rounds with four clients: replies of one ciphertext; one request with it to decrypt, and three numbers back."""
    sent, answer, decrypt = [], Node.answer, Node.decrypt

    def listen(which):
        def listening(self, header, body, *digest):
            reply = which(self, header, body, *digest)
            sent.append((payload(decode(body, self.start)[0]), payload(decode(reply, self.start)[0])))
            return reply

        return listening

    monkeypatch.setattr(Node, "answer", listen(answer))
    monkeypatch.setattr(Node, "decrypt", listen(decrypt))
    session = play(t.FedAvg(t.Full(), lr=0.1), four(), 3, engine="nodes", aggregation="encrypted")
    totals = session.trace.ledger.totals()
    assert all(totals[name] == count.most for name, count in plan_of(session).totals().items() if name.startswith("bytes"))
    assert (totals["bytes_down"], totals["bytes_up"]) == tuple(map(sum, zip(*sent, strict=True)))
    assert totals["bytes_up"] == 3 * (4 * BYTES + 3 * 8) and totals["bytes_down"] == 3 * (4 * 3 * 8 + BYTES)
    assert (totals["exchanges"], totals["contacts"], totals["arrivals"]) == (3, 3 * 5, 3 * 5)


def test_a_ciphertext_fills_its_bytes():
    lengths = [int.from_bytes(KEY.encrypt(np.ones(1))[0, :LENGTH].tobytes(), "little") for _ in range(50)]
    assert 0.94 * BYTES < min(lengths) and max(lengths) < 0.98 * BYTES


@pytest.mark.longer
def test_the_reply_of_one_client_is_not_decrypted():
    with pytest.raises(UserError, match="only client . answered in round ., and a sum of one reply is that reply"):
        t.run(
            t.FedAvg(t.Nice(2), lr=0.1), four(), rounds=20, engine="nodes", aggregation="encrypted", faults=t.Faults(0.5, "skip")
        )


@pytest.mark.longer
def test_refusals_say_what_to_do(monkeypatch):
    for options, words in (
        ({}, "compiled engine sends nothing: set engine = 'nodes'"),
        ({"engine": "nodes", "metrics": ("variance",)}, "metric 'variance' needs each"),
        ({"engine": "nodes", "faults": t.Faults(clip=1.0)}, "bound each reply, which aggregation = 'encrypted' hides"),
    ):
        with pytest.raises(UserError, match=words):
            t.run(ALGORITHMS["fedavg"], logistic(), rounds=1, aggregation="encrypted", **options)
    with pytest.raises(UserError, match="needs more than sums of replies"):
        t.run(t.FedAvg(t.Nice(1), lr=0.1), logistic(), rounds=1, engine="nodes", aggregation="encrypted")
    monkeypatch.setitem(__import__("sys").modules, "tenseal", None)
    with pytest.raises(UserError, match="needs TenSEAL .* pip install 'turnout\\[encrypted\\]'"):
        new_key()


@pytest.mark.longer
def test_describe_tells_the_bytes(tmp_path):
    tables = {"split": {"kind": "iid", "clients": 12}, "run": {"rounds": 2, "engine": "nodes", "aggregation": "encrypted"}}
    file = config(tmp_path, **tables)
    code, out, errors = turnout("run", file, "--out", tmp_path / "out")
    assert (code, errors) == (0, "") and '"aggregation": "encrypted"' in (tmp_path / "out" / "summary.json").read_text()
    code, out, errors = turnout("describe", file, "--markdown")
    assert (code, errors) == (0, "") and "decrypt" in out
