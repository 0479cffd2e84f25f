"""Replies that lie apart are summed as if they were stacked, one at a time."""

import mmap
from tempfile import TemporaryFile

import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.federations import SHARES
from turnout.core.cohort import Cohort
from turnout.core.lazy_stack import LazyStack
from turnout.core.replies import DecodedReplies
from turnout.io.serialization import decode, encode

GENERATOR = np.random.default_rng(7)


def in_file(tree):
    """The tree as read from a file that it was sent to."""
    with TemporaryFile() as file:
        file.write(encode(tree, None))
        file.flush()
        return decode(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), None)[0]


def both(answered=(True, True, False, True)):
    """The same replies as arrays and as stacks; who did not answer left nothing."""
    trees = [{"x": GENERATOR.normal(size=(2, 3)), "y": GENERATOR.normal()} for _ in range(4)]
    trees = [in_file({name: np.asarray(value) for name, value in tree.items()}) for tree in trees]
    cohort = Cohort.of(np.arange(4), 0.5, t.Population(count=4, weights=SHARES), selection="random")
    arrays = {name: np.stack([tree[name] for tree in trees]) for name in ("x", "y")}
    parts = {name: [tree[name] if here else None for tree, here in zip(trees, answered, strict=True)] for name in ("x", "y")}
    stacks = {name: LazyStack(parts[name], arrays[name][0]) for name in ("x", "y")}
    return t.Replies(arrays, cohort, jnp.array(answered)), t.Replies(stacks, cohort, jnp.array(answered))


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-13, atol=1e-15)


@pytest.mark.longer
def test_sums_are_those_of_arrays():
    arrays, stacks = both()
    for reduce in (t.Replies.mean, t.Replies.total, t.Replies.average):
        same(reduce(arrays), reduce(stacks))
    same(
        arrays.map(lambda i, r: {"z": i.astype(float) * r["x"]}).total(),
        stacks.map(lambda i, r: {"z": i.astype(float) * r["x"]}).total(),
    )


def test_replies_that_are_decoded_one_at_a_time_have_the_sums_of_all():
    """A reply is its client's number from 1 times what was sent."""
    arrays, stacks = both()
    decoded = DecodedReplies(stacks, lambda i, sent: {name: (i.astype(float) + 1) * sent[name] for name in sent})
    whole = arrays.map(lambda i, sent: {name: (i.astype(float) + 1) * sent[name] for name in sent})
    for reduce in (t.Replies.mean, t.Replies.total, t.Replies.average):
        same(reduce(decoded), reduce(whole))


def test_nobody_s_replies_sum_to_zero():
    _, stacks = both((False,) * 4)
    assert not np.any(stacks.mean()["x"])


def test_values_are_arrays_with_zeros_for_who_did_not_answer():
    arrays, stacks = both()
    here = np.asarray(stacks.answered)
    for name in ("x", "y"):
        np.testing.assert_array_equal(stacks.values[name][here], arrays.values[name][here])
        assert not np.any(stacks.values[name][~here])
        np.testing.assert_array_equal(stacks.held[name][np.array([3, 0])], arrays.values[name][np.array([3, 0])])


def test_each_reply_is_measured_alone():
    arrays, stacks = both()
    lengths = [replies.each(lambda r: jnp.sum(r["x"] ** 2) + r["y"]) for replies in (arrays, stacks)]
    np.testing.assert_allclose(*(np.where(stacks.answered, each, 0) for each in lengths), rtol=1e-13)


def test_what_was_left_can_be_read_again():
    _, stacks = both()
    first = stacks.total()
    same(first, stacks.total())


class Apart(LazyStack):
    """Replies that are too large to lie in memory together."""

    def __jax_array__(self):
        raise MemoryError


def test_sums_never_hold_all_replies_and_read_only_those_that_count():
    """What lies at a place that did not answer in time is not read, be it NaN."""
    cohort = Cohort.of(np.arange(4), 0.5, t.Population(count=4, weights=SHARES), selection="random")
    parts = [GENERATOR.normal(size=3) for _ in range(3)] + [np.full(3, np.nan)]
    answered = np.array([True, True, False, False])
    replies = t.Replies({"x": Apart(parts, parts[0])}, cohort, jnp.asarray(answered))
    total = sum(SHARES[i] * parts[i] for i in range(2))
    np.testing.assert_allclose(replies.total()["x"], total, rtol=1e-13)
    np.testing.assert_allclose(replies.average()["x"], 2 * total, rtol=1e-13)
    np.testing.assert_allclose(replies.mean()["x"], total / SHARES[:2].sum(), rtol=1e-13)
