"""Records: frozen dataclasses that are JAX pytrees, with bounds on their fields that are checked once, here."""

import functools
import numbers
import typing
from dataclasses import dataclass, field, fields

import annotated_types as at
import jax
import numpy as np

from turnout.core.errors import UserError

Positive = typing.Annotated[float, at.Gt(0)]
NonNegative = typing.Annotated[float, at.Ge(0)]
Fraction = typing.Annotated[float, at.Gt(0), at.Le(1)]
Share = typing.Annotated[float, at.Ge(0), at.Le(1)]
Proper = typing.Annotated[float, at.Ge(0), at.Lt(1)]
Count = typing.Annotated[int, at.Ge(1)]
Index = typing.Annotated[int, at.Ge(0)]


def static(**options) -> typing.Any:
    """Declare a field that fixes a shape or a branch: it is part of the program, not a leaf that can be swept."""
    return field(metadata={"static": True}, **options)


@typing.dataclass_transform(frozen_default=True, field_specifiers=(field, static))
def record(cls):
    """Make `cls` a frozen dataclass and a pytree whose leaves are all fields not declared `static()`."""
    cls = config(cls)
    leaves = [f.name for f in fields(cls) if not f.metadata.get("static")]
    statics = [f.name for f in fields(cls) if f.metadata.get("static")]

    def flatten(self):
        keyed = [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in leaves]
        return keyed, tuple(getattr(self, name) for name in statics)

    def unflatten(fixed, values):
        # JAX puts all sorts of things in the place of leaves, so that nothing is checked here.
        self = object.__new__(cls)
        for name, value in (*zip(leaves, values, strict=True), *zip(statics, fixed, strict=True)):
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
    return cls


@typing.dataclass_transform(frozen_default=True, field_specifiers=(field, static))
def config(cls):
    """Make `cls` a frozen dataclass that checks its bounds, then runs its `__post_init__`, its own or an inherited one."""
    further_check = getattr(cls, "__post_init__", None)

    def __post_init__(self):
        floats_for_ints(self)
        check_bounds(self)
        if further_check is not None:
            further_check(self)

    cls.__post_init__ = __post_init__
    return dataclass(frozen=True)(cls)


@functools.cache
def bounds(cls) -> dict[str, tuple]:
    """Return the `annotated_types` bounds of each field of the dataclass `cls`, those inside a union included."""
    hints = typing.get_type_hints(cls, include_extras=True)
    found = {}
    for name, hint in hints.items():
        options = (hint, *typing.get_args(hint))
        metadata = [m for option in options for m in getattr(option, "__metadata__", ())]
        found[name] = tuple(m for m in metadata if isinstance(m, (at.Gt, at.Ge, at.Lt, at.Le)))
    return found


def floats_for_ints(self) -> None:
    """Turn a whole number given for a float field into a float, so that `lr=1` and `lr=1.0` are one program."""
    for name, hint in typing.get_type_hints(type(self)).items():
        value = getattr(self, name, None)
        if type(value) is int and float in (hint, *typing.get_args(hint)) and int not in typing.get_args(hint):
            object.__setattr__(self, name, float(value))


_RELATIONS = {
    at.Gt: ("gt", "greater than", np.greater),
    at.Ge: ("ge", "at least", np.greater_equal),
    at.Lt: ("lt", "less than", np.less),
    at.Le: ("le", "at most", np.less_equal),
}


def check_bounds(self) -> None:
    """Raise `UserError` for the first concrete field outside its bounds; traced values pass."""
    for name, constraints in bounds(type(self)).items():
        value = getattr(self, name, None)
        if not isinstance(value, (numbers.Real, np.ndarray)) or isinstance(value, bool):
            continue
        for constraint in constraints:
            attribute, words, holds = _RELATIONS[type(constraint)]
            bound = getattr(constraint, attribute)
            if not np.all(holds(value, bound)):
                raise UserError(f"{type(self).__name__}.{name} must be {words} {bound}, but it is {value}")
