"""What designs take from their rule, and what they accept as given probabilities."""

import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import quadratic

GIVEN = np.array([0.2, 0.5, 0.7, 0.6])
FOUR = t.Population(4, weights=np.array([0.4, 0.3, 0.2, 0.1]))


@pytest.mark.parametrize(
    ("rule", "flags"),
    [
        (None, (False, False, True)),
        (GIVEN, (False, False, True)),
        (t.KVib(), (True, False, True)),
        (t.Optimal(), (False, True, True)),
        (t.Optimal(free=True), (False, True, False)),
    ],
)
def test_a_design_asks_what_its_rule_asks(rule, flags):
    sampler = t.Pivotal(rule, size=2)
    assert (sampler.learns_from_feedback, sampler.consults_before_draw, sampler.is_charged) == flags


def test_without_probabilities_all_are_equal():
    for sampler in (t.Pivotal(size=3).bind(FOUR), t.Pivotal(size=3).fit(quadratic())):
        assert isinstance(sampler.probability, t.Uniform)
    np.testing.assert_allclose(t.Pivotal(size=3).bind(FOUR).expected_draws(None, FOUR), [0.75] * 4)
    assert t.Pivotal(size=4).bind(FOUR).size == 4


@t.record
class SizeOf(t.Uniform):
    """Equal probabilities, whose state after further exchanges is the size of the draw."""

    def calibrated(self, state, ask, size, population):
        return size


def test_a_sampler_around_a_design_may_set_the_size_of_its_draw():
    sampler = t.Pivotal(SizeOf(), size=3).bind(FOUR)
    assert [sampler.calibrated(None, None, FOUR), sampler.calibrated(None, None, FOUR, 2)] == [3, 2]


def test_given_probabilities_are_those_of_the_clients_that_are_there():
    sampler = t.Independent(GIVEN).bind(FOUR)
    np.testing.assert_array_equal(sampler.expected_draws(None, FOUR), GIVEN)
    some = t.Population(4, available=jnp.array([True, False, True, True]), presence=np.ones(4))
    np.testing.assert_array_equal(sampler.expected_draws(None, some), [0.2, 0, 0.7, 0.6])
    state = jnp.arange(3.0)
    assert sampler.start(FOUR) is None and sampler.for_rounds(10) is sampler
    assert sampler.refresh(state, None, None) is state and sampler.observe(state, None, None) is state


def test_a_design_may_leave_out_clients_that_are_away():
    assert t.Available(t.Pivotal(size=2), 0.5).bind(FOUR).sampler == t.Pivotal(size=2).bind(FOUR)


@pytest.mark.parametrize("error", [0.9e-6, -0.9e-6])
def test_given_probabilities_may_be_rounded(error):
    """A millionth for each client."""
    np.testing.assert_array_equal(t.Pivotal(GIVEN + error, size=2).bind(FOUR).probability, GIVEN + error)
    with pytest.raises(t.UserError, match="'pivotal' needs probabilities that sum to size = 2, not to"):
        t.Pivotal(GIVEN + 1.2 * error, size=2).bind(FOUR)
    with pytest.raises(t.UserError, match="'pivotal' wants 5 clients, but there are 4"):
        t.Pivotal(GIVEN, size=5).bind(FOUR)


def test_a_rule_is_bound_tuned_and_taught():
    """By the design that it is the rule of: feedback counts lambda_i times."""
    sampler = t.Independent(t.KVib(mixing=0.5), size=2.0)
    rule = t.KVib(mixing=0.5).bind(FOUR)
    bound = sampler.bind(FOUR)
    assert bound.probability == rule
    assert sampler.fit(t.Quadratic.random(4, 2)).probability == t.KVib(mixing=0.5).fit(t.Quadratic.random(4, 2))
    assert bound.for_rounds(50).probability == rule.for_rounds(50)
    state = bound.start(FOUR)
    cohort = t.Cohort.of([2, 0], 0.5, FOUR, selection="arbitrary")
    feedback = jnp.array([3.0, 5.0])
    expected = rule.observe(state, cohort, jnp.array([0.2 * 3, 0.4 * 5]), 2.0)
    for one, other in zip(bound.observe(state, cohort, feedback), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    p = rule.inclusion_probabilities(expected, 2.0, FOUR)
    np.testing.assert_allclose(bound.expected_draws(expected, FOUR), p)


@pytest.mark.longer
def test_answers_before_a_draw_count_lambda_times():
    sampler = t.Independent(t.Optimal(), size=2.0).bind(FOUR)
    norms, answered = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([True, True, False, True])
    state = sampler.observe_consulted(sampler.start(FOUR), norms, answered, FOUR)
    expected = sampler.probability.observe_consulted(sampler.start(FOUR), norms * FOUR.shares, answered)
    p = sampler.expected_draws(state, FOUR)
    np.testing.assert_allclose(p, sampler.probability.inclusion_probabilities(expected, 2.0, FOUR))
