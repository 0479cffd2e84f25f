"""Sums of replies against the sums written out."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from turnout.core.replies import SumsOnly, if_any

SHARES = np.array([0.4, 0.3, 0.2, 0.1])
IDS, P = np.array([3, 0, 2]), np.array([0.5, 0.8, 0.25])
ANSWERED = np.array([True, False, True])
VALUES = {"matrix": np.arange(12.0).reshape(3, 2, 2) - 5, "number": np.array([3.0, -7.0, 2.0])}


def cohort(**options):
    return t.Cohort.of(IDS, P, t.Population(4, weights=SHARES), **{"selection": "random", **options})


def replies(held=VALUES, answered=ANSWERED, **options) -> t.Replies:
    return t.Replies(jax.tree.map(jnp.asarray, held), cohort(**options), jnp.asarray(answered))


def summed(weight):
    """The sum over those who answered."""
    return jax.tree.map(lambda r: np.einsum("m,m...->...", np.where(ANSWERED, weight, 0), r), VALUES)


def same(one, other):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13), one, other)


def test_the_sums_are_those_of_the_words():
    share = SHARES[IDS]
    same(replies().average(), summed(share / P))
    same(replies().summed("weight"), summed(share / P))
    same(replies().total(), summed(share))
    same(replies().mean(), summed(share / share[ANSWERED].sum()))


def test_what_empty_places_hold_counts_nothing():
    """NaN there does not spread, and one there is not counted, not even in the sum of the weights."""
    for empty in (np.nan, np.inf, 1.0):
        held = jax.tree.map(lambda r, empty=empty: jnp.where(ANSWERED.reshape(-1, *[1] * (r.ndim - 1)), r, empty), VALUES)
        for reduce in (t.Replies.mean, t.Replies.total, t.Replies.average):
            same(reduce(replies(held)), reduce(replies()))


def test_nobody_s_replies_sum_to_zero_and_keep_what_was():
    nobody = replies(answered=[False] * 3)
    for result in (nobody.mean(), nobody.total(), nobody.average()):
        same(result, jax.tree.map(lambda r: np.zeros(r.shape[1:]), VALUES))
    assert if_any(nobody, {"x": 1.0}, {"x": 2.0})["x"] == 2
    assert if_any(replies(), {"x": 1.0}, {"x": 2.0})["x"] == 1


def test_the_mean_of_one_reply_is_that_reply_to_the_bit():
    one = replies({"x": np.full((3, 2), 0.1)}, [False, True, False])
    np.testing.assert_array_equal(one.mean()["x"], [0.1, 0.1])


def test_a_delegate_and_a_biased_cohort_have_no_average():
    with pytest.raises(t.UserError, match="delegate's reply is no unbiased average"):
        replies(selection="delegate").average()
    for selection in ("arbitrary", "random"):
        replies(selection=selection).average()
        with pytest.raises(t.UserError, match="biased sampler does not go"):
            replies(selection=selection, biased=True).average()


def test_replies_are_changed_with_their_client_s_number():
    """Those of the cohort, and those of everyone where they are kept."""
    everyone = {"matrix": np.ones((4, 2, 2)), "number": np.ones(4)}

    def change(i, r):
        return {"number": r["number"] * i.astype(float), "matrix": r["matrix"] - i.astype(float)}

    plain = replies().map(change)
    assert plain.everyone is None
    changed = replace(replies(), everyone=jax.tree.map(jnp.asarray, everyone)).map(change)
    for result in (plain, changed):
        same(result.values, {"number": VALUES["number"] * IDS, "matrix": VALUES["matrix"] - IDS[:, None, None]})
    same(changed.everyone, {"number": np.arange(4.0), "matrix": np.ones((4, 2, 2)) - np.arange(4.0)[:, None, None]})
    lengths = replies().each(lambda r: jnp.sum(r["matrix"]) + r["number"])
    np.testing.assert_allclose(lengths, VALUES["matrix"].sum((1, 2)) + VALUES["number"])


class Private(SumsOnly):
    """Replies that nobody may read alone."""

    why = "only their sum is known: use total()"


def test_replies_of_which_only_sums_are_known():
    private = Private(**vars(replies()))
    for reduce in (t.Replies.mean, t.Replies.total, t.Replies.average):
        same(getattr(private, reduce.__name__)(), reduce(replies()))
    for read in (lambda: private.values, lambda: private.each(lambda r: r)):
        with pytest.raises(t.UserError, match="only their sum is known"):
            read()
    nobody = Private(**vars(replies(answered=[False] * 3)))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(nobody.mean()))
