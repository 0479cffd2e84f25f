"""Cohorts refuse draws that are not valid: at once where values are known, at the end of a chunk where they are compiled."""

from dataclasses import replace

import jax
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
        ([0, 9], 0.5, {}, "the client 9, but clients are 0 to 3"),
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


@pytest.mark.longer
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


@pytest.mark.tiers(longer=["sampler0-have a client that does not exist-compiled"])
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


THREE = t.Population(3, weights=np.array([0.5, 0.25, 0.25]))


def leaves(cohort) -> dict:
    """The numbers of a cohort by name."""
    names = ("ids", "active", "probability", "expansion", "share", "weight", "selections", "lost", "available")
    return {name: np.asarray(getattr(cohort, name)).tolist() for name in names}


def test_a_client_stands_for_one_over_its_probability():
    cohort = t.Cohort.of([2, 0], np.array([0.25, 0.8]), THREE, selection="random")
    assert leaves(cohort) == {
        "ids": [2, 0], "active": [True, True], "probability": [0.25, 0.8], "expansion": [4.0, 1.25], "share": [0.25, 0.5],
        "weight": [1.0, 0.625], "selections": 1, "lost": 0, "available": 3,
    }  # fmt: skip
    assert (cohort.places, int(cohort.size), cohort.selection, cohort.biased) == (2, 2, "random", False)


def test_the_chance_of_being_available_is_part_of_the_probability():
    """Clients are there with probability q: p q of being drawn, and a client counts 1 / (p q)."""
    population = replace(THREE, available=jnp.array([True, False, True]), presence=np.array([0.5, 1.0, 0.8]))
    cohort = t.Cohort.of([2, 0], 0.25, population, selection="arbitrary", lost=2, selections=3, biased=True)
    expected = {
        "ids": [2, 0], "active": [True, True], "probability": [0.2, 0.125], "expansion": [5.0, 8.0], "share": [0.25, 0.5],
        "weight": [1.25, 4.0], "selections": 3, "lost": 2, "available": 2,
    }  # fmt: skip
    for name, value in leaves(cohort).items():
        assert value == pytest.approx(expected[name])
    assert cohort.biased


@pytest.mark.parametrize("probability", [1 + 1e-5, 1 + 9e-6, 1.0, 1e-300])
def test_a_probability_may_be_one_up_to_the_rounding_of_32_bits(probability):
    cohort = t.Cohort.of([1], probability, FOUR, selection="random")
    assert float(cohort.expansion[0]) == 1 / probability
    assert int(cohort.invalid_places(4)) == 0


@pytest.mark.parametrize("probability", [1.0001, 2.0, 0.0, -0.5, -1.0, np.nan, np.inf])
def test_a_probability_that_is_not_valid_is_refused_or_counts_nothing_where_it_is_compiled(probability):
    with pytest.raises(t.UserError, match=r"must be in \(0, 1\]"):
        t.Cohort.of([1, 2], [0.5, probability], FOUR, selection="random")

    @jax.jit
    def compiled(p):
        cohort = t.Cohort.of([1, 2], p, FOUR, selection="random")
        return cohort.expansion, cohort.invalid_places(4)

    expansion, invalid = compiled(jnp.array([0.5, probability]))
    assert (expansion.tolist(), int(invalid)) == ([2.0, 0.0], 1)


@pytest.mark.parametrize("value", [0.0, -0.5, np.nan, np.inf])
@pytest.mark.parametrize("name", ["probability", "expansion"])
def test_expected_numbers_and_expansions_are_positive_and_finite(name, value):
    given = {"probability": jnp.array([3.0, 0.5]), "expansion": jnp.array([0.5, 2.0])}
    given[name] = given[name].at[1].set(value)
    with pytest.raises(t.UserError, match=f"the {name} of a drawn client must be positive and finite, but one is {value:g}: "):
        t.Cohort.of([1, 2], population=FOUR, selection="random", **given)
    assert (
        int(jax.jit(lambda given: t.Cohort.of([1, 2], population=FOUR, selection="random", **given).invalid_places(4))(given))
        == 1
    )


def test_what_is_known_is_refused_while_the_rest_varies():
    """Under `vmap` only what varies is not known."""

    def cohort(ids=(0, 1), probability=0.5, **options):
        return t.Cohort.of(jnp.asarray(ids), probability, FOUR, selection="random", **options).invalid_places(4)

    half, ids = jnp.array([0.5]), jnp.array([[0, 1]])
    with pytest.raises(t.UserError, match="the client 4"):
        jax.vmap(lambda p: cohort((0, 4), p))(half)
    with pytest.raises(t.UserError, match="one is 1.5"):
        jax.vmap(lambda ids: cohort(ids, 1.5))(ids)
    with pytest.raises(t.UserError, match="expansion .* one is 0"):
        jax.vmap(lambda p: cohort((0, 1), p, expansion=jnp.zeros(2)))(half)
    # Whether a place is empty is not known, so that its id may be any.
    active = jnp.array([[True, False], [True, True]])
    assert jax.vmap(lambda active: cohort((0, 4), active=active))(active).tolist() == [0, 1]


def test_one_number_stands_for_all_probabilities_and_for_nothing_else():
    assert t.Cohort.of([0, 1, 2], 0.5, FOUR, selection="random").probability.tolist() == [0.5] * 3
    for name, value in (("expansion", jnp.asarray(2.0)), ("active", jnp.asarray(True))):
        with pytest.raises(t.UserError, match=rf"{name} of a cohort must have the shape \[2\], that of ids, but it is \[\]"):
            t.Cohort.of([0, 1], 0.5, FOUR, selection="random", **{name: value})
    with pytest.raises(t.UserError, match=r"ids of a cohort must have the shape \[m\], but it is \[\]: give one"):
        t.Cohort.of(0, 0.5, FOUR, selection="random")
    with pytest.raises(t.UserError, match=r"the shape \[2\], that of ids, but it is \[1\]"):
        t.Cohort.of([0, 1], [0.5], FOUR, selection="random")


@pytest.mark.parametrize("wrong", [[-1], [4], [0, 0], [2, 2, 2]])
def test_a_known_cohort_with_places_that_are_not_valid_is_refused(wrong):
    """Such as one made for a larger population."""
    cohort = t.Cohort.of(jnp.arange(len(wrong)), 0.5, FOUR, selection="random")
    count = max(1, len(wrong) - 1)
    with pytest.raises(t.UserError, match=f"^{count} places of a cohort have a client that does not exist"):
        replace(cohort, ids=jnp.array(wrong, "int32")).invalid_places(4)


@pytest.mark.parametrize("places", [5, 32, 33, 128, 129, 300])
@pytest.mark.parametrize("seed", range(3))
def test_places_that_are_not_valid_are_counted(places, seed):
    """Of drawn ids in 0 to n - 1, the places that repeat one; those that empty places hold do not count."""
    generator = np.random.default_rng(seed)
    ids, active = generator.integers(0, 2 * places, places, "int32"), generator.random(places) < 0.8
    cohort = t.Cohort.of(jnp.arange(places), 0.5, t.Population(2 * places), selection="random")
    compiled = jax.jit(lambda ids, active: replace(cohort, ids=ids, active=active).invalid_places(2 * places))

    def count(ids, active):
        return int(compiled(ids, active))

    assert count(ids, active) == active.sum() - len(set(ids[active]))
    each = np.arange(places, dtype="int32")
    assert count(2 * each[::-1] + 1, active) == 0
    assert count(each - places, active) == active.sum()
    assert count(each + places + 2, np.ones(places, bool)) == 2
