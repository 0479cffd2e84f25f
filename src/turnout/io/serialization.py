"""Serialisation of messages: arrays with dtype and shape in tuples, lists and dicts. Nothing is pickled."""

import json
import math
from mmap import mmap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError

Buffer = bytes | mmap
"""The bytes of a message, in memory or in a file."""

DTYPE_NAMES = {
    **{np.dtype(f"{kind}{size}"): f"{kind.upper()}{8 * size}" for kind in "iu" for size in (1, 2, 4, 8)},
    **{np.dtype(f"f{size}"): f"F{8 * size}" for size in (2, 4, 8)},
    np.dtype("c8"): "C64",
    np.dtype(bool): "BOOL",
    np.dtype(jnp.bfloat16): "BF16",
}
"""The names of the dtypes in the safetensors format."""

DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


def encode(tree: PyTree, like: PyTree, header: dict | None = None) -> bytes:
    """Serialise a pytree of arrays as bytes, in the safetensors format.

    Args:
        tree: Nested tuples, lists and dicts of arrays, and parts with the structure of the parameters.
        like: The parameters, whose structure the receiver knows.
        header: Further fields of the message, written as JSON.

    Raises:
        UserError: `tree` holds anything else.

    Examples:
        >>> message = encode({"x": np.zeros(2)}, None, {"round": 3})
        >>> decode(message, None)
        ({'x': array([0., 0.])}, {'round': 3})
    """
    arrays: list[np.ndarray] = []
    meta = {"tree": json.dumps(_describe(tree, jax.tree.structure(like), arrays)), "header": json.dumps(header or {})}
    return _write(arrays, meta)


def decode(data: Buffer, like: PyTree) -> tuple[PyTree, dict]:
    """Return the tree and the header that `encode` wrote; the leaves are NumPy arrays in the memory of `data`.

    Args:
        data: The bytes of the message.
        like: The parameters, as for `encode`.

    Raises:
        UserError: `data` is anything else.
    """
    try:
        arrays, meta = _read(data)
        description, header = json.loads(meta["tree"]), dict(json.loads(meta["header"]))
        return _build(description, arrays, like), header
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"a message of {len(data)} bytes is not one of turnout's: {error}") from None


def _describe(part: Any, params: Any, arrays: list[np.ndarray]) -> Any:
    """Return `part` as JSON values with each array replaced by its number, and append the arrays to `arrays`."""
    # A closure in `encode` would refer to itself and hold the arrays until the next garbage collection.
    if part is None:
        return None
    if jax.tree.structure(part) == params and not jax.tree_util.treedef_is_leaf(params):
        return {"params": [_describe(leaf, params, arrays) for leaf in jax.tree.leaves(part)]}
    if isinstance(part, dict):
        return {"dict": {key: _describe(value, params, arrays) for key, value in part.items()}}
    if type(part) in (tuple, list):
        return {type(part).__name__: [_describe(value, params, arrays) for value in part]}
    if not hasattr(part, "shape"):
        raise UserError(f"a message holds arrays in tuples, lists and dicts, but this one holds a {type(part).__name__}")
    arrays.append(np.asarray(part, order="C"))
    return len(arrays) - 1


def _build(part: Any, arrays: list[np.ndarray], like: PyTree) -> PyTree:
    """Return the tree that `_describe` turned into `part`."""
    if part is None:
        return None
    if isinstance(part, int):
        return arrays[part]
    ((kind, content),) = part.items()
    if kind == "params":
        return jax.tree.unflatten(jax.tree.structure(like), [_build(leaf, arrays, like) for leaf in content])
    if kind == "dict":
        return {key: _build(value, arrays, like) for key, value in content.items()}
    return (tuple if kind == "tuple" else list)(_build(value, arrays, like) for value in content)


def _write(arrays: list[np.ndarray], meta: dict) -> bytes:
    """Return the safetensors file of `arrays` and the metadata `meta`; each array is copied once."""
    # Larger types first, so that every array is aligned.
    order = sorted(range(len(arrays)), key=lambda k: -arrays[k].itemsize)
    end, table = 0, {"__metadata__": meta}
    for k in order:
        begin, end = end, end + arrays[k].nbytes
        table[str(k)] = {"dtype": DTYPE_NAMES[arrays[k].dtype], "shape": arrays[k].shape, "data_offsets": [begin, end]}
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)
    return b"".join([len(head).to_bytes(8, "little"), head, *(arrays[k].reshape(-1).view(np.uint8).data for k in order)])


def _read(data: Buffer) -> tuple[list[np.ndarray], dict]:
    """Return the arrays of a safetensors file, without copying them, and its metadata."""
    start = 8 + int.from_bytes(data[:8], "little")
    table = json.loads(data[8:start])
    meta = table.pop("__metadata__")
    arrays = []
    for k in range(len(table)):
        entry = table[str(k)]
        begin, end = entry["data_offsets"]
        dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
        if not 0 <= begin <= end <= len(data) - start or math.prod(shape) * dtype.itemsize != end - begin:
            raise ValueError(f"array {k} is not where it should be")
        array = np.frombuffer(data, np.uint8, end - begin, start + begin) if end > begin else np.zeros(0, np.uint8)
        arrays.append(array.view(dtype).reshape(shape))
    return arrays, meta


def copy_leaves(tree: PyTree) -> PyTree:
    """Return `tree` with every leaf serialised and read back, so that no memory is shared with the original."""
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, decode(encode([np.asarray(leaf) for leaf in leaves], None), None)[0])
