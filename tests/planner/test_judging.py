"""The cheapest candidate of a grid is found without playing all candidates to the end."""

from dataclasses import dataclass

import numpy as np
from benchmarks.planner.judging import cheapest
from benchmarks.planner.problems import PRICES
from benchmarks.planner.yardstick import SEEDS
from hypothesis import given
from hypothesis import strategies as st

from turnout.accounting.ledger import EVENTS
from turnout.planner.race import Outcome

ROWS = 30
"""The rows of a run that does not arrive."""


@dataclass
class Made:
    """A candidate whose rows are an exchange with `clients` each; with a seed it arrives at a row, or never where that is 0."""

    clients: int
    ends: list[int]
    played: int = 0

    def cost(self, price, rows: int) -> float:
        counts = {"exchanges": rows, "contacts": rows * self.clients, "queries_slowest": rows, "draws_random": rows}
        return float(price.cost(dict.fromkeys(EVENTS, 0.0) | counts))

    def trial(self, seed: int) -> "Run":
        return Run(self, self.ends[seed])


@dataclass
class Run:
    """A run that is played as far as it is asked for."""

    one: Made
    end: int

    def play(self, price, cap: float) -> Outcome:
        rows = 0
        while rows < (self.end or ROWS) and self.one.cost(price, rows) < cap:
            rows += 1
        self.one.played += rows
        spent = self.one.cost(price, rows)
        return Outcome(spent if rows == self.end else np.inf, spent, rows in (self.end, ROWS))


runs = st.builds(Made, st.integers(1, 20), st.lists(st.integers(0, ROWS), min_size=len(SEEDS), max_size=len(SEEDS)))


@given(st.lists(runs, min_size=1, max_size=12))
def test_the_cheapest_candidate_is_that_of_all_runs_to_the_end(made):
    found = cheapest(made)
    for label, price in PRICES.items():
        medians = [np.median([one.cost(price, end) if end else np.inf for end in one.ends]) for one in made]
        if np.isinf(min(medians)):
            assert found[label] is None
        else:
            assert found[label] is made[int(np.argmin(medians))]


def test_a_candidate_that_never_arrives_is_not_played_to_its_end():
    good, bad = Made(1, [2] * len(SEEDS)), Made(1, [0] * len(SEEDS))
    cheapest([good, bad])
    assert bad.played < ROWS
