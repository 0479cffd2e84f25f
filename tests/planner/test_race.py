"""The race on made-up candidates: it finds the cheapest, and plays none further than it has to."""

import math
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from turnout.planner.envelope import front
from turnout.planner.race import CENSORED, CLOSE, LEVEL, LONGEST, MOST, REACH, SEEDS, Outcome, Race, costs_more


@dataclass(eq=False)
class Made:
    """A candidate that costs `cost` times a factor of the seed, of which a row costs `row`."""

    cost: float
    row: float = 1.0
    noise: tuple[float, ...] = (1.0,) * 5
    spent: dict[int, float] = field(default_factory=dict)

    def play(self, seed: int, cap: float) -> Outcome:
        whole = self.cost * self.noise[seed]
        spent = self.spent.get(seed, 0.0)
        while spent < min(cap, whole):
            spent += self.row
        self.spent[seed] = spent
        return Outcome(whole if spent >= whole else math.inf, min(spent, whole), spent >= whole)


def apart(place: tuple[int, ...], other: tuple[int, ...]) -> int:
    """The number of steps between two structures."""
    return sum(abs(a - b) for a, b in zip(place, other, strict=True))


class Bowl:
    """A family with structures on a grid, whose costs rise with the distance from the best one."""

    def __init__(self, name: str, best: tuple[int, ...], least: float, shape: tuple[int, ...], noise=(1.0,) * 5):
        self.name, self.shape = name, shape
        self.grid: dict[tuple[int, ...], list[Made]] = {
            place: [
                Made(least * 1.5 ** sum(abs(a - b) for a, b in zip(place, best, strict=True)) * factor, noise=noise)
                for factor in (1, 2)
            ]
            for place in product(*map(range, shape))
        }

    def centre(self):
        return tuple(size // 2 for size in self.shape)

    def second_chances(self):
        return [tuple(size - 1 for size in self.shape)]

    def neighbours(self, place):
        return [other for other in self.grid if apart(place, other) == 1]

    def candidates(self, place):
        return self.grid[place]


bowls = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.floats(2.0, 200.0)), min_size=1, max_size=6).map(
    lambda places: [Bowl(str(k), (i, j), least, (5, 4)) for k, (i, j, least) in enumerate(places)]
)


@pytest.mark.longer
@given(bowls)
def test_the_best_structure_of_each_family_within_reach_is_found(families):
    race = Race(families)
    race.explore()
    least = {family.name: min(one.cost for made in family.grid.values() for one in made) for family in families}
    start = {family.name: min(one.cost for one in family.candidates(family.centre())) for family in families}
    leader = min(start, key=lambda name: start[name])
    assert race.best <= least[leader]
    for standing in race.standings:
        if start[standing.family.name] <= REACH[-1] * race.best:
            assert standing.best == least[standing.family.name]


@pytest.mark.longer
@given(bowls)
def test_costs_that_tie_do_not_hide_what_is_behind_them(families):
    """Costs are rounded up to multiples of four, as those in few exchanges are."""
    for family in families:
        for made in family.grid.values():
            for one in made:
                one.cost = 4.0 * math.ceil(one.cost / 4)
    race = Race(families)
    race.explore()
    for standing in race.standings:
        if standing.best <= REACH[-1] * race.best:
            assert standing.best == min(one.cost for made in standing.family.grid.values() for one in made)


@given(bowls)
def test_no_candidate_is_played_beyond_what_it_has_to_beat(families):
    Race(families).explore()
    centres = [one for family in families for one in family.candidates(family.centre())]
    first = min(one.cost for one in centres)
    for one in (one for family in families for made in family.grid.values() for one in made):
        assert all(spent <= max(REACH[0], 2.0) * first + one.row for spent in one.spent.values())


def test_families_are_searched_further_where_nobody_arrives_at_first():
    family = Bowl("far", (0, 0), 4.0, (5, 5))

    class Ends(Made):
        def play(self, seed, cap):
            return Outcome(math.inf, 3.0, True)

    family.grid = {place: made if place == (0, 0) else [Ends(math.inf)] for place, made in family.grid.items()}
    race = Race([family])
    race.explore()
    assert race.best == 4.0


@given(st.floats(1.0, 20.0))
def test_a_family_that_is_lost_is_found_at_the_other_end(least):
    """The centre costs 1.5^5 = 7.6 times as much as the end of the grid."""
    leader, lost = Bowl("leader", (0,), 1.2 * least, (1,)), Bowl("lost", (9, 1), least, (10, 2))
    race = Race([leader, lost])
    race.explore()
    assert race.best == least
    dear = Bowl("dear", (9, 1), 4 * least, (10, 2))
    race = Race([leader, dear])
    race.explore()
    assert [*race.standings[1].costs] == [dear.centre(), *dear.second_chances()] and math.isinf(race.standings[1].best)


@pytest.mark.longer
@given(st.floats(2.0, 50.0), st.lists(st.floats(1.1, 2.0), min_size=1, max_size=10))
def test_bad_luck_on_the_first_seed_hides_no_candidate(luck, factors):
    family = Bowl("one", (0,), 1.0, (1,))
    lucky = [Made(8.0 * factor) for factor in factors]
    unlucky = Made(8.0, noise=(luck, 1.0, 1.0, 1.0, 1.0))
    family.grid[0,] = [*lucky, unlucky]
    race = Race([family])
    race.explore()
    assert next(iter(race.narrow(race.close()))) is unlucky
    assert unlucky.spent[0] <= LONGEST * race.best + unlucky.row


@given(st.lists(st.floats(5.0, 7.9), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
def test_the_cheapest_remains_and_few_meet_on_further_seeds(costs, seed):
    factors = tuple(np.random.default_rng(seed).lognormal(0, 0.3, 5))
    race = Race([Bowl("one", (0,), 1.0, (1,))])
    made = [Made(cost, noise=factors) for cost in costs]
    race.standings[0].costs = {(k,): {one: one.play(0, math.inf).cost} for k, one in enumerate(made)}
    close = race.close()
    assert len(close) == min(len(costs), MOST) and close[0].cost == min(costs)
    remaining = race.narrow(close)
    assert next(iter(remaining)).cost == min(costs)
    # All seeds have one factor, so that what costs more costs more on each.
    assert all(one.cost == min(costs) for one in remaining)
    for one in close:
        assert all(
            one.spent[k] <= max(LONGEST * max(factors) * 8, CENSORED) * min(costs) + one.row for k in SEEDS if k in one.spent
        )


@given(st.lists(st.lists(st.sampled_from([2.0, 3.0, 4.0, 9.0]), min_size=1, max_size=40), min_size=1, max_size=8))
def test_a_crowded_family_does_not_keep_others_from_further_seeds(families):
    race = Race([Bowl(str(k), (0,), 1.0, (1,)) for k in range(len(families))])
    for standing, costs in zip(race.standings, families, strict=True):
        standing.costs = {(0,): {Made(cost): cost for cost in costs}}
    close = race.close()
    reach = REACH[0] * race.best
    within = [cost for costs in families for cost in costs if cost <= CLOSE * race.best]
    firsts = [min(costs) for costs in families if CLOSE * race.best < min(costs) <= reach]
    assert [one.cost for one in close] == sorted(one.cost for one in close)
    assert len(close) == min(len(within) + len(firsts), MOST)
    for standing in race.standings:
        if standing.best <= reach:
            assert standing.best in [cost for one, cost in standing.costs[0,].items() if one in close]


@given(st.lists(st.tuples(st.floats(1.0, 50.0), st.floats(1.0, 50.0)), min_size=3, max_size=8))
def test_a_candidate_drops_out_by_a_paired_t_test(pairs):
    costs, leader = np.array(pairs).T
    ratios = np.log(costs) - np.log(leader)
    if ratios.std() > 1e-9:
        chance = np.asarray(ttest_1samp(ratios, 0.0, alternative="greater"))[1]
        expected = chance < (1 - LEVEL) / 2
        assert costs_more(costs.tolist(), leader.tolist()) == expected


@pytest.mark.parametrize(("costs", "worse"), [([2.0, 2.0, 2.0], False), ([4.0, 4.0, 4.0], True), ([1.0, 1.0, 1.0], False)])
def test_equal_ratios_need_no_interval(costs, worse):
    assert costs_more(costs, [2.0, 2.0, 2.0]) == worse


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_the_front_has_every_point_that_no_other_beats(points):
    costs, counts = np.array(points, float).T
    on = front(costs, counts)
    kept = {tuple(point) for point in np.array(points)[on].tolist()}
    below = {
        point for point in map(tuple, points) if not any(a <= point[0] and b <= point[1] and (a, b) != point for a, b in points)
    }
    assert kept == below and len(kept) == on.sum()
