"""Records: frozen dataclasses that are JAX pytrees, and whose fields are checked against their annotations."""

import functools
import reprlib
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import annotated_types as at
import jax

from turnout.core.errors import UserError
from turnout.core.field_checks import FieldCheck, field_check

Positive = typing.Annotated[float, at.Gt(0)]
NonNegative = typing.Annotated[float, at.Ge(0)]
Fraction = typing.Annotated[float, at.Gt(0), at.Le(1)]
Share = typing.Annotated[float, at.Ge(0), at.Le(1)]
Proper = typing.Annotated[float, at.Ge(0), at.Lt(1)]
Count = typing.Annotated[int, at.Ge(1)]
Index = typing.Annotated[int, at.Ge(0)]


def static(**options) -> typing.Any:
    """Declare a field that is part of the compiled program, such as a shape or a branch; another value compiles again.

    Args:
        options: Options of `dataclasses.field`, such as `default`.

    Examples:
        >>> import turnout as t
        >>> @t.record
        ... class Repeated(t.Algorithm):
        ...     sampler: t.Sampler
        ...     exchanges: int = t.static(default=3)
        ...
        ...     def round(self, ask, x):
        ...         for _ in range(self.exchanges):
        ...             x = ask(self.sampler, self.step, x).mean()
        ...         return x
        ...
        ...     @t.on_client
        ...     def step(self, client, x):
        ...         return t.Done(x - 0.1 * client.grad(x), queries=1)
        >>> problem = t.Quadratic.random(clients=10, dimension=2, seed=0)
        >>> t.run(Repeated(t.Nice(3)), problem, rounds=2).ledger.totals()["exchanges"]
        6
    """
    return field(metadata={"static": True}, **options)


@typing.dataclass_transform(frozen_default=True, field_specifiers=(field, static))
def record(cls):
    """Make `cls` a frozen dataclass and a JAX pytree; every field not declared `static()` is a leaf, which can be swept.

    Each field is checked against its annotation, both type and bounds, whenever an object is made.

    Args:
        cls: The class, whose annotated names become fields.

    Raises:
        UserError: When an object is made with a value that the annotation of its field does not allow.

    Examples:
        >>> import turnout as t
        >>> @t.record
        ... class Step:
        ...     lr: float
        ...     count: int = t.static(default=1)
        >>> Step(1)
        Step(lr=1.0, count=1)
        >>> Step("0.1")
        Traceback (most recent call last):
        turnout.core.errors.UserError: Step.lr must be a number, but it is '0.1': write 0.1 without quotes
    """
    cls = config(cls)
    leaves = [f.name for f in fields(cls) if not f.metadata.get("static")]
    statics = [f.name for f in fields(cls) if f.metadata.get("static")]

    def flatten(self):
        keyed = [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in leaves]
        return keyed, tuple(getattr(self, name) for name in statics)

    def unflatten(fixed, values):
        # JAX puts objects of any type in the place of leaves, so nothing is checked here.
        self = object.__new__(cls)
        for name, value in (*zip(leaves, values, strict=True), *zip(statics, fixed, strict=True)):
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
    return cls


@typing.dataclass_transform(frozen_default=True, field_specifiers=(field, static))
def config(cls):
    """Make `cls` a frozen dataclass that checks the type and the bounds of each field, then runs its own `__post_init__`.

    Raises:
        UserError: When an object is made with a value that the annotation of its field does not allow.
    """
    further_check = getattr(cls, "__post_init__", None)
    further_check = getattr(further_check, "further_check", further_check)

    def __post_init__(self):
        check_fields(self)
        if further_check is not None:
            further_check(self)

    __post_init__.further_check = further_check
    cls.__post_init__ = __post_init__
    cls = dataclass(frozen=True, eq=False, repr=False)(cls)
    for method in _own_methods(cls):
        if vars(cls).get(method.__name__) is None:
            setattr(cls, method.__name__, method)
    return cls


def _own_methods(cls) -> tuple[Callable, ...]:
    """Return `__eq__`, `__hash__` and `__repr__` of a dataclass, by its fields.

    Those that `dataclass` writes are compiled for each class, which takes a quarter of the time of importing them.
    """
    compared = [f.name for f in fields(cls) if f.compare]
    shown = [f.name for f in fields(cls) if f.repr]

    def values(self):
        return tuple(getattr(self, name) for name in compared)

    def __eq__(self, other):
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self):
        return hash(values(self))

    @reprlib.recursive_repr()
    def __repr__(self):
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    return __eq__, __hash__, __repr__


def check_fields(self) -> None:
    """Convert and check every field of the record `self`; raise `UserError` for the first one that is not accepted."""
    checks = field_checks(type(self))
    for name, check in checks.items():
        given = getattr(self, name)
        value = check.convert(given)
        if value is not given:
            object.__setattr__(self, name, value)
        if not check.accepts(value):
            raise UserError(f"{type(self).__name__}.{name} {check.sentence(value, _swapped(self, name, checks))}")


@functools.cache
def field_checks(cls) -> dict[str, FieldCheck]:
    """Return the check of each field of the dataclass `cls`."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {f.name: field_check(hints[f.name], f.metadata.get("static", False)) for f in fields(cls) if f.init}


def _swapped(self, name: str, checks: dict[str, FieldCheck]) -> str:
    """Return the advice to swap `name` and another field, where both are wrong now and right then; else nothing."""
    value = getattr(self, name)
    for other, check in checks.items():
        held = getattr(self, other)
        if check.accepts(value) and not check.accepts(held) and checks[name].accepts(held):
            return f"swap {name} and {other}"
    return ""
