"""What a field's annotation allows: which values, and the words for them in an error."""

import math
import operator
import reprlib
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import annotated_types as at
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import AbstractArray, PyTree

from turnout.core.errors import UserError


class Check(NamedTuple):
    """A predicate on values, and the words for those that it accepts.

    Args:
        accepts: The predicate.
        words: What it accepts, in words.
    """

    accepts: Callable[[Any], bool]
    words: str


class FieldCheck(NamedTuple):
    """How a field converts its value, which types it accepts, and the bounds of the numbers in it.

    Args:
        convert: Converts a value, such as a list to an array.
        type: Which types are accepted.
        bounds: Bounds of the numbers.
    """

    convert: Callable[[Any], Any]
    type: Check
    bounds: tuple[Check, ...]

    def accepts(self, value: Any) -> bool:
        """Return whether `value` has an accepted type and lies within the bounds."""
        if not self.type.accepts(value):
            return False
        return value is None or not self.bounds or all(b.accepts(number) for number in _numbers(value) for b in self.bounds)

    def sentence(self, value: Any, hint: str = "") -> str:
        """Return what is wrong with a `value` that is not accepted; `hint` says what to do where that is known.

        Args:
            value: The value.
            hint: What to do about it.
        """
        if not self.type.accepts(value):
            hint = hint or _remedy(value, self)
            return f"must be {self.type.words}, but it is {_shown(value)}{hint and ': ' + hint}"
        entries = [value] if isinstance(value, (int, float)) else list(_entries(value))
        k, bound = next((k, bound) for bound in self.bounds for k, one in enumerate(entries) if not bound.accepts(one))
        return f"must be {bound.words}, but {'it' if entries[k] is value else f'entry {k}'} is {entries[k]:g}"


@cache
def field_check(hint: Any, static: bool = False) -> FieldCheck:
    """Return the check of the annotation `hint`; a `static` field takes no array for a number.

    Args:
        hint: The annotation.
        static: Whether the field is static.
    """
    return FieldCheck(_converter(hint), _check(hint, static), tuple(_bound_check(bound) for bound in _bounds(hint)))


def checked(where: str, value: Any, hint: Any) -> Any:
    """Return the argument `value`, converted to what `hint` asks for; raise `UserError` at `where` if it is not accepted.

    Args:
        where: Name of the argument, for the message.
        value: What was given.
        hint: The annotation.
    """
    check = field_check(hint)
    value = check.convert(value)
    if not check.accepts(value):
        raise UserError(f"{where} {check.sentence(value)}")
    return value


def _check(hint: Any, static: bool) -> Check:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(hint, "__metadata__"):
        bounds = " and ".join(_bound_check(bound).words for bound in _bounds(hint))
        accepts, words = _check(hint.__origin__, static)
        return Check(accepts, f"{words} {'of ' if bounds.startswith('at') else ''}{bounds}")
    if origin in (typing.Union, types.UnionType):
        members = [_check(member, static) for member in arguments]
        return Check(lambda value: any(member.accepts(value) for member in members), _listed(member.words for member in members))
    if origin is typing.Literal:
        return Check(
            lambda value: any(type(value) is type(one) and value == one for one in arguments), _listed(map(repr, arguments))
        )
    if origin in (list, tuple) and arguments:
        return _sequence(origin, [_check(one, static) for one in arguments if one is not ...], ... in arguments)
    if hint in _SCALARS:
        accepts, kind, words = _SCALARS[hint]
        return Check(lambda value: accepts(value) or (not static and is_array(value, kind)), words)
    if hint is None:
        return Check(lambda value: value is None, "None")
    if origin is Callable:
        return Check(callable, "a function")
    return _class_check(origin or hint)


def _class_check(kind: Any) -> Check:
    """Return the check of a class that is neither a number nor a container; what is none, a `PyTree` too, may be anything."""
    if kind is Any or not isinstance(kind, type) or isinstance(kind, type(PyTree)) or getattr(kind, "_is_protocol", False):
        return Check(lambda value: True, "anything")
    if issubclass(kind, AbstractArray):
        return Check(lambda value: is_array(value) and _has_dtype(kind, value.dtype), f"an array ({kind.__name__})")
    if kind in (np.ndarray, jax.Array):
        return Check(is_array, "an array")
    article = "an" if kind.__name__[0] in "AEIO" else "a"
    example = kind.__dict__.get("example")
    # A class that a string stands for is called like it.
    words = {str: "a string", type(None): "None"}.get(kind) or kind.__dict__.get("called", f"{article} {kind.__name__}")
    return Check(lambda value: isinstance(value, kind), f"{words} such as {example}" if example else words)


def _sequence(origin: type, parts: list[Check], repeated: bool) -> Check:
    """Return the check of a tuple, or of a list, which may be given as a tuple."""
    if origin is tuple and not repeated:

        def fits(value):
            return len(value) == len(parts) and all(part.accepts(one) for part, one in zip(parts, value, strict=True))

        words = f"a tuple of {', '.join(part.words for part in parts)}"
    else:

        def fits(value):
            return all(map(parts[0].accepts, value))

        words = f"a {origin.__name__}, each part {parts[0].words}"
    kinds = (list, tuple) if origin is list else tuple
    return Check(lambda value: isinstance(value, kinds) and fits(value), words)


def _is_real(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() < 1024
    return isinstance(value, float) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


_SCALARS: dict[Any, tuple[Callable[[Any], bool], Any, str]] = {
    float: (_is_real, np.number, "a number"),
    int: (_is_whole, np.integer, "a whole number"),
    bool: (lambda value: isinstance(value, (bool, np.bool_)), np.bool_, "True or False"),
}
"""For each scalar type: the values that are accepted, the dtypes of arrays that are, and the words."""


def is_array(value: Any, kind: Any = None) -> bool:
    """Return whether `value` is an array, traced or not, of any dtype or of one that is a `kind`.

    Args:
        value: Any value.
        kind: Type of NumPy that its dtype must be a subtype of; None for any.
    """
    dtype = getattr(value, "dtype", None)
    return dtype is not None and hasattr(value, "shape") and (kind is None or _is_kind(dtype, kind))


_is_kind = cache(jnp.issubdtype)


@cache
def _has_dtype(kind: type[AbstractArray], dtype: Any) -> bool:
    return ("prng_key" if _is_kind(dtype, jax.dtypes.prng_key) else dtype.name) in kind.dtypes


_RELATIONS = {
    at.Gt: ("gt", "greater than", operator.gt),
    at.Ge: ("ge", "at least", operator.ge),
    at.Lt: ("lt", "less than", operator.lt),
    at.Le: ("le", "at most", operator.le),
}


def _bounds(hint: Any) -> list:
    """Return the bounds anywhere in the annotation `hint`, each once."""
    inner = [bound for part in typing.get_args(hint) if part is not ... for bound in _bounds(part)]
    own = [bound for bound in getattr(hint, "__metadata__", ()) if type(bound) in _RELATIONS]
    return list(dict.fromkeys([*own, *inner]))


def _bound_check(bound: Any) -> Check:
    """Return the check that a number is within `bound`."""
    attribute, words, holds = _RELATIONS[type(bound)]
    limit = getattr(bound, attribute)
    return Check(lambda number: holds(number, limit), f"{words} {limit:g}")


def _numbers(value: Any) -> Iterator[Any]:
    """Yield the numbers in `value` that are known: of an array its extremes, of an array of JAX, maybe traced, none."""
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, np.ndarray) and value.size:
        yield from (value.min(), value.max())
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _numbers(part)


def _entries(value: Any) -> Iterator[Any]:
    """Yield the numbers in an array or in nested lists one after another."""
    for part in np.ravel(value) if isinstance(value, np.ndarray) else value:
        yield from _entries(part) if isinstance(part, (list, tuple, np.ndarray)) else [part]


def _converter(hint: Any) -> Callable[[Any], Any]:
    """Return how values are converted: NumPy scalars to Python's, whole numbers to floats, others as their class says.

    So `lr=1`, `lr=1.0` and `lr=np.float64(1)` are one program. A class converts by its static method `coerce`.
    """
    members = _members(hint)
    real, whole = float in members, int in members
    coercions = [member.coerce for member in members if isinstance(member, type) and hasattr(member, "coerce")]

    def convert(value):
        if (real or whole) and isinstance(value, np.generic) and isinstance(value, np.number):
            value = value.item()
        if real and not whole and type(value) is int and _is_real(value):
            return float(value)
        for coerce in coercions:
            value = coerce(value)
        return value

    return convert


def _members(hint: Any) -> tuple:
    """Return the members of a union without their bounds, or `hint` alone."""
    if hasattr(hint, "__metadata__"):
        return _members(hint.__origin__)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(one for member in typing.get_args(hint) for one in _members(member))
    return (hint,)


def _remedy(value: Any, field: FieldCheck) -> str:
    """Return what to write instead of a `value` that is not accepted, where that is known."""
    if isinstance(value, type):
        return f"write {value.__name__}(...)"
    if isinstance(value, str):
        for kind in (int, float):
            try:
                number = kind(value)
            except ValueError:
                continue
            if field.accepts(number):
                return f"write {number} without quotes"
    if isinstance(value, float) and not math.isfinite(value):
        return "give a finite number"
    if isinstance(value, float) and field.accepts(int(value)) and value.is_integer():
        return f"write {int(value)}"
    if isinstance(value, int) and value.bit_length() > 63:
        return "take one below 2^63"
    if not isinstance(value, (list, tuple)):
        for one in ([value], (value,)):
            if field.accepts(one):
                return f"write {_shown(one)}"
    return ""


def _shown(value: Any) -> str:
    """Write `value` shortly: classes by their name, arrays by their shape."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if is_array(value) and np.ndim(value):
        return f"an array of {value.dtype} with shape {list(value.shape)}"
    return _SHORT.repr(value)


_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = _SHORT.maxlong = 60


def _listed(words) -> str:
    *most, last = dict.fromkeys(words)
    return f"{', '.join(most)} or {last}" if most else last
