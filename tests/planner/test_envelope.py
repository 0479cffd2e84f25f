"""What is cheapest at other prices, by made-up runs."""

import math
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from turnout.planner.candidates import Contender
from turnout.planner.envelope import NEAR, RACE, RATES, WithEvent, near, ranked


@dataclass
class Run:
    """A run that has ended, at the target or not."""

    events: pl.DataFrame
    met: bool

    def spent(self, price) -> float:
        return float(np.asarray(price.cost(self.events))[0])


@dataclass(eq=False)
class Made(Contender):
    """A candidate whose runs need so many exchanges and contacts, by seed; those in `missed` did not arrive."""

    needs: list[tuple[int, int]]
    missed: set[int] = field(default_factory=set)

    def trial(self, seed):
        exchanges, contacts = self.needs[seed]
        return Run(pl.DataFrame({"exchanges": [exchanges], "contacts": [contacts]}), seed not in self.missed)


PRICES = [WithEvent(t.Exchanges(), "contacts", float(rate)) for rate in RATES]
needs = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 40)), min_size=5, max_size=5)
candidates = st.lists(st.builds(Made, needs), min_size=1, max_size=8)


def middle(one: Made, price: WithEvent) -> float:
    """The interquartile mean of the costs over the seeds of the race: of five, the mean of the three in the middle."""
    return float(np.mean(sorted(exchanges + price.rate * contacts for exchanges, contacts in one.needs)[1:4]))


@pytest.mark.slow
@given(candidates)
def test_what_is_kept_is_near_the_cheapest_at_some_price(made):
    kept = near(made, PRICES)
    least = [min(middle(one, price) for one in made) for price in PRICES]
    for price, cost in zip(PRICES, least, strict=True):
        assert np.isclose(min(middle(one, price) for one in kept), cost)
    for one in kept:
        assert any(middle(one, price) <= NEAR * cost * (1 + 1e-9) for price, cost in zip(PRICES, least, strict=True))


@pytest.mark.everything
@given(candidates)
def test_the_least_cost_rises_with_the_price_of_the_event(made):
    costs = [ranked(made, price, RACE)[0][0] for price in PRICES]
    assert (np.diff(costs) >= 0).all()


@given(st.sets(st.integers(0, 4)))
def test_a_run_that_did_not_arrive_counts_as_infinitely_dear(missed):
    often, dear = Made([(1, 1)] * 5, missed), Made([(3, 3)] * 5)
    (cost, first), (_, second) = ranked([often, dear], t.Exchanges(), RACE)
    assert {first, second} == {often, dear} and (first is often) == (len(missed) < 2) and math.isfinite(cost)
