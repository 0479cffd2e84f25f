"""The types of fields, and what becomes of the fields of a record."""

from dataclasses import FrozenInstanceError, dataclass, field

import jax
import numpy as np
import pytest

import turnout as t
from turnout.core.field_checks import field_check
from turnout.core.records import (
    Count,
    Fraction,
    Index,
    NonNegative,
    Positive,
    Proper,
    Share,
    config,
    field_checks,
    record,
    static,
)

TINY, BELOW, ABOVE = 5e-324, float(np.nextafter(1, 0)), float(np.nextafter(1, 2))


@pytest.mark.parametrize(
    ("hint", "inside", "outside"),
    [
        (Positive, [TINY, 1e300], [0.0, -TINY]),
        (NonNegative, [0.0, TINY], [-TINY]),
        (Fraction, [TINY, 1.0], [0.0, ABOVE]),
        (Share, [0.0, TINY, 1.0], [-TINY, ABOVE]),
        (Proper, [0.0, BELOW], [-TINY, 1.0]),
        (Count, [1, 2], [0, -1]),
        (Index, [0, 1], [-1]),
    ],
)
def test_the_types_of_numbers_have_their_bounds(hint, inside, outside):
    check = field_check(hint)
    assert all(map(check.accepts, inside)) and not any(map(check.accepts, outside))


@record
class Mixed:
    """A record of each kind of field; `total` is computed."""

    lr: Positive
    size: Count = static()
    name: str = static(default="a")
    x: float = 0.0
    total: float = field(default=2.0, init=False)


def test_fields_that_are_not_static_are_leaves_with_their_names():
    mixed = Mixed(0.5, 3, "b", x=0.25)
    leaves, structure = jax.tree_util.tree_flatten_with_path(mixed)
    assert {jax.tree_util.keystr(path): leaf for path, leaf in leaves} == {".lr": 0.5, ".x": 0.25, ".total": 2.0}
    again = jax.tree.unflatten(structure, [-1.0, 2.0, 3.0])
    assert (again.lr, again.size, again.name, again.x, again.total) == (-1.0, 3, "b", 2.0, 3.0)
    assert structure != jax.tree.structure(Mixed(0.5, 4, "b", x=0.25))


def test_records_and_configurations_are_frozen():
    @config
    class Setting:
        size: Count = 1

    for made, name in ((Setting(), "size"), (Mixed(1.0, 1), "lr")):
        with pytest.raises(FrozenInstanceError):
            setattr(made, name, 2)


def test_records_are_compared_hashed_and_shown_as_dataclasses():
    written = (
        {"size": Count, "notes": list, "name": str},
        {"notes": field(default_factory=list, repr=False, compare=False), "name": "a"},
    )
    made = {
        kind: kind(type("Setting", (), {"__annotations__": written[0], "__qualname__": "Setting", **written[1]}))
        for kind in (config, dataclass(frozen=True))
    }
    for one in ((1, [2], "b"), (1, [3], "b"), (2,), (1, [2])):
        for other in ((1, [2], "b"), (2, [3])):
            ours, theirs = ((cls(*one), cls(*other)) for cls in made.values())
            assert (ours[0] == ours[1]) == (theirs[0] == theirs[1])
            assert hash(ours[0]) == hash(theirs[0]) and repr(ours[0]) == repr(theirs[0])
    assert made[config](1) != 1

    @config
    class Own:
        size: int

        def __eq__(self, other):
            return True

        def __repr__(self):
            return "own"

    assert Own(1) == Own(2) and repr(Own(1)) == "own" and hash(Own(1)) == hash((1,))


def test_fields_that_are_not_given_are_not_checked():
    assert list(field_checks(Mixed)) == ["lr", "size", "name", "x"]
    assert Mixed.__dataclass_fields__["size"].metadata["static"] and not Mixed.__dataclass_fields__["lr"].metadata


@config
class Swapped:
    """Fields of which some may hold the value of another."""

    a: int
    b: str = ""
    c: int | str = 0
    d: int = 0


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"a": "x", "b": 1}, ": swap a and b"),
        ({"a": "x", "b": "y"}, ""),
        ({"a": "x", "c": 1}, ""),
        ({"a": "x", "d": "y"}, ""),
        ({"a": "x", "d": 1}, ""),
        ({"a": 1, "b": 1}, ""),
    ],
)
def test_a_swap_is_advised_where_it_makes_both_right(given, hint):
    wrong = "b must be a string, but it is 1" if given["a"] == 1 else "a must be a whole number, but it is 'x'"
    with pytest.raises(t.UserError) as error:
        Swapped(**given)
    assert str(error.value) == f"Swapped.{wrong}{hint}"
