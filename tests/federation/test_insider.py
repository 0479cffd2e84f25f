"""A server that does not keep to the configuration learns no more from a node than its privacy allows."""

import json
import resource
import stat

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.gaussian_privacy import gaussian_epsilon
from tests.helpers.insider import LOCAL, SECRET, TOML, Insider, Refusal
from turnout.core.errors import UserError
from turnout.io.audit import read_entries

pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'turnout[privacy]'")

DEVIATION = 4.0 * 100.0
"""Of the noise on each number that leaves a client under `LOCAL`."""


@pytest.fixture
def private(tmp_path):
    return Insider(tmp_path, TOML + LOCAL)


@pytest.fixture
def plain(tmp_path):
    return Insider(tmp_path, TOML)


FAR = np.array([1e9, 0.0, 0.0])
"""Parameters at which the clipped replies for FAR and -FAR are opposite, up to 1e-7."""


@pytest.mark.longer
def test_opposite_messages_do_not_reveal_the_noise(private):
    """If the noise of three requests were one, the mean of the first two would be it."""
    noise = (private.ask(FAR) + private.ask(-FAR)) / 2
    assert np.linalg.norm(private.ask(np.zeros(3)) - noise - SECRET) > 0.1 * DEVIATION


def test_the_same_request_from_another_state_has_other_noise(tmp_path):
    """With the same noise, the two replies would differ by no more than two clipped ones."""
    insider, replies, zero = Insider(tmp_path, TOML.replace('"fedavg"', '"scaffold"') + LOCAL), [], np.zeros(3)
    for x in (FAR, -FAR):
        insider.ask(x, zero, made=(1, 0))
        replies.append(np.concatenate(insider.ask(zero, zero, base=(1, 0), made=(2, 0))))
    assert np.linalg.norm(replies[0] - replies[1]) > 2 * 100.0


def test_the_same_request_gets_the_same_reply_also_after_a_restart(private):
    first = private.ask(np.zeros(3))
    np.testing.assert_array_equal(private.ask(np.zeros(3)), first)
    spent = next(private.states.glob("privacy-0.json")).read_bytes()
    private.restart()
    np.testing.assert_array_equal(private.ask(np.zeros(3)), first)
    assert next(private.states.glob("privacy-0.json")).read_bytes() == spent
    assert not np.allclose(private.ask(np.zeros(3), made=(2, 0)), first)


def test_a_further_attempt_is_a_reply_of_its_own(private):
    """The server counts the replies that it refused; each new one has new noise, and is charged."""
    first, second = private.ask(np.zeros(3)), private.ask(np.zeros(3), attempt=1)
    assert not np.allclose(first, second)
    assert read_entries(private.states / "audit-0.jsonl")[-1]["epsilon"] == pytest.approx(epsilon(2))


def test_a_seed_makes_the_noise_repeatable(tmp_path):
    """For tests; the server knows the seed too."""
    replies = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        replies.append(Insider(tmp_path / name, TOML + LOCAL + "seed = 3\n").ask(np.zeros(3)))
    np.testing.assert_array_equal(*replies)


def test_metrics_have_noise_and_are_clipped(private):
    """The exact value and gradient of the client at zero are |SECRET|^2 / 2 and -SECRET."""
    told = private.measure(np.zeros(3), "value", "gradient")
    assert np.linalg.norm(told["gradient"] + SECRET) > 0.1 * DEVIATION
    far = [private.measure(k * FAR / 1e3, "value")["value"] for k in range(1, 9)]
    assert abs(np.mean(far)) < 100 + 5 * DEVIATION / np.sqrt(8)
    np.testing.assert_array_equal(*(private.measure(FAR, "gradient")["gradient"] for _ in range(2)))


def test_metrics_without_local_privacy_are_exact(plain):
    np.testing.assert_allclose(plain.measure(np.zeros(3), "gradient")["gradient"], -SECRET)


def epsilon(releases: int, multiplier: float = 4.0) -> float:
    """The epsilon of replies of one client whose data may be replaced: two of them are at most twice the norm apart."""
    return gaussian_epsilon(multiplier / 2 / releases**0.5, 1e-5)


PLANNED = 30 + 31
"""Replies that the configured run asks of a client: thirty exchanges, and an evaluation before and after each."""


@pytest.mark.longer
def test_a_node_answers_no_more_than_the_configured_run(private):
    """Whatever is asked counts: exchanges, metrics and variants of local methods; also after a restart."""
    for k in range(PLANNED - 3):
        private.ask(np.zeros(3), made=(k + 1, 0))
    private.restart()
    private.measure(np.zeros(3), "value")
    private.ask(np.zeros(3), method="train.norm()")
    last = private.ask(np.zeros(3), made=(1, 7))
    sentence = f"would exceed epsilon = {epsilon(PLANNED):.4g} for delta = 1e-05"
    for again in (lambda: private.ask(np.zeros(3)), lambda: private.measure(SECRET, "value")):
        with pytest.raises(Refusal, match=sentence):
            again()
    np.testing.assert_array_equal(private.ask(np.zeros(3), made=(1, 7)), last)


def test_a_request_that_fails_is_charged_too(private):
    """Otherwise a client that fails would tell something of its data for nothing."""
    with pytest.raises(Refusal):
        private.measure(np.full(3, 4711.0), "value")
    assert sum(json.loads((private.states / "privacy-0.json").read_text()).popitem()[1].values()) == 1


@pytest.mark.parametrize("x", [np.full(3, np.nan), np.full(3, np.inf)])
def test_infinite_messages_bring_nothing_past_the_noise(private, x):
    with np.errstate(invalid="ignore"):
        assert np.all(np.isfinite(private.ask(x)))


COUNTING = {
    "steps": ('kind = "fedavg"\nlr = 0.5\nsteps = 3', "train"),
    "epochs": ('kind = "fedavg"\nlr = 0.5\nbatch = 2\nepochs = 2', "train"),
    "a tolerance": (
        'kind = "fedprox-sppm"\ngamma = 1.0\nsolver = { kind = "gradient", lr = 0.3, steps = 50, tolerance = 0.1 }',
        "prox",
    ),
}


@pytest.mark.tiers(quick=["steps"], longer=["a tolerance"])
@pytest.mark.parametrize("what", COUNTING)
def test_counts_that_follow_from_the_data_are_not_told(tmp_path, what):
    """A solver that stops at a tolerance makes as many queries as the data want."""
    table, method = COUNTING[what]
    toml, counts = TOML.replace('kind = "fedavg"\nlr = 1.0\nsteps = 1', table), []
    for name, more in (("plain", ""), ("private", LOCAL)):
        (tmp_path / name).mkdir()
        insider = Insider(tmp_path / name, toml + more)
        insider.ask(np.zeros(3), method=method)
        counts.append(insider.counts["queries"])
    assert counts[0] > 1 and counts[1] == (0 if what == "a tolerance" else counts[0])


VERSIONS = st.lists(st.integers(-1, 2**31 - 1), min_size=2, max_size=2)
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.floats(), st.text(max_size=8), st.lists(st.one_of(st.floats(), st.text())),
    st.sampled_from([["../other/7", "3"], [True, 1], [1.5, 2.5], [2**31, 0], [-2, 0], [1, 2, 3]]),
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(["made", "base", "kept", "method", "weight", "unknown"]), value=ODD)
def test_odd_headers_are_refused_and_leave_no_file(plain, field, value):
    valid = value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value))
    if field == "weight" and valid:
        return
    before = files(plain)
    with pytest.raises(Refusal, match="the header of the request is not valid|is not a local method"):
        plain.ask(np.zeros(3), **{field: value})
    assert files(plain) == before


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(min_size=1, max_size=40), st.sampled_from([b"[" * 9000, b"1" * 9000, b"{" + b" " * 20_000 + b"}"])))
def test_headers_that_are_none_are_refused(plain, raw):
    with pytest.raises(Refusal, match="the header of the request is not valid"):
        plain.ask(np.zeros(3), raw=raw)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(base=VERSIONS)
def test_a_state_that_the_node_does_not_have_is_no_start(plain, base):
    if base == [-1, -1]:
        return
    with pytest.raises(Refusal, match="which this node does not have"):
        plain.ask(np.zeros(3), base=base)


def test_a_request_makes_a_state_that_is_not_the_first(plain):
    with pytest.raises(Refusal, match="makes a state of a round and an exchange"):
        plain.ask(np.zeros(3), made=(-1, -1))


def files(insider) -> list:
    return sorted(insider.states.rglob("*.state"))


def test_what_a_node_stores_only_its_owner_can_read(private):
    private.ask(np.zeros(3))
    stored = [*private.states.rglob("*")]
    assert len(files(private)) == 1 and {"last", "privacy-0.json"} <= {path.name for path in stored}
    for path in stored:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("toml", [TOML, TOML + LOCAL], ids=["plain", "private"])
def test_an_error_of_the_clients_code_stays_at_the_node(tmp_path, toml):
    insider = Insider(tmp_path, toml)
    with pytest.raises(Refusal, match=r"^client error [0-9a-f]{8}: see the node's log$") as told:
        insider.ask(np.full(3, 4711.0))
    entry = read_entries(insider.states / "audit-0.jsonl")[-1]
    assert entry["answer"] == "error" and entry["reference"] in str(told.value)
    assert "patient 4711 has a bad row" in entry["why"]


def test_a_node_writes_down_what_it_was_asked_and_what_it_answered(private):
    private.hello()
    private.hello()
    reply = private.ask(np.zeros(3), made=(4, 2))
    private.restart()
    with pytest.raises(Refusal):
        private.ask(np.zeros(3), made="all")
    greeted, asked, refused = read_entries(private.states / "audit-0.jsonl")
    assert [entry["answer"] for entry in (greeted, asked, refused)] == ["reply", "reply", "refused"]
    assert (asked["asked"], asked["run"], json.loads(asked["header"])["made"]) == ("ask", 7, [4, 2])
    assert asked["epsilon"] == pytest.approx(epsilon(1)) and asked["reply_bytes"] > reply.nbytes
    assert "made" in refused["why"] and refused["epsilon"] == asked["epsilon"]


@pytest.mark.parametrize("toml", [TOML, TOML + LOCAL], ids=["plain", "private"])
def test_a_full_disk_of_a_node_loses_nothing(tmp_path, toml):
    """No reply leaves the node before it is written down; once there is room again, the node goes on, also after a restart."""
    insider, before = Insider(tmp_path, toml), resource.getrlimit(resource.RLIMIT_FSIZE)
    first = insider.ask(np.zeros(3), made=(1, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        with pytest.raises(Refusal, match="File too large"):
            insider.ask(np.zeros(3), made=(2, 0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    np.testing.assert_array_equal(insider.ask(np.zeros(3), made=(1, 0)), first)
    insider.restart()
    insider.ask(np.zeros(3), made=(2, 0))
    made = [json.loads(entry["header"])["made"] for entry in read_entries(insider.states / "audit-0.jsonl")]
    assert made == [[1, 0], [1, 0], [2, 0]]


def test_a_node_does_not_go_on_with_a_log_that_was_changed(private):
    private.hello()
    log = private.states / "audit-0.jsonl"
    log.write_text(log.read_text().replace("hello", "hullo") + "and more\n")
    with pytest.raises(UserError, match="was changed .*: see turnout audit, and give another file by --log"):
        private.restart()


@pytest.mark.parametrize("kind", ["ask_of_another_run", "measure", "measure_", "other"])
def test_requests_of_other_runs_are_refused(plain, kind):
    with pytest.raises(Refusal, match="not one of the run for which this node answers"):
        plain.send(kind, b"{}", b"")
