"""How many bytes of activations the rows of a network take, and how many rows are computed at once."""

from collections.abc import Callable, Iterator
from typing import Any

from jax.extend.core import ClosedJaxpr

from turnout.core.backend import on_cpu

WORK, WORK_OF_ACCELERATORS = 2**24, 2**30
"""Bytes of activations of the rows whose losses are computed at once: on a CPU about what caches hold, and on accelerators."""

LARGE = ("concatenate", "conv_general_dilated", "dot_general")
"""JAX operations whose results count as activations: patches, convolutions and matrix products. Others are fused with them."""


def bytes_of_a_row(program: Callable[[int], ClosedJaxpr]) -> int:
    """Return how many more bytes the activations of two rows take than those of one.

    Args:
        program: Returns the program of a number of rows.
    """
    return _total(program(2).jaxpr) - _total(program(1).jaxpr)


def rows_within(activation_bytes: int) -> int:
    """Return how many rows are computed at once.

    Args:
        activation_bytes: Bytes of activations of a row.
    """
    return max(1, (WORK if on_cpu() else WORK_OF_ACCELERATORS) // activation_bytes)


def _total(jaxpr: Any) -> int:
    """Return the bytes of all large results of a program, with those of the programs that it calls."""
    sizes = [step.outvars[0].aval for step in jaxpr.eqns if step.primitive.name in LARGE]
    own = sum(size.size * size.dtype.itemsize for size in sizes)
    return own + sum(_total(part) for step in jaxpr.eqns for part in _parts(step.params.values()))


def _parts(values: Any) -> Iterator[Any]:
    """Yield the programs among the parameters of a step."""
    for value in values:
        if hasattr(value, "eqns"):
            yield value.jaxpr if isinstance(value, ClosedJaxpr) else value
        elif isinstance(value, (list, tuple)):
            yield from _parts(value)
