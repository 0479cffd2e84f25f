"""Messages survive the wire, and only messages do."""

from typing import NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load

import turnout as t
from tests.helpers.borders import border
from turnout.io.serialization import copy_leaves, decode, encode

ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]), hnp.array_shapes(min_dims=0, max_side=4)
)
TREES = st.recursive(
    ARRAYS | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(a, b) -> bool:
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return jax.tree.structure(a) == jax.tree.structure(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in leaves
    )


@border(tree=TREES, header=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3))
def test_what_is_sent_is_received(tree, header):
    received, said = decode(encode(tree, None, header), None)
    assert same(tree, received)
    assert said == header


@pytest.mark.longer
@given(TREES.filter(lambda tree: jax.tree.leaves(tree) != []))
def test_parts_shaped_like_the_parameters_keep_their_structure(params):
    message = (params, {"twice": [params, np.zeros(2)]})
    received, _ = decode(encode(message, params), params)
    assert same(message, received)


@pytest.mark.longer
@given(TREES, st.binary(max_size=20), st.integers(min_value=0), st.integers(0, 30))
def test_bytes_that_are_no_message_are_an_error_of_the_user(tree, other, place, gone):
    """Some bytes anywhere are replaced by others."""
    sent = encode(tree, None, {"queries": 1})
    place %= len(sent)
    try:
        _, header = decode(sent[:place] + other + sent[place + gone :], None)
    except t.UserError:
        return
    assert isinstance(header, dict)


class Layer(NamedTuple):
    weight: np.ndarray
    bias: np.ndarray


def test_parameters_may_be_any_pytree():
    params = Layer(np.ones((2, 3)), np.zeros(3))
    received, _ = decode(encode((params, np.ones(1)), params), params)
    assert isinstance(received[0], Layer)
    with pytest.raises(t.UserError, match="holds a Layer"):
        encode((params,), np.zeros(1))


@given(st.binary(max_size=200))
def test_junk_is_refused_in_one_sentence(junk):
    with pytest.raises(t.UserError, match="is not one of turnout's"):
        decode(junk, None)


@pytest.mark.longer
@given(TREES, st.data())
def test_a_damaged_message_is_refused_or_another_message(tree, data):
    good = bytearray(encode(tree, None))
    good[data.draw(st.integers(0, len(good) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        decode(bytes(good), None)
    except t.UserError:
        pass


def test_a_copy_shares_nothing():
    original = {"a": np.ones(3)}
    copied = copy_leaves(original)
    original["a"][0] = 5
    assert copied["a"][0] == 1


@pytest.mark.longer
@given(st.dictionaries(st.text(max_size=5), ARRAYS, max_size=5))
def test_a_message_is_a_file_of_safetensors(arrays):
    read = load(encode(arrays, None))
    assert sorted((a.dtype.name, a.shape, a.tobytes()) for a in read.values()) == sorted(
        (a.dtype.name, a.shape, a.tobytes()) for a in arrays.values()
    )


def test_what_is_received_lies_in_the_message_itself():
    message = encode([np.arange(1000.0), np.ones(3, bool)], None)
    (numbers, _), _ = decode(message, None)
    assert np.shares_memory(numbers, np.frombuffer(message, np.uint8)) and numbers.flags.aligned and not numbers.flags.writeable
