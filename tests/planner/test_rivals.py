"""The planner's rivals in the benchmark: they pay for what they would have played, and find the cheapest candidate."""

import json
import math
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from benchmarks.planner.problems import ROUNDS
from benchmarks.planner.rivals import RESERVED, RIVALS, Player, Spent, grids_of, searched
from benchmarks.planner.yardstick import SEEDS, Compute, Curve
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from turnout.accounting.ledger import EVENTS

PRICE = t.Exchanges()


def curve(length: int, met: bool) -> Curve:
    """A run of `length` rounds of one exchange each, whose metric falls to 0 by equal steps if it arrives."""
    rounds = np.arange(length + 1)
    events = {event: rounds if event in ("exchanges", "iterations") else np.zeros_like(rounds) for event in EVENTS}
    return Curve(events, 1 - rounds / length if met else np.ones(length + 1), met)


def table(lengths: dict[tuple[str, int], int | None]) -> SimpleNamespace:
    """A table of candidates (family, number) that arrive after so many rounds, or never."""
    rows = [{"family": family, "values": json.dumps({"lr": number})} for family, number in lengths]
    runs = [curve(length or ROUNDS, length is not None) for length in lengths.values()]
    curves = {(k, seed): run for k, run in enumerate(runs) for seed in SEEDS}
    # The candidates of a family share a program, which takes as long as ten rounds.
    families = [*dict.fromkeys(family for family, _ in lengths)]
    structure = np.array([families.index(family) for family, _ in lengths])
    compute = Compute(structure, np.full(len(lengths), 10.0), np.ones(len(lengths)))
    return SimpleNamespace(candidates=pl.DataFrame(rows), curves=curves, compute=compute)


@given(
    st.integers(1, ROUNDS),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from([0, 3]), st.integers(1, ROUNDS), st.floats(1, 300)), max_size=6),
)
def test_a_round_is_paid_once(length, met, plays):
    """A run that goes on pays for what is new, and no more than its length in all."""
    player, furthest = Player(table({("a", 0): length if met else None}), PRICE, math.inf), {}
    for seed, rounds, cap in plays:
        cost, metric = player.play(0, seed=seed, cap=cap, rounds=rounds)
        last = min(length if met else ROUNDS, rounds, math.ceil(cap))
        furthest[seed] = max(furthest.get(seed, 0), last)
        assert player.spent == 10 + sum(furthest.values())
        assert cost == (length if met and last == length else math.inf)
        assert metric == pytest.approx(1 - last / length if met else 1.0)


TABLE = {("a", k): None if k == 7 else 40 + 10 * (k - 4) ** 2 for k in range(8)}
TABLE |= {("b", k): 15 + 20 * abs(k - 2) for k in range(6)}


@pytest.mark.tiers(longer=["TPE"])
@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_with_enough_rounds_finds_the_cheapest(name):
    choice, player = searched(name, table(TABLE), PRICE, 20 * ROUNDS * len(TABLE), 0)
    assert choice is not None and [*TABLE][choice] == ("b", 2)
    assert all(after[0] >= before[0] for before, after in zip(player.incumbents, player.incumbents[1:], strict=False))


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("budget", [10, 100, 300])
def test_a_rival_stops_where_its_rounds_are_spent(name, budget):
    player = Player(table(TABLE), PRICE, budget)
    with pytest.raises(Spent):
        RIVALS[name](player, np.random.default_rng(1))
    assert (1 - RESERVED) * budget < player.spent <= (1 - RESERVED) * budget + 10 + ROUNDS


def test_a_rival_without_an_arrival_chooses_nothing():
    assert searched("random search", table({("a", 0): None}), PRICE, 1000, 0)[0] is None


def test_grids_hold_each_candidate_at_its_place():
    grids, numbers = grids_of(table({("a", 3): 5, ("b", 1): 5, ("a", 1): 5}))
    assert grids == {"a": {"lr": [1, 3]}, "b": {"lr": [1]}} and numbers == {("a", (1,)): 0, ("b", (0,)): 1, ("a", (0,)): 2}
