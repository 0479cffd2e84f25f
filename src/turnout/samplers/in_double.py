"""Draws in double precision whatever that of the run, so that cohorts depend on seeds only."""

from functools import cache, wraps

import jax
import jax.numpy as jnp
from jaxtyping import PyTree


def in_double(method):
    """Return `method(self, state, key, ...)` computed in 64 bits; floats of the result have the precision of the run.

    The random numbers of single and double precision are not the same ones, and near a limit rounding decides who is drawn.
    """

    @wraps(method)
    def computed(self, state, key, *rest):
        kind = jnp.result_type(float)
        if kind == "float64":
            return method(self, state, key, *rest)
        with jax.enable_x64(True):
            self, state = with_floats((self, state), "float64")
            result = method(self, state, in_64_bits(key), *rest)
        return with_floats(result, kind)

    return computed


def with_floats(tree: PyTree, kind) -> PyTree:
    """Return `tree` with its floats as `kind`.

    Args:
        tree: A pytree of arrays and numbers.
        kind: Type of the floats.
    """
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf, kind) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf, tree
    )


def in_64_bits(key):
    """Return the same random key, whose 64 random bits can be compiled in a program of single precision.

    Args:
        key: Random key.
    """
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_threefry_in_64_bits())


@cache
def _threefry_in_64_bits():
    """JAX's generator, whose bits are computed when a program is compiled: outside of the scope that traced it."""
    # Slow to import.
    from jax.extend import random

    threefry = random.threefry_prng_impl

    def random_bits(key, width, shape):
        with jax.enable_x64(True):
            return threefry.random_bits(key, width, shape)

    return random.define_prng_impl(
        key_shape=threefry.key_shape, seed=threefry.seed, split=threefry.split, random_bits=random_bits,
        fold_in=threefry.fold_in, name="threefry in 64 bits", tag="t64",
    )  # fmt: skip
