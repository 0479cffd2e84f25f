"""Runs without compilation, in which the user's code gets numbers, and what it prints is seen once."""

import io
import sys
from collections.abc import Callable
from contextlib import contextmanager, redirect_stdout
from typing import Any

import jax
import jax.numpy as jnp


def debugging() -> bool:
    """Return whether functions run without compilation."""
    return jax.config.jax_disable_jit  # pyright: ignore[reportAttributeAccessIssue]


def shape_of(function: Callable, *arguments: Any, **named: Any) -> Any:
    """Return the shapes and types of what a function returns.

    It is traced, or while `debugging` called with numbers, without what it prints and without breakpoints.

    Args:
        function: The function.
        arguments: Its arguments.
        named: Its arguments by name.
    """
    if not debugging():
        # Compiled functions of the same shapes share one trace.
        traced = getattr(function, "eval_shape", None)
        return traced(*arguments, **named) if traced else jax.eval_shape(function, *arguments, **named)
    hook, sys.breakpointhook = sys.breakpointhook, lambda *_, **__: None
    try:
        with redirect_stdout(io.StringIO()):
            result = function(*arguments, **named)
    finally:
        sys.breakpointhook = hook
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), result)


@contextmanager
def without_compilation(wanted: bool):
    """Run functions without compilation inside, if that is `wanted`."""
    if not wanted:
        yield
        return
    with jax.disable_jit():
        yield
