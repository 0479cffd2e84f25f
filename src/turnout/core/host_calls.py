"""Python objects that a compiled program calls in its middle: it knows them by a number, and writes go in the order of versions.

A call gets arrays and fills arrays. What it changes on the host has a version, a whole number that the call takes and returns, so
that a program calls in the order in which it is written.
"""

import itertools
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np
from jaxtyping import Array

from turnout.core.backend import on_cpu
from turnout.core.errors import UserError

_hosts: WeakValueDictionary[int, Any] = WeakValueDictionary()
_numbers = itertools.count(1)
_failures: list[UserError] = []


def registered(host: Any) -> np.ndarray:
    """Return the number by which programs know an object, as long as somebody holds it.

    Args:
        host: The object.
    """
    number = next(_numbers)
    _hosts[number] = host
    return np.asarray(number, np.int32)


def host(number: Any) -> Any:
    """Return the object with a number.

    Args:
        number: The number, or several equal ones.
    """
    return _hosts[int(np.ravel(number)[0])]


def call(function: Callable, shapes: Sequence[jax.ShapeDtypeStruct], *arguments: Array | np.ndarray) -> tuple[Array, ...]:
    """Return arrays of the given `shapes` that `function(outputs, *arguments)` fills in when the program runs.

    Under `jax.vmap` it is one call, in which all arguments and outputs have the mapped axis first.

    Args:
        function: A function of a module's top level; it gets a list of arrays to fill, and the arguments as NumPy arrays.
        shapes: Shape and dtype of each result.
        arguments: Arrays.
    """
    if on_cpu():
        # Without a copy of what is read or written.
        from jax.experimental.buffer_callback import buffer_callback

        program = buffer_callback(_in_place(function), tuple(shapes), has_side_effect=True, vmap_method="broadcast_all")
        return program(*arguments)
    ranks = tuple(np.ndim(argument) for argument in arguments)
    returned = _allocating(function, tuple(shapes), ranks)
    return jax.pure_callback(returned, tuple(shapes), *arguments, vmap_method="broadcast_all")


@contextmanager
def mistakes_told():
    """Raise the user's mistake that a call from the middle of a program met, and not the program's own error."""
    _failures.clear()
    try:
        yield
    except jax.errors.JaxRuntimeError:
        if not _failures:
            raise
        raise _failures[0] from None


@cache
def _in_place(function: Callable) -> Callable:
    def filled(_, outputs, *arguments):
        _guarded(function, [np.asarray(output) for output in outputs], *map(np.asarray, arguments))

    return filled


@cache
def _allocating(function: Callable, shapes: tuple, ranks: tuple[int, ...]) -> Callable:
    def returned(*arguments):
        arguments = [np.asarray(argument) for argument in arguments]
        mapped = arguments[0].shape[: arguments[0].ndim - ranks[0]]
        outputs = [np.empty((*mapped, *shape.shape), shape.dtype) for shape in shapes]
        _guarded(function, outputs, *arguments)
        return tuple(outputs)

    return returned


def _guarded(function: Callable, outputs: list[np.ndarray], *arguments: np.ndarray) -> None:
    try:
        function(outputs, *arguments)
    except UserError as error:
        # What a program raises has lost its type.
        _failures.append(error)
        raise
