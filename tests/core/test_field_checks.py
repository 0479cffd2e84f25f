"""What annotations allow, what is converted, and the sentence for what is wrong."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Protocol, TypeVar

import annotated_types as at
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from jaxtyping import Array, Float, Key, PyTree

import turnout as t
from turnout.core.field_checks import checked, field_check
from turnout.core.records import Count, Fraction, NonNegative, Positive

NICE = t.Nice(2)


@pytest.fixture(autouse=True)
def unchecked_calls():
    """Turn off the type checker of the tests, which would refuse wrong arguments before the code does."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


class Quacking(Protocol):
    """A protocol, whose methods no check can see."""

    def quack(self): ...


NUMBERS = [np.array(1.0), np.ones(3, "float32"), np.array(3), jnp.ones(2), jnp.arange(2)]
WHOLE = [np.array(3), np.arange(2, dtype="uint8"), jnp.arange(2)]


@pytest.mark.parametrize(
    ("hint", "right", "wrong"),
    [
        (
            float,
            [0.0, -1.5, 3, 2**1022, *NUMBERS],
            [True, np.nan, -np.inf, 2**1024 - 1, 2**1024, "1", None, 1j, [1.0], np.array("a")],
        ),
        (int, [0, -(2**63), 2**63 - 1, *WHOLE], [2**63, -(2**63) - 1, True, 1.0, "1", None, np.array(1.0), [1]]),
        (bool, [True, False, np.bool_(True), np.array([True]), jnp.array(True)], [0, 1, "True", None, np.array(1)]),
        (str, ["", "a"], [1, None, b"a", ["a"]]),
        (int | None, [None, 1], ["1", 1.5]),
        (Literal["b", 1], ["b", 1], ["a", "c", 0, 2, True, 1.0, None]),
        (list[int], [[], [1, 2], (1, 2)], [[1, "2"], {1}, 1, "ab", None, iter([1])]),
        (tuple[int, ...], [(), (1, 2, 3)], [[1], (1, "2"), 1]),
        (tuple[int, str], [(1, "a")], [(1,), (1, "a", 2), (), ("a", 1), (1, 2), [1, "a"], 3]),
        (list[list[int]], [[], [[1], []]], [[1], [["a"]]]),
        (tuple, [(), (1, "x")], [[1], 1]),
        (dict[str, int], [{}], [[], 1]),
        (Callable[[float], float], [len, np.exp], [3, None]),
        (Any, [1, "a", None, object()], []),
        (TypeVar("Anything"), [1, None], []),
        (PyTree[int], ["a", {"x": 1.5}, None], []),
        (Quacking, [1, None], []),
        (Float[Array, " n"], [jnp.ones(2), np.ones(2, "float32")], [jnp.arange(2), [1.0], 1.0, jnp.array(True)]),
        (Key[Array, ""], [jax.random.key(0)], [jnp.ones(2), 0]),
        (np.ndarray, [np.ones(2), jnp.ones(2)], [[1.0], 1.0]),
        (jax.Array, [np.ones(2), jnp.ones(2)], [[1.0], np.dtype(float)]),
        (t.Sampler, [NICE, t.Full()], [2, t.Nice, None]),
        (Annotated[float, at.Gt(1)], [1.5, np.array([2.0, 1.5]), np.zeros(0), jnp.zeros(2)], [1.0, np.array([2.0, 1.0, 3.0])]),
        (Annotated[float, at.Ge(1)], [1.0, np.array([2.0, 1.0])], [0.5, np.array([2.0, 0.5, 3.0])]),
        (Annotated[float, at.Lt(1)], [0.5, np.array([0.0, 0.5])], [1.0, np.array([0.0, 1.0, -1.0])]),
        (Annotated[float, at.Le(1)], [1.0, np.array([0.0, 1.0])], [1.5, np.array([0.0, 1.5, -1.0])]),
        (list[Count] | None, [None, [], [1, 2]], [[1, 0], [1, None]]),
        (list[list[NonNegative]], [[[0.0], []]], [[[0.0], [1.0, -1.0]]]),
        (Annotated[Positive, "seconds"], [1.0], [0.0]),
    ],
)
def test_an_annotation_allows_these_values(hint, right, wrong):
    check = field_check(hint)
    assert [value for value in right if not check.accepts(value)] == []
    assert [value for value in wrong if check.accepts(value)] == []


def test_a_traced_number_is_allowed_unless_the_field_is_static():
    held = []
    jax.jit(lambda x: held.append(x))(1.0)
    assert field_check(Positive).accepts(held[0]) and not field_check(Positive, static=True).accepts(held[0])
    for one in (np.array(2), jnp.asarray(2), [jnp.asarray(2)]):
        assert field_check(int | list[int]).accepts(one) and not field_check(int | list[int], True).accepts(one)
    assert field_check(int, True).accepts(2)


class Metre:
    """A class that converts numbers to itself."""

    def __init__(self, value):
        self.value = value

    @staticmethod
    def coerce(value):
        return Metre(value) if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("hint", "given", "result"),
    [
        (float, 2, 2.0),
        (float, np.float32(0.5), 0.5),
        (Positive | None, np.int64(2), 2.0),
        (Annotated[Fraction, "share"] | str, 1, 1.0),
        (int, np.int64(2), 2),
        (int, 5, 5),
        (float | int, 2, 2),
        (float | int, np.float64(0.5), 0.5),
    ],
)
def test_numbers_become_those_of_python(hint, given, result):
    converted = field_check(hint).convert(given)
    assert converted == result and type(converted) is type(result)


@pytest.mark.parametrize(
    ("hint", "given"),
    [(float, True), (float, 2**1024), (float, np.bool_(True)), (float, np.ones(2)), (str, np.float64(1)), (list[float], 2)],
)
def test_other_values_stay_what_they_are(hint, given):
    assert field_check(hint).convert(given) is given


def test_a_class_converts_by_its_method_coerce():
    check = field_check(Metre | None)
    assert check.convert(1.5).value == 1.5 and check.convert(None) is None


class Optimism:
    """A class whose name begins with a vowel, and neither goes on nor ends with one."""


@pytest.mark.parametrize(
    ("hint", "value", "sentence"),
    [
        (Positive, "0.1", "a number greater than 0, but it is '0.1': write 0.1 without quotes"),
        (Positive, "-1", "a number greater than 0, but it is '-1'"),
        (Positive, "x", "a number greater than 0, but it is 'x'"),
        (Count, "2", "a whole number of at least 1, but it is '2': write 2 without quotes"),
        (Count, 2.0, "a whole number of at least 1, but it is 2.0: write 2"),
        (Count, 2.5, "a whole number of at least 1, but it is 2.5"),
        (Count, 0.0, "a whole number of at least 1, but it is 0.0"),
        (Count, np.inf, "a whole number of at least 1, but it is inf: give a finite number"),
        (bool, 2**63 - 1, "True or False, but it is 9223372036854775807"),
        (bool, 2**63, "True or False, but it is 9223372036854775808: take one below 2^63"),
        (str, 1.0, "a string, but it is 1.0"),
        (list[float], 0.1, "a list, each part a number, but it is 0.1: write [0.1]"),
        (tuple[int, ...], 3, "a tuple, each part a whole number, but it is 3: write (3,)"),
        (list[list[int]], [1], "a list, each part a list, each part a whole number, but it is [1]"),
        (tuple[int, str], (1,), "a tuple of a whole number, a string, but it is (1,)"),
        (t.Sampler, t.Nice, "a Sampler such as t.Nice(10), but it is the class Nice: write Nice(...)"),
        (Optimism, None, "an Optimism, but it is None"),
        (Mapping, 1, "a Mapping, but it is 1"),
        (Callable[[], int], 1, "a function, but it is 1"),
        (np.ndarray, 1, "an array, but it is 1"),
        (str, np.ones((2, 3)), "a string, but it is an array of float64 with shape [2, 3]"),
        (str, np.array(1.5), "a string, but it is array(1.5)"),
        (Literal["a"], "b", "'a', but it is 'b'"),
        (Literal["a", "b"] | None, "c", "'a' or 'b' or None, but it is 'c'"),
        (int | str | bool | None, 1.5, "a whole number, a string, True or False or None, but it is 1.5"),
        (Annotated[int, at.Ge(1), at.Lt(9)], None, "a whole number of at least 1 and less than 9, but it is None"),
        (list[Count] | list[Count], 0, "a list, each part a whole number of at least 1, but it is 0"),
        (Positive, -0.1, "greater than 0, but it is -0.1"),
        (Fraction, 1.5, "at most 1, but it is 1.5"),
        (list[Count], [2, 0, 1], "at least 1, but entry 1 is 0"),
        (list[list[Count]], [[2, 1], [1, 0]], "at least 1, but entry 3 is 0"),
        (Positive, np.array([[1.0, 2.0], [-1.0, 1.0]]), "greater than 0, but entry 2 is -1"),
        (list[Positive], [np.array([1.0, 2.0]), np.array([3.0, 0.0])], "greater than 0, but entry 3 is 0"),
    ],
)  # fmt: skip
def test_the_sentence_for_a_wrong_value(hint, value, sentence):
    check = field_check(hint)
    assert not check.accepts(value) and check.sentence(value) == f"must be {sentence}"


def test_a_given_hint_takes_the_place_of_the_remedy():
    assert field_check(int).sentence("2", "swap a and b") == "must be a whole number, but it is '2': swap a and b"


def test_an_argument_is_converted_or_refused_with_its_place():
    assert checked("here", np.int64(2), Positive) == 2.0
    with pytest.raises(t.UserError, match=r"^here must be greater than 0, but it is 0$"):
        checked("here", 0, Positive)


def test_long_values_are_shortened():
    with pytest.raises(t.UserError) as error:
        checked("here", "x" * 1000, int)
    assert "..." in str(error.value) and len(str(error.value)) < 150
