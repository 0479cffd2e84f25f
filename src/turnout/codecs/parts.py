"""One direction of an exchange: which parts of a pytree are compressed, by which codec, and with which memory."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.codecs.base import Codec
from turnout.codecs.exchange import AT_BOTH_ENDS, Feedback
from turnout.core.messages import vectors

Arrays = list[Any]
"""Arrays of JAX or NumPy."""


class Shape(NamedTuple):
    """The structure of a pytree, and shape and dtype of its leaves."""

    structure: Any
    leaves: tuple[jax.ShapeDtypeStruct, ...]

    @classmethod
    def of(cls, tree: PyTree) -> "Shape":
        """Return the shape of a tree of arrays."""
        leaves, structure = jax.tree.flatten(tree)
        return cls(structure, tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves))

    @property
    def tree(self) -> PyTree:
        """The tree, with shapes and dtypes in the place of arrays."""
        return jax.tree.unflatten(self.structure, self.leaves)


class Direction(NamedTuple):
    """Messages, or replies, of one local method: trees of one `shape` and the `codec` of their parts.

    A part is an array of floating-point numbers, more than one; with `whole` all of these, one after the other, are one part.
    Memory is a list with an array for each part.

    Args:
        codec: C; None where nothing is compressed.
        feedback: The memory.
        whole: Whether all arrays are one part.
        shape: Shape of the trees.
        plain: How many leaves at the end are not compressed.
    """

    codec: Codec | None
    feedback: Feedback
    whole: bool
    shape: Shape
    plain: int = 0

    @property
    def _coded(self) -> list[int]:
        """The numbers of the leaves that are compressed."""
        if self.codec is None:
            return []
        leaves = self.shape.leaves[: len(self.shape.leaves) - self.plain]
        return [k for k, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.size > 1]

    @property
    def parts(self) -> list[jax.ShapeDtypeStruct]:
        """Shape and dtype of each part."""
        leaves = [self.shape.leaves[k] for k in self._coded]
        if not self.whole or not leaves:
            return leaves
        return [jax.ShapeDtypeStruct((sum(leaf.size for leaf in leaves),), jnp.result_type(*leaves))]

    @property
    def codes(self) -> bool:
        """Whether anything is compressed."""
        return bool(self._coded)

    def check(self) -> None:
        """Raise `UserError` where the codec does not fit a part."""
        for part in self.parts:
            self.codec.check(part.size)

    def split(self, tree: PyTree) -> tuple[Arrays, Arrays]:
        """Return the leaves that travel as they are, and the parts."""
        leaves, coded = jax.tree.leaves(tree), self._coded
        parts = [leaves[k] for k in coded]
        if self.whole and parts:
            dtype = self.parts[0].dtype
            parts = [jnp.concatenate([part.reshape(-1).astype(dtype) for part in parts])]
        return [leaf for k, leaf in enumerate(leaves) if k not in coded], parts

    def join(self, rest: Arrays, parts: Arrays) -> PyTree:
        """Return the tree that `split` split.

        Args:
            rest: The leaves that travelled as they are.
            parts: The parts.
        """
        coded = self._coded
        if self.whole and parts:
            ends = np.cumsum([self.shape.leaves[k].size for k in coded])[:-1]
            parts = jnp.split(parts[0], ends)
        others, ours = iter(rest), iter(parts)
        leaves = [next(ours) if k in coded else next(others) for k in range(len(self.shape.leaves))]
        shaped = [leaf.reshape(like.shape).astype(like.dtype) for leaf, like in zip(leaves, self.shape.leaves, strict=True)]
        return jax.tree.unflatten(self.shape.structure, shaped)

    def memory(self, params: PyTree = None) -> Arrays:
        """Return the first memory of both ends: zeros, or `params` for the first part of the tree that is shaped like these.

        Args:
            params: Initial parameters; None for zeros everywhere.
        """
        if self.feedback == "none":
            return []
        tree = jax.tree.unflatten(self.shape.structure, [jnp.zeros(leaf.shape, leaf.dtype) for leaf in self.shape.leaves])
        if self.feedback in AT_BOTH_ENDS and params is not None:
            tree = _with_first(tree, params)
        return self.split(tree)[1]

    def send(self, tree: PyTree, memory: Arrays, key) -> tuple[PyTree, Arrays]:
        """Return the payload of a tree and the sender's next memory.

        Args:
            tree: Message or reply.
            memory: The sender's memory.
            key: Random key.
        """
        rest, parts = self.split(tree)
        if self.feedback == "ef14":
            parts = [part + error for part, error in zip(parts, memory, strict=True)]
        elif self.feedback in AT_BOTH_ENDS:
            parts = [part - known for part, known in zip(parts, memory, strict=True)]
        payload = [self.codec.encode(part, jax.random.fold_in(key, k)) for k, part in enumerate(parts)]
        # Where both ends are one program, XLA may leave out a cast there and back on a GPU.
        payload = jax.lax.optimization_barrier(payload)
        if self.feedback == "none":
            return (rest, payload), memory
        changes = self._contracted(self._decoded(payload, key))
        if self.feedback == "ef14":
            return (rest, payload), [part - change for part, change in zip(parts, changes, strict=True)]
        return (rest, payload), [known + change for known, change in zip(memory, changes, strict=True)]

    def receive(self, payload: PyTree, memory: Arrays, key) -> tuple[PyTree, Arrays]:
        """Return the tree that a payload stands for and the receiver's next memory.

        Args:
            payload: What `send` returned.
            memory: The receiver's memory.
            key: The key of `send`; needed if the codec decodes with it.
        """
        rest, coded = payload
        changes = self._decoded(coded, key)
        if self.feedback not in AT_BOTH_ENDS:
            return self.join(rest, changes if self.feedback == "none" else self._contracted(changes)), memory
        new = [known + change for known, change in zip(memory, self._contracted(changes), strict=True)]
        read = new if self.feedback == "ef21" else [known + change for known, change in zip(memory, changes, strict=True)]
        return self.join(rest, read), new

    def _decoded(self, payload: list[PyTree], key) -> Arrays:
        """Return C of each part."""
        keys = (None if key is None else jax.random.fold_in(key, k) for k in range(len(payload)))
        return [self.codec.decode(*each) for each in zip(payload, self.parts, keys, strict=True)]

    def _contracted(self, parts: Arrays) -> Arrays:
        """Return C / (1 + omega) for C of each part, where C is unbiased."""
        omegas = [self.codec.variance(part.size) for part in parts]
        return [part / jnp.asarray(1 + (omega or 0), part.dtype) for part, omega in zip(parts, omegas, strict=True)]


def _with_first(tree: PyTree, params: PyTree) -> PyTree:
    """Return `tree` with `params` in the place of its first part that is shaped like these."""
    found = vectors(tree, params)
    if not found:
        return tree
    return jax.tree.map(lambda part: params if part is found[0] else part, tree, is_leaf=lambda part: part is found[0])
