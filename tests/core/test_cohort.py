"""Cohorts refuse draws that are not valid: at once where values are known, at the end of a chunk where they are compiled."""

import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from turnout.core.records import record

FOUR = t.Population(4)


@pytest.mark.parametrize(
    ("ids", "probability", "options", "words"),
    [
        ([0, 4], 0.5, {}, "the client 4, but clients are 0 to 3"),
        ([-1, 2], 0.5, {}, "the client -1, but clients are 0 to 3"),
        ([2, 2], 0.5, {}, "the client 2 twice: draw without replacement"),
        ([2, 2], 0.5, {"expansion": [2.0, 2.0]}, "the client 2 twice"),
        ([0, 1], 1.5, {}, r"probability of a drawn client must be in \(0, 1\], but one is 1.5"),
        ([0, 1], [0.5, 0.0], {}, r"in \(0, 1\], but one is 0"),
        ([0, 1], [0.5, np.nan], {}, r"in \(0, 1\], but one is nan"),
        ([0, 1], 0.5, {"expansion": [2.0, np.inf]}, "expansion of a drawn client must be positive and finite, but one is inf"),
        ([[0, 1]], 0.5, {}, r"ids of a cohort must have the shape \[m\], but it is \[1, 2\]"),
        ([0, 1], [0.5] * 3, {}, r"probability of a cohort must have the shape \[2\], that of ids, but it is \[3\]"),
        ([0, 1], 0.5, {"active": [True]}, r"active of a cohort must have the shape \[2\]"),
        ([0, 1], 0.5, {"expansion": [2.0]}, r"expansion of a cohort must have the shape \[2\]"),
        ([0.0, 1.0], 0.5, {}, "ids of a cohort must be whole numbers"),
        ([0, 1], 0.5, {"active": [1, 0]}, "active of a cohort must be True or False"),
    ],
)
def test_a_draw_that_is_not_valid_is_refused(ids, probability, options, words):
    options = {name: jnp.asarray(value) for name, value in options.items()}
    with pytest.raises(t.UserError, match=words):
        t.Cohort.of(jnp.asarray(ids), probability, FOUR, selection="random", **options)


def test_empty_places_may_hold_anything():
    active = jnp.array([True, False, False])
    cohort = t.Cohort.of([1, 1, 9], jnp.array([0.5, 0.0, 2.0]), FOUR, selection="random", active=active)
    assert int(cohort.size) == 1 and float(cohort.weight[0]) == 0.5
    assert int(cohort.invalid_places(4)) == 0


def test_an_expansion_allows_expected_numbers_above_one():
    cohort = t.Cohort.of([1], 3.0, FOUR, selection="random", expansion=jnp.array([2 / 3]))
    assert int(cohort.invalid_places(4)) == 0


@record
class Fixed(t.Sampler):
    """A sampler that always draws the same clients with the same probability."""

    ids: list[int]
    probability: float = 0.5

    def draw(self, state, key, population):
        return t.Cohort.of(jnp.array(self.ids), jnp.asarray(self.probability), population, selection="arbitrary")


@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize(
    "sampler, words",
    [
        (Fixed([0, 7]), "have a client that does not exist"),
        (Fixed([3, 3]), "is drawn twice"),
        (Fixed([0, 1], 1.5), r"a probability outside \(0, 1\]"),
        (Fixed([0, 1], 0.0), r"a probability outside \(0, 1\]"),
    ],
)
def test_a_run_ends_with_the_error_of_a_wrong_draw(engine, sampler, words):
    with pytest.raises(t.UserError, match=words):
        t.run(t.MbGd(sampler, lr=0.1), t.Quadratic.random(4, 2), rounds=3, engine=engine)


def test_a_right_draw_of_the_same_sampler_passes():
    trace = t.run(t.MbGd(Fixed([0, 3]), lr=0.1), t.Quadratic.random(4, 2), rounds=3)
    assert trace.ledger.totals()["unusable"] == 0 and trace.ledger.totals()["contacts"] == 6
