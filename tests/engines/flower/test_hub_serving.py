"""Rounds that a hub plays in the server's place, without the network: the compiled run's numbers, counts and bytes."""

import json
import tomllib
from functools import partial

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

import turnout as t
from tests.engines.flower.test_hub_play import REPEAT, Crash, another_reply
from tests.engines.flower.test_hubs import CLIENTS, SKIP, compiled, configured, passed, untimed
from tests.helpers.in_process_hubs import InProcessHubs
from turnout.engines.flower.hub_play import read_order
from turnout.engines.request import Refused
from turnout.experiment.config import Reader
from turnout.io.serialization import encode

BLOCK = '[sampler]\nkind = "block"\n'
NICE = '[sampler]\nkind = "nice"\nsize = 2\n'


def sppm(solver: str, sampler: str = BLOCK, inner: int = 3) -> str:
    return f'{sampler}[algorithm]\nkind = "sppm"\ngamma = 0.001\ninner = {inner}\nsolver = {{ {solver} }}\n'


BFGS = sppm('kind = "bfgs", convexity = 0.0')
SOME = '[sampler]\nkind = "block"\nsize = 2\n'
ALGORITHMS = {
    "bfgs": BFGS,
    "cg": sppm('kind = "cg", convexity = 0.0'),
    "newton": sppm('kind = "newton"'),
    "sketch": sppm('kind = "sketch"'),
    "fedopt": sppm(
        'kind = "fedopt", steps = 2, optimiser = { kind = "sgd", lr = 0.001 }, server_optimiser = { kind = "sgd", lr = 1.0 }'
    ),
    "scaffold": NICE + '[algorithm]\nkind = "scaffold"\nlr = 0.001\nsteps = 2\n',
    "losses": BFGS + '[faults]\nloss = 0.4\nmissing = "skip"\n',
    "repeats": sppm('kind = "bfgs", convexity = 0.0', SOME) + '[faults]\nloss = 0.4\nmissing = "repeat"\n',
}
"""All cohorts of a block are of one hub, and some of two clients."""

PEOPLE = f"""
[problem]
kind = "logistic"
data = "breast_cancer"
normalize = "columns"
mu = 0.1
[split]
kind = "dirichlet"
clients = {CLIENTS}
concentration = 1.0
[run]
rounds = 6
metrics = ["value"]
[hubs]
"""


def experiment_of(name: str, hubs: str):
    """Solvers that need second derivatives or convexity have a problem with these."""
    if name not in ("newton", "sketch", "fedopt"):
        return configured(ALGORITHMS[name], hubs, rounds=6)
    text = f"{PEOPLE}{hubs}\n{ALGORITHMS[name]}"
    return Reader("file.toml", text, tomllib.loads(text)).experiment("file")


@pytest.mark.tiers(quick=[], longer=["scaffold-consecutive"], slow=["fedopt-in turn", "repeats-in turn"])
@pytest.mark.parametrize("hubs", ["count = 3", f"of = {[k % 4 for k in range(CLIENTS)]}"], ids=["consecutive", "in turn"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_hub_serves_a_cohort_of_its_own(name, hubs):
    """Numbers to 1e-10, and all counts and bytes: one message with the server's state, and one with the new one."""
    experiment = experiment_of(name, hubs)
    expected, place = compiled(experiment), InProcessHubs(experiment)
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(trace.columns["value"], expected.columns["value"], rtol=1e-10)
    assert untimed(trace) == untimed(expected) and passed(trace) == passed(expected)
    ((_, messages, _, down, up),) = passed(trace)
    assert place.payloads == {"down": down, "up": up, "messages": messages}
    served = sum(row["exchanges"] for row in trace.ledger.rows() if row["path"].endswith(".served1"))
    assert served < 6 if name == "scaffold" else served == 6
    assert ("sum" in place.headers) == (name == "scaffold")


STATES = BLOCK + '[algorithm]\nkind = "scaffold"\nlr = 0.001\nsteps = 2\n'
"""Clients with states of their own; one exchange in each round."""
SEVERAL = sppm('kind = "localgd", steps = 2, convexity = 0.0, smoothness = 100.0')


@pytest.mark.tiers(quick=[], slow=["2"])
@pytest.mark.parametrize("asked", [1, 2, 3])
def test_a_hub_that_dies_in_the_middle_changes_no_number(asked):
    """Another process in its place plays the round anew, in the first, the second or the last of its exchanges."""
    experiment, seen = configured(BFGS + REPEAT, "count = 1"), []

    def crash(kind, number, reply):
        seen.append(kind)
        if kind == "ask" and seen.count("ask") == 3 + asked:
            place.restart(0)
            raise Crash
        return reply

    place = InProcessHubs(experiment, inner={0: {5: crash}})
    trace, expected = place.session().run().trace, compiled(experiment)
    assert seen.count("ask") == 4 * 3 + asked
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected)


@pytest.mark.slow
def test_a_run_goes_on_from_its_checkpoint():
    """Clients find the states that they had then, though a hub has played a round since."""
    experiment = configured(STATES, rounds=6)
    place = InProcessHubs(experiment)
    first = place.session()
    first.step(3)
    snapshot = first.snapshot()
    first.step(1)
    second = place.session(resumed=True)
    second.restore(snapshot)
    second.run()
    np.testing.assert_allclose(second.trace.x, compiled(experiment).x, rtol=1e-10)


def nothing(kind, number, reply):
    return None if kind == "ask" else reply


@pytest.mark.slow
def test_without_its_hub_a_cohort_is_away():
    """With "skip" a round is that of a cohort nobody of which answers, whether its hub is away or its clients are."""
    experiment = configured(BFGS + SKIP, rounds=6)
    place, other = InProcessHubs(experiment), InProcessHubs(experiment, inner={1: dict.fromkeys(range(4, 8), nothing)})
    session = place.session()
    place.away = {101}
    trace, expected = session.run().trace, other.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert 0 < trace.ledger.totals()["arrivals"] == expected.ledger.totals()["arrivals"] < 6 * 3 * 4
    (away,), (silent,) = passed(trace), passed(expected)
    rounds = (silent[2] - away[2], away[0] - silent[0])
    assert silent[:3] == (6, 6, 6) and rounds[1] == 2 * rounds[0] > 0


@pytest.mark.slow
def test_a_run_that_needs_the_hub_ends_in_a_sentence():
    place = InProcessHubs(configured(BFGS, rounds=6))
    session = place.session()
    place.away = {100, 101, 102}
    with pytest.raises(t.UserError, match=r"hub . has not played in round 1 .*: look into its log"):
        session.run()


def resent(change, tree, told) -> bytes:
    return encode(change(tree), np.zeros(5), told)


BAD = {
    "fewer": (lambda leaves: leaves[:-1], "of another shape or type"),
    "NaN": (lambda leaves: [np.full_like(leaf, np.nan) for leaf in leaves], "not finite"),
    "single": (lambda leaves: [leaf.astype("float32") for leaf in leaves], "of another shape or type"),
    "nothing": (lambda leaves: None, "without the state of the server"),
}


@pytest.mark.tiers(quick=[], slow=["fewer"])
@pytest.mark.parametrize("name", BAD)
def test_a_state_that_is_none_is_not_taken(name):
    """The server plays the round, and each exchange passes its link."""
    change, reason = BAD[name]
    experiment = configured(BFGS + SKIP, "count = 1", rounds=1)
    place = InProcessHubs(experiment, {0: partial(another_reply, partial(resent, change))})
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, compiled(experiment).x, rtol=1e-10)
    assert any(reason in told for told, count in place.counts.items() if count)
    assert passed(trace)[0][:3] == (3, 3, 3)


COHORT = {
    "ids": [4, 5], "active": [True, True], "probability": [0.5, 0.5], "expansion": [2.0, 2.0], "share": [0.1, 0.1],
    "weight": [0.2, 0.2], "selections": 1, "lost": 0, "available": 12, "selection": "random", "biased": False,
}  # fmt: skip
WRONG = {
    "of another hub": COHORT | {"ids": [4, 0]},
    "of other sizes": COHORT | {"weight": [0.2]},
    "of no kind": COHORT | {"selection": "sorted"},
    "of words": COHORT | {"ids": ["a", "b"]},
    "no cohort": 3,
    "nothing": {},
}


@pytest.fixture(scope="module")
def place():
    return InProcessHubs(configured(BFGS))


@pytest.mark.tiers(longer=["of another hub"])
@pytest.mark.parametrize("name", WRONG)
def test_a_hub_plays_for_its_own_clients_only(place, name):
    order = {"path": "", "round": 1, "draws": 0, "exchanges": 0, "own": [(-1, -1)] * 2, "base": [(-1, -1)] * 4}
    order |= {"kept": order["base"], "seconds": 60.0, "cohort": WRONG[name]}
    with pytest.raises(Refused, match="the request to this hub is not valid"):
        place.services[1].player.answer(json.dumps(order).encode(), encode([], np.zeros(5)), b"")


def test_a_hub_that_plays_rounds_of_its_own_serves_no_cohort():
    order = {"path": "", "round": 1, "draws": 0, "exchanges": 0, "own": [(-1, -1)] * 2, "base": [], "kept": [], "seconds": 1.0}
    with pytest.raises(Refused, match="no hub works there"):
        read_order(json.dumps(order | {"cohort": COHORT}).encode(), 0, ("1.loop",))
