"""Which replies of clients can be used."""

from collections.abc import Callable, Collection
from functools import partial
from math import isfinite, prod

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.engines.encryption import unusable
from turnout.engines.faults import Faults
from turnout.engines.groups.ranks import Sites, padded
from turnout.engines.inputs import Job
from turnout.engines.outliers import largest_entry
from turnout.io.serialization import Buffer, decode

LEAF_BYTES = 2**10
"""Bytes that the description of one array in a reply may have."""


def check_of(job: Job, expected: PyTree, sites: Sites = ()) -> Callable[[Buffer], str | None]:
    """Return what says why a reply to an exchange cannot be used.

    Args:
        job: Inputs of the engine.
        expected: Shapes and types of a valid reply.
        sites: The matrices of whose adapters replies have only what the client has.
    """
    return partial(
        validate_reply,
        start=job.start,
        expected=expected,
        counts=("queries", "missed"),
        faults=job.faults,
        encrypted=job.aggregation == "encrypted",
        sites=sites,
    )


def measures_of(names: Collection[str], start: PyTree) -> PyTree:
    """Return shapes and types of a reply to a request for functions of f_i.

    Args:
        names: Names of the functions.
        start: Initial parameters.
    """
    scalar = jax.ShapeDtypeStruct((), jnp.result_type(float))
    expected = {"value": scalar, "gradient": start} if "gradient" in names else dict.fromkeys(names, scalar)
    return expected | dict.fromkeys({*names} & {"accuracy"}, scalar)


def size_of(expected: PyTree) -> int:
    """Return the most bytes of a serialised reply with the shapes and types in `expected`."""
    leaves = jax.tree.leaves(expected)
    return sum(prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves) + LEAF_BYTES * (1 + len(leaves))


def validate_reply(
    reply: Buffer,
    start: PyTree,
    expected: PyTree,
    counts: tuple[str, ...] = (),
    faults: Faults | None = None,
    encrypted: bool = False,
    sites: Sites = (),
) -> str | None:
    """Return None if a reply has the expected structure, shapes, types and counts and is finite, and otherwise what is wrong.

    Args:
        reply: The reply.
        start: Initial parameters.
        expected: Shapes and types of a valid reply.
        counts: Names of the counts that must come with it.
        faults: Bounds of its norm.
        encrypted: Whether it is encrypted.
        sites: The matrices of whose adapters it has only what the client has.
    """
    try:
        tree, header = decode(reply, start)
    except UserError:
        return "malformed"
    if not all(type(count := header.get(name)) is int and 0 <= count < 2**31 for name in counts):
        return "without its counts"
    expected_leaves, expected_structure = jax.tree.flatten(expected)
    tree = padded(tree, sites)
    leaves, structure = jax.tree.flatten(tree)
    types, expected_types = ([(leaf.shape, leaf.dtype) for leaf in each] for each in (leaves, expected_leaves))
    if structure != expected_structure or types != expected_types:
        return "of another shape or type"
    if encrypted:
        return unusable(tree)
    if not isfinite(largest_entry(tree)):
        return "not finite"
    return f"longer than norm = {float(faults.norm):g}" if faults is not None and not faults.bound(tree)[1] else None
