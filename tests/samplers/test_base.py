"""The protocol's defaults, and what samplers accept as numbers."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from turnout.samplers.base import as_distribution, as_numbers, as_probabilities, check_size, everyone_available, samplers_in

FOUR = t.Population(4)


def test_a_sampler_without_methods_keeps_its_state_and_cannot_draw():
    sampler, problem = t.Sampler(), t.Quadratic.random(4, 2)
    state, key = {"known": jnp.ones(4)}, jax.random.key(0)
    assert sampler.fit(problem) is sampler.bind(FOUR) is sampler.for_rounds(10) is sampler
    assert sampler.start(FOUR) is None and sampler.with_availability(state, FOUR) is FOUR
    assert sampler.refresh(state, None, None) is sampler.advance(state, key) is sampler.observe(state, None, None) is state
    assert sampler.observe_consulted(state, None, None, FOUR) is state
    flags = ("learns_from_feedback", "consults_before_draw", "is_charged", "supports_availability", "supports_in_flight")
    assert [getattr(sampler, flag) for flag in flags] == [False, False, True, False, False]
    for call, words in (
        (lambda: sampler.draw(state, key, FOUR), r"Sampler has no draw\(self, state, key, population\)"),
        (lambda: sampler.expected_draws(state, FOUR), "Sampler draws by no probabilities"),
        (lambda: sampler.variance(state, FOUR, jnp.ones((4, 1))), "Sampler has no formula for the variance"),
    ):
        with pytest.raises(t.UserError, match=words):
            call()


@pytest.mark.longer
def test_all_available_clients_are_consulted():
    cohort = everyone_available(FOUR)
    assert (cohort.ids.tolist(), int(cohort.size), cohort.expansion.tolist()) == ([0, 1, 2, 3], 4, [1.0] * 4)
    some = t.Population(4, available=jnp.array([True, False, True, True]), presence=np.full(4, 0.5))
    cohort = t.Sampler().consulted_cohort(None, None, some)
    assert cohort.active.tolist() == [True, False, True, True] and cohort.selection == "arbitrary"


def test_samplers_are_found_before_those_within_them():
    available = t.Available(t.Nice(2), probability=0.5)
    assert samplers_in(t.MbGd(available, lr=0.1)) == [available, available.sampler]
    plain = t.Sampler()
    assert samplers_in(plain) == [plain] and samplers_in(0.1) == [] and samplers_in(t.Target("value", 0.1)) == []


def test_a_cohort_is_at_most_the_population():
    for size in (1, 3.5, 4):
        check_size(size, FOUR, "mine")
    with pytest.raises(t.UserError, match="^sampler 'mine' wants 4.5 clients, but there are 4: lower size$"):
        check_size(4.5, FOUR, "mine")


def test_numbers_are_arrays_or_an_error():
    np.testing.assert_array_equal(as_numbers([1, 2.5], "mine", "sizes"), [1, 2.5])
    for wrong in (["a"], [[1], [1, 2]], None):
        with pytest.raises(t.UserError, match="^sampler 'mine' needs numbers as sizes$"):
            as_numbers(wrong, "mine", "sizes")


def test_probabilities_lie_above_zero_and_up_to_one():
    np.testing.assert_array_equal(as_probabilities([1e-300, 0.25, 1], 3, "mine"), [1e-300, 0.25, 1])
    np.testing.assert_array_equal(as_probabilities(0.5, 3, "mine", scalar=True), 0.5)
    np.testing.assert_array_equal(as_probabilities([0.5, 0.25], 2, "mine", scalar=True), [0.5, 0.25])


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ([0.5, 0.0], {}, "needs probabilities in (0, 1], but one is 0"),
        ([0.5, -0.5], {}, "needs probabilities in (0, 1], but one is -0.5"),
        ([1.5, 0.5], {}, "needs probabilities in (0, 1], but one is 1.5"),
        ([0.5, np.nan], {}, "needs probabilities in (0, 1], but one is nan"),
        (0.5, {}, "needs 2 probabilities, one for each client, but got 1"),
        ([0.5], {}, "needs 2 probabilities, one for each client, but got 1"),
        ([0.5] * 3, {}, "needs 2 probabilities, one for each client, but got 3"),
        ([[0.5, 0.5]], {}, "needs 2 probabilities, one for each client, but got 2"),
        ([0.5], {"scalar": True}, "needs 1 or 2 probabilities, but got 1"),
        ([0.5] * 3, {"scalar": True}, "needs 1 or 2 probabilities, but got 3"),
        (2.0, {"scalar": True}, "needs probabilities in (0, 1], but one is 2"),
    ],
)
def test_what_is_no_probability_is_refused(values, options, words):
    with pytest.raises(t.UserError, match=f"^sampler 'mine' {re.escape(words)}$"):
        as_probabilities(values, 2, "mine", **options)


def test_a_distribution_sums_to_one():
    np.testing.assert_array_equal(as_distribution(None, 4, "mine", "block"), [0.25] * 4)
    np.testing.assert_array_equal(as_distribution([0.25, 0.75], 2, "mine", "block"), [0.25, 0.75])
    rounded = as_distribution([0.3333334] * 3, 3, "mine", "block")
    np.testing.assert_allclose(rounded, [1 / 3] * 3, rtol=1e-15)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.5, 0.25, 0.25], "needs 2 probabilities, one for each block, but got 3"),
        ([1.0], "needs 2 probabilities, one for each block, but got 1"),
        ([1.0, 0.0], "needs probabilities above 0, but that of block 1 is 0"),
        ([-0.5, 1.5], "needs probabilities above 0, but that of block 0 is -0.5"),
        ([0.5, np.nan], "needs probabilities above 0, but that of block 1 is nan"),
        ([0.5, 0.500002], "needs probabilities that sum to 1, but they sum to 1.000002"),
        ([0.5, 0.499998], "needs probabilities that sum to 1, but they sum to 0.999998"),
        ([1.0, 1.0], "needs probabilities that sum to 1, but they sum to 2"),
        (["a", "b"], "needs numbers as probability"),
    ],
)
def test_what_is_no_distribution_is_refused(values, words):
    with pytest.raises(t.UserError, match=f"^sampler 'mine' {re.escape(words)}$"):
        as_distribution(values, 2, "mine", "block")
