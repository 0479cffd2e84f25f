"""A branch that the clients of a cohort may take or not, without a copy of all rows for each of them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import eval_jaxpr
from jax.custom_batching import custom_vmap
from jaxtyping import PyTree


def cond(predicate, then: Callable, otherwise: Callable, carry: PyTree) -> PyTree:
    """Return `then(carry)` or `otherwise(carry)` as `lax.cond` does; under `vmap` over predicates, one of both results.

    There `lax.cond` would make a copy of all that the branches read, such as the rows of all clients, for each predicate.

    Args:
        predicate: Condition.
        then: Branch where it holds.
        otherwise: Branch where it does not.
        carry: Argument of the branch.
    """
    (first, shapes), (second, _) = (jax.make_jaxpr(branch, return_shape=True)(carry) for branch in (then, otherwise))
    inputs = first.consts, second.consts, jax.tree.leaves(carry)

    def branches(read: Callable) -> list[Callable]:
        return [
            lambda inputs: read(lambda consts, _, leaves: eval_jaxpr(first.jaxpr, consts, *leaves), inputs),
            lambda inputs: read(lambda _, consts, leaves: eval_jaxpr(second.jaxpr, consts, *leaves), inputs),
        ]

    @custom_vmap
    def one(predicate, inputs):
        return lax.cond(predicate, *branches(lambda branch, inputs: branch(*inputs)), inputs)

    @one.def_vmap
    def rule(size, batched, predicate, inputs):
        axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, batched[1])
        both = branches(lambda branch, inputs: jax.vmap(branch, axes, axis_size=size)(*inputs))
        if batched[0]:
            chosen = jax.vmap(lambda predicate, *pair: jnp.where(predicate, *pair))
            results = [chosen(predicate, *pair) for pair in zip(*(branch(inputs) for branch in both), strict=True)]
        else:
            results = lax.cond(predicate, *both, inputs)
        return results, [True] * len(results)

    return jax.tree.unflatten(jax.tree.structure(shapes), one(jnp.asarray(predicate), inputs))
