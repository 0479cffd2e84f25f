"""Contents of messages and replies: parts for each client, parts shaped like the parameters, and their bytes."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


class Each(NamedTuple):
    """A part of a message that differs from client to client; a local method receives the value of its own place.

    Args:
        values: Arrays [m, ...], stacked over the cohort's m places.

    Examples:
        >>> import jax.numpy as jnp, turnout as t
        >>> @t.record
        ... class Shifted(t.Algorithm):
        ...     sampler: t.Sampler
        ...
        ...     def round(self, ask, x):
        ...         cohort = ask.draw(self.sampler)
        ...         own = t.Each(jnp.arange(cohort.places, dtype=x.dtype))
        ...         return x - 0.1 * ask(cohort, self.slope, (x, own)).average()
        ...
        ...     @t.on_client
        ...     def slope(self, client, message):
        ...         x, number = message
        ...         return t.Done(client.grad(x + number), queries=1)
        >>> problem = t.Quadratic.random(clients=10, dimension=2, seed=0)
        >>> t.run(Shifted(t.Nice(3)), problem, rounds=2).ledger.totals()["contacts"]
        6
    """

    values: PyTree


def split_each(message: PyTree) -> tuple[dict[int, PyTree], Callable[[dict], PyTree]]:
    """Return the values of the `Each` parts of `message`, and a function from the values of one place to its message."""
    parts, structure = jax.tree.flatten(message, is_leaf=lambda part: isinstance(part, Each))
    own = {k: part.values for k, part in enumerate(parts) if isinstance(part, Each)}
    return own, lambda own: jax.tree.unflatten(structure, [own.get(k, part) for k, part in enumerate(parts)])


def vectors(tree: PyTree, like: PyTree) -> list[PyTree]:
    """Return the parts of `tree` that have the structure and shapes of the parameters `like`, and numbers of their kind.

    Args:
        tree: A message or a reply.
        like: Parameters of the run.
    """

    def same(part):
        if jax.tree.structure(part) != jax.tree.structure(like):
            return False
        pairs = zip(jax.tree.leaves(part), jax.tree.leaves(like), strict=True)
        return all(np.shape(a) == np.shape(b) and _floating(a) == _floating(b) for a, b in pairs)

    return [part for part in jax.tree.leaves(tree, is_leaf=same) if same(part)]


def _floating(leaf) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.floating))


def vector(tree: PyTree, like: PyTree) -> PyTree:
    """Return the first part of `tree` that is shaped like the parameters `like`, or all of it where none is.

    Args:
        tree: A message or a reply.
        like: Parameters of the run.
    """
    return next(iter(vectors(tree, like)), tree)


def payload(tree: PyTree) -> int:
    """Count the bytes of the arrays in `tree`."""
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
