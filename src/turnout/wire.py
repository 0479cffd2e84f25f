"""What crosses the wire: arrays with dtype and shape, and the plain containers that hold them; nothing is unpickled."""

import json
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError
from safetensors.numpy import load, save

from turnout.errors import UserError


def encode(tree: PyTree, like: PyTree, header: dict | None = None) -> bytes:
    """Write `tree` as bytes: nested tuples, lists and dicts of arrays, and parts of the structure of the parameters `like`.

    `header` holds what else the message says, as JSON.
    """
    arrays: list[np.ndarray] = []
    params = jax.tree.structure(like)

    def describe(part) -> Any:
        if part is None:
            return None
        if jax.tree.structure(part) == params and not jax.tree_util.treedef_is_leaf(params):
            return {"params": [describe(leaf) for leaf in jax.tree.leaves(part)]}
        if isinstance(part, dict):
            return {"dict": {key: describe(value) for key, value in part.items()}}
        if type(part) in (tuple, list):
            return {type(part).__name__: [describe(value) for value in part]}
        if not hasattr(part, "shape"):
            raise UserError(f"a message holds arrays in tuples, lists and dicts, but this one holds a {type(part).__name__}")
        arrays.append(np.asarray(part, order="C"))
        return len(arrays) - 1

    meta = {"tree": json.dumps(describe(tree)), "header": json.dumps(header or {})}
    return save({str(k): array for k, array in enumerate(arrays)}, metadata=meta)


def decode(data: bytes, like: PyTree) -> tuple[PyTree, dict]:
    """Read what `encode` wrote: the tree, with numpy arrays as leaves, and the header; `UserError` where it is anything else."""

    def build(part) -> Any:
        if part is None:
            return None
        if isinstance(part, int):
            return arrays[str(part)]
        ((kind, content),) = part.items()
        if kind == "params":
            return jax.tree.unflatten(jax.tree.structure(like), [build(leaf) for leaf in content])
        if kind == "dict":
            return {key: build(value) for key, value in content.items()}
        return (tuple if kind == "tuple" else list)(build(value) for value in content)

    try:
        length = int.from_bytes(data[:8], "little")
        meta = json.loads(data[8 : 8 + length])["__metadata__"]
        arrays = load(data)
        header = dict(json.loads(meta["header"]))
        return build(json.loads(meta["tree"])), header
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"a message of {len(data)} bytes is not one of turnout's: {error}") from None


def copy_leaves(tree: PyTree) -> PyTree:
    """Return `tree` with every leaf sent over the wire and back, so that nothing is shared with the original."""
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, decode(encode([np.asarray(leaf) for leaf in leaves], None), None)[0])
