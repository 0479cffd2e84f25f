"""A site's policy: the server may change the configuration within it, and nothing else."""

import importlib
import json
from contextlib import suppress
from datetime import datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.commands import turnout, wait_for
from tests.helpers.insider import LOCAL, SECRET, TOML, Insider, Refusal
from turnout.core.errors import UserError
from turnout.engines.flower.greeting import Hello, parse_hello
from turnout.federation.policy import in_hours
from turnout.federation.policy_file import read_policy

POLICY = """
algorithms = ["fedavg", "fedprox"]
rounds = 50
methods = ["train"]
metrics = ["value"]
packages = ["trusted"]
[ranges.fedavg]
lr = [0.1, 1]
steps = [1, 3]
[ranges.nice]
size = [1, 2]
"""
NICE = ('kind = "full"', 'kind = "nice"\nsize = 1')


def change(*changes: tuple[str, str]) -> str:
    """The configuration with replacements; each must have an effect."""
    toml = TOML
    for old, new in changes:
        assert old in toml
        toml = toml.replace(old, new)
    return toml


@pytest.fixture
def site(tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY)
    return Insider(tmp_path, TOML, policy=tmp_path / "policy.toml")


def with_policy(folder, policy: str, toml: str = TOML) -> Insider:
    (folder / "policy.toml").write_text(policy)
    return Insider(folder, toml, policy=folder / "policy.toml")


def agreed(insider) -> bool:
    """Whether the server's handshake succeeds."""
    return parse_hello(json.dumps(insider.hello()).encode(), insider.handshake, 2) == Hello(0, 5, None)


WITHIN = {
    "step size": change(("lr = 1.0", "lr = 0.25")),
    "sampler": change(NICE),
    "rounds": change(("rounds = 30", "rounds = 50")),
    "missing": TOML + '[faults]\nmissing = "repeat"\n',
    "algorithm": change(('"fedavg"', '"fedprox"'), ("lr = 1.0", "lr = 0.25\nmu = 0.0")),
    "seed": change(("rounds = 30", "rounds = 30\nseed = 9")),
    "name": change(('"trial"', '"another trial"')),
}


@pytest.mark.parametrize("what", WITHIN)
def test_the_server_may_change_the_configuration_within_the_policy(site, what):
    """A node without a policy refuses it; this one answers, from its own data, and with the configuration of before too."""
    assert agreed(site)
    site.configure(WITHIN[what])
    assert agreed(site)
    expected = SECRET / 4 if "0.25" in WITHIN[what] else SECRET
    np.testing.assert_allclose(site.ask(np.zeros(3)), expected)
    site.restart()
    np.testing.assert_allclose(site.ask(np.zeros(3), made=(2, 0)), expected)
    site.configure(TOML)
    assert agreed(site)
    np.testing.assert_allclose(site.ask(np.zeros(3)), SECRET)


OUTSIDE = {
    "algorithm 'scaffold' is not allowed here, only fedavg, fedprox": change(('"fedavg"', '"scaffold"')),
    "51 rounds are not allowed here, at most 50": change(("rounds = 30", "rounds = 51")),
    "lr of fedavg must be from 0.1 to 1 here, but it is 2.0": change(("lr = 1.0", "lr = 2.0")),
    "steps of fedavg must be from 1 to 3 here, but it is 4": change(("steps = 1", "steps = 4")),
    r"\[problem\] is another one": change(("clients = 2", 'clients = 2\nweights = "size"')),
    "the gradient of this client may not be asked for, only value": change(('["value"]', '["gradient"]')),
}


@pytest.mark.parametrize("sentence", OUTSIDE)
def test_a_configuration_outside_is_refused_with_a_sentence(site, sentence):
    """At both ends: in the server's handshake, and in the node's log; and its requests are not answered."""
    site.configure(OUTSIDE[sentence])
    client, _, reason, *_ = parse_hello(json.dumps(site.hello()).encode(), site.handshake, 2)
    with pytest.raises(AssertionError, match=sentence):
        raise AssertionError(reason)
    assert client == 0 and reason.startswith("client 0 refuses this run: ")
    entry = json.loads((site.states / "audit-0.jsonl").read_text().splitlines()[-1])
    assert entry["answer"] == "refused" and entry["why"] in reason
    with pytest.raises(Refusal, match="not one of the run"):
        site.ask(np.zeros(3))


@pytest.mark.longer
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lr=st.floats(1e-3, 10), steps=st.integers(1, 6), size=st.integers(1, 2), rounds=st.integers(0, 100))
def test_a_configuration_is_taken_exactly_if_all_of_it_is_within(site, lr, steps, size, rounds):
    sampler = ('kind = "full"', f'kind = "nice"\nsize = {size}')
    site.configure(change(("lr = 1.0", f"lr = {lr!r}"), ("steps = 1", f"steps = {steps}"), ("= 30", f"= {rounds}"), sampler))
    assert agreed(site) == (0.1 <= lr <= 1 and steps <= 3 and rounds <= 50)


def test_without_a_policy_another_configuration_is_refused(tmp_path):
    plain = Insider(tmp_path, TOML)
    plain.configure(WITHIN["step size"])
    assert "does not agree on configuration" in parse_hello(json.dumps(plain.hello()).encode(), plain.handshake, 2).refusal
    with pytest.raises(Refusal, match="not one of the run"):
        plain.ask(np.zeros(3))


CLASSES = {
    "a file": "FOLDER/evil.py:Evil",
    "a module": "evil:Evil",
    "a package that only begins like one": "trusted_not.evil:Evil",
}


@pytest.mark.parametrize("place", ["algorithm", "sampler", "solver", "price"])
@pytest.mark.parametrize("name", CLASSES)
def test_a_server_cannot_have_code_imported(site, monkeypatch, name, place):
    """The class is on the disk of the node, or in its path: importing it would leave a mark."""
    evil, mark = site.folder / "evil.py", site.folder / "mark"
    evil.write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.syspath_prepend(str(site.folder))
    kind = f'kind = "{CLASSES[name].replace("FOLDER", str(site.folder))}"'
    tables = {
        "algorithm": change(('kind = "fedavg"', kind)),
        "sampler": change(('kind = "full"', kind)),
        "solver": change(('kind = "fedavg"', f'kind = "sppm"\nsolver = {{ {kind} }}')),
        "price": TOML,
    }
    text = told_text(site, tables[place])
    text = text if place != "price" else site.handshake.text.replace('kind = "exchanges"', kind)
    told = json.loads(site.send("hello", text.encode(), b""))
    assert "is of no package that is allowed here" in told["refusal"] and not mark.exists()


def told_text(site, toml: str) -> str:
    """A configuration whose data are those of the site, in the form in which a server sends it."""
    own, text = site.handshake.text, toml[toml.index("[sampler]") :]
    return own[: own.index("[sampler]")] + text.replace("[run]", '[run]\nprecision = "double"')


@pytest.mark.parametrize(
    "text", [b"\xff", b"[", b"= 3", b"[algorithm]", b"problem = 3", b"[[problem]]", b"a" * 2**21, b"name = 3\n" * 2]
)
def test_a_greeting_that_is_no_configuration_is_refused(site, text):
    refusal = json.loads(site.send("hello", text, b""))["refusal"]
    assert refusal and "\n" not in refusal
    assert agreed(site)


def test_a_file_of_the_node_cannot_be_named_as_the_start(site):
    text = site.handshake.text.replace("[run]", f'[run]\nstart = "{site.folder}/policy.toml"')
    assert "start is another one than this node's" in json.loads(site.send("hello", text.encode(), b""))["refusal"]


REQUESTS = {
    "local method 'train.loss\\(\\)' is not allowed here": lambda site: site.ask(np.zeros(3), method="train.loss()"),
    "round 51 is not allowed here, at most 50": lambda site: site.ask(np.zeros(3), made=(51, 0)),
    "the gradient of this client may not be asked for": lambda site: site.measure(np.zeros(3), "gradient"),
    "the accuracy of this client may not be asked for": lambda site: site.measure(np.zeros(3), "value", "accuracy"),
}


@pytest.mark.parametrize("sentence", REQUESTS)
def test_a_request_outside_of_the_policy_is_refused(site, sentence):
    with pytest.raises(Refusal, match=sentence):
        REQUESTS[sentence](site)


def test_a_large_request_is_refused(tmp_path):
    site = with_policy(tmp_path, "request_bytes = 100\n" + POLICY)
    with pytest.raises(Refusal, match="a request of [0-9]+ bytes is not allowed here, at most 100"):
        site.ask(np.zeros(3))


def test_a_request_that_takes_too_long_is_refused_and_the_node_goes_on(tmp_path):
    """The client waits until the test lets it go on; until then the node is busy, and afterwards it has the reply."""
    site, reply = with_policy(tmp_path, "request_seconds = 0.2\n" + POLICY), []
    waiting = np.array([815.0, 0, 0])
    with pytest.raises(Refusal, match="takes longer than 0.2 s"):
        site.ask(waiting)
    with pytest.raises(Refusal, match="still works on a request"):
        site.ask(np.zeros(3), made=(2, 0))
    assert agreed(site)
    site.configure(WITHIN["step size"])
    assert "still works on a request" in site.hello()["refusal"]
    site.configure(TOML)
    importlib.import_module("own_clients").GATE.set()

    def answered():
        with suppress(Refusal):
            reply.append(site.ask(waiting))
        return reply

    wait_for(answered)
    np.testing.assert_allclose(reply[0], SECRET - waiting)


def test_a_node_that_does_not_tell_its_rows_counts_as_one(tmp_path):
    site = with_policy(tmp_path, "rows_told = false\n" + POLICY)
    assert site.hello()["rows"] == 1
    (tmp_path / "own").mkdir()
    with pytest.raises(UserError, match="trial is not within .*policy.toml: weights = 'size' needs the number of rows"):
        with_policy(tmp_path / "own", "rows_told = false\n" + POLICY, change(("clients = 2", 'clients = 2\nweights = "size"')))


def test_a_node_answers_in_its_hours(tmp_path):
    hour = datetime.now().hour
    site = with_policy(tmp_path, f"hours = [{(hour + 3) % 24}, {(hour + 4) % 24}]\n" + POLICY)
    with pytest.raises(Refusal, match="o'clock only"):
        site.ask(np.zeros(3))
    assert "o'clock only" in site.hello()["refusal"]
    (tmp_path / "open").mkdir()
    assert agreed(with_policy(tmp_path / "open", "hours = [0, 24]\n" + POLICY))


@given(first=st.integers(0, 24), length=st.integers(1, 23))
def test_hours_may_go_over_midnight(first, length):
    hours = [first, (first + length) % 24]
    inside = {(first + k) % 24 for k in range(length)}
    assert {hour for hour in range(24) if in_hours(hours, hour)} == inside


SPENDING = "epsilon = 40.0\ndelta = 1e-5\n" + POLICY.replace('methods = ["train"]\n', "")


@pytest.mark.slow
def test_epsilon_is_that_of_all_configurations_together(tmp_path):
    """With z = 4 the limit allows some replies; more noise allows more, but what is spent stays spent."""
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'turnout[privacy]'")
    site = with_policy(tmp_path, SPENDING, TOML + LOCAL)
    counts = []
    for toml in (TOML + LOCAL, TOML + LOCAL.replace("4.0", "40.0"), TOML + LOCAL):
        site.configure(toml)
        assert agreed(site)
        counts.append(0)
        with pytest.raises(Refusal, match="one more reply would exceed epsilon = 40 for delta = 1e-05"):
            while counts[-1] < 500:
                site.ask(np.zeros(3), made=(1, counts[-1]))
                counts[-1] += 1
    assert counts[0] > 50 and 0 < counts[1] < 500 and counts[2] == 0
    site.configure(TOML)
    assert "needs [privacy] with model = 'local'" in site.hello()["refusal"]
    site.configure(TOML + LOCAL + "seed = 1\n")
    assert "remove the noise: leave it out" in site.hello()["refusal"]


MISTAKES = {
    "line 1: algorithm: unknown key 'algorithm': did you mean 'algorithms'?": 'algorithm = ["fedavg"]\nrounds = 3\n',
    "rounds: rounds is missing: give it a value": 'algorithms = ["fedavg"]\n',
    "line 1: rounds: must be a whole number of at least 0, but it is '3': write 3 without": 'rounds = "3"\nalgorithms = []\n',
    "epsilon and delta belong together": "algorithms = []\nrounds = 3\nepsilon = 1.0\n",
    "hours are two": "algorithms = []\nrounds = 3\nhours = [1]\n",
    "line 4: ranges.fedavg.lf: unknown key 'lf': did": "algorithms = []\nrounds = 3\n[ranges.fedavg]\nlf = [0, 1]\n",
    "line 3: ranges.fedavgg: unknown kind 'fedavgg'": "algorithms = []\nrounds = 3\n[ranges.fedavgg]\nlr = [0, 1]\n",
    "line 4: ranges.fedavg.lr: a range is": "algorithms = []\nrounds = 3\n[ranges.fedavg]\nlr = [1, 0]\n",
    "line 3: ranges.fedavg: .* is a table of keys": "algorithms = []\nrounds = 3\nranges.fedavg = 3\n",
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_mistake_in_a_policy_is_told_with_its_line(tmp_path, sentence):
    (tmp_path / "policy.toml").write_text(MISTAKES[sentence])
    with pytest.raises(UserError) as told:
        read_policy(tmp_path / "policy.toml")
    with pytest.raises(AssertionError, match=sentence.replace("?", r"\?")):
        raise AssertionError(str(told.value))
    assert "\n" not in str(told.value)


def test_the_command_tells_a_mistake_in_a_policy_before_it_connects(tmp_path):
    (tmp_path / "file.toml").write_text(TOML)
    place = ("--superlink", "localhost:1", "--authority", tmp_path, "--key", tmp_path, "--states", tmp_path / "states")
    command = ("node", tmp_path / "file.toml", "--client", 0, *place, "--policy", tmp_path / "policy.toml")
    assert turnout(*command)[::2] == (2, f"turnout: {missing(tmp_path)}\n")
    (tmp_path / "policy.toml").write_text("rounds = 3\nalgorithms = []\n")
    sentence = f"trial is not within {tmp_path / 'policy.toml'}: algorithm 'fedavg' is not allowed here, only none"
    assert turnout(*command)[::2] == (2, f"turnout: {sentence}\n")


def missing(folder) -> str:
    return f"{folder / 'policy.toml'}: cannot be read (No such file or directory): give a TOML file"


VALUES = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["lr", "a"]), inner, max_size=2),
    max_leaves=4,
)
KEYS = ["rounds", "algorithms", "methods", "metrics", "packages", "ranges", "rows_told", "epsilon", "hours", "request_seconds"]


@pytest.mark.longer
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(KEYS), value=VALUES)
def test_any_value_of_a_policy_is_accepted_or_refused_with_one_sentence(tmp_path, key, value):
    tomli_w = pytest.importorskip("tomli_w")
    file = tmp_path / "policy.toml"
    file.write_text(tomli_w.dumps({"algorithms": [], "rounds": 3, key: value}))
    try:
        assert getattr(read_policy(file), key) == value
    except UserError as error:
        assert str(error).startswith(str(file)) and "\n" not in str(error)
