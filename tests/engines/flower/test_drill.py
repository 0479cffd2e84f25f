"""Short fault drills: processes of real federations are killed with -9 in the middle of a run, and members are malicious."""

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

pytestmark = pytest.mark.slow


@pytest.mark.everything
def test_kills_change_nothing_that_has_to_hold(tmp_path):
    """Two of them in each run."""
    # Flower is slow to import.
    from benchmarks.drill.cases import Case
    from benchmarks.drill.kills import drill

    kills = ["node", "superlink", "server", "node"]
    cases = [Case("scaffold", "repeat", clients=3, rounds=12), Case("rg-saga", "skip", clients=3, rounds=12)]
    runs = list(drill(tmp_path, cases, kills, np.random.default_rng(0), share=2))
    assert {played.case for played in runs} == {*cases}
    for played in runs:
        assert played.ended and played.differences and played.worst < 1e-10, played
    assert sum((played.kills for played in runs), Counter()) == Counter(kills)


@pytest.mark.everything
def test_kills_of_hubs_change_nothing_that_has_to_hold(tmp_path):
    """With its SuperLink a hub takes two clients along."""
    from benchmarks.drill.cases import Case
    from benchmarks.drill.kills import drill

    kills, case = ["hub", "node", "hub", "superlink"], Case("scaffold", "repeat", clients=4, rounds=12, hubs=2)
    runs = list(drill(tmp_path, [case], kills, np.random.default_rng(0), share=2))
    for played in runs:
        assert played.ended and played.differences and played.worst < 1e-10, played
    assert sum((played.kills for played in runs), Counter()) == Counter(kills)


@pytest.mark.tiers(quick=[], slow=["in-hubs"])
@pytest.mark.parametrize("name", ["in-hubs", "served"])
def test_kills_of_hubs_that_play_change_nothing(name, tmp_path):
    """A hub in the middle of its rounds, the server, and a node: four kills in a run."""
    from benchmarks.drill.cases import Case
    from benchmarks.drill.kills import drill

    kills, case = ["hub", "server", "node", "hub"], Case(name, "repeat", clients=4, rounds=12, hubs=2)
    runs = list(drill(tmp_path, [case], kills, np.random.default_rng(0), share=4))
    for played in runs:
        assert played.ended and played.differences and played.worst < 1e-10, played
    assert sum((played.kills for played in runs), Counter()) == Counter(kills)


def test_two_malicious_members_of_ten_change_nothing(tmp_path):
    """One misdeed of each kind and more; the first ones of both members are of two kinds."""
    from benchmarks.drill.malice import drill

    (played,) = drill(tmp_path, 1, np.random.default_rng(1), deadline=30.0)
    assert played.good and played.reasons.total() >= 4, played
