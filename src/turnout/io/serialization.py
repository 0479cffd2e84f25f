"""What crosses the wire: arrays with dtype and shape, and the plain containers that hold them; nothing is unpickled."""

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
"""Where a message is: in memory or in a file."""

NAMES = {
    **{np.dtype(f"{kind}{size}"): f"{kind.upper()}{8 * size}" for kind in "iu" for size in (1, 2, 4, 8)},
    **{np.dtype(f"f{size}"): f"F{8 * size}" for size in (2, 4, 8)},
    np.dtype("c8"): "C64",
    np.dtype(bool): "BOOL",
    np.dtype(jnp.bfloat16): "BF16",
}
"""What the format safetensors calls the types."""

TYPES = {name: dtype for dtype, name in NAMES.items()}


def encode(tree: PyTree, like: PyTree, header: dict | None = None) -> bytes:
    """Write `tree` as bytes: nested tuples, lists and dicts of arrays, and parts of the structure of the parameters `like`.

    `header` holds what else the message says, as JSON. The format is safetensors.
    """
    arrays: list[np.ndarray] = []
    meta = {"tree": json.dumps(_described(tree, jax.tree.structure(like), arrays)), "header": json.dumps(header or {})}
    return _written(arrays, meta)


def decode(data: Buffer, like: PyTree) -> tuple[PyTree, dict]:
    """Read what `encode` wrote: the tree, whose leaves are numpy arrays that lie in `data` itself, and the header.

    `UserError` where it is anything else.
    """
    try:
        arrays, meta = _read(data)
        description, header = json.loads(meta["tree"]), dict(json.loads(meta["header"]))
        return _built(description, arrays, like), header
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"a message of {len(data)} bytes is not one of turnout's: {error}") from None


def _described(part: Any, params: Any, arrays: list[np.ndarray]) -> Any:
    """Return `part` as JSON has it, with numbers in the place of arrays, and add these to `arrays`."""
    # No function within `encode`: it would refer to itself, and so hold the arrays until garbage is collected.
    if part is None:
        return None
    if jax.tree.structure(part) == params and not jax.tree_util.treedef_is_leaf(params):
        return {"params": [_described(leaf, params, arrays) for leaf in jax.tree.leaves(part)]}
    if isinstance(part, dict):
        return {"dict": {key: _described(value, params, arrays) for key, value in part.items()}}
    if type(part) in (tuple, list):
        return {type(part).__name__: [_described(value, params, arrays) for value in part]}
    if not hasattr(part, "shape"):
        raise UserError(f"a message holds arrays in tuples, lists and dicts, but this one holds a {type(part).__name__}")
    arrays.append(np.asarray(part, order="C"))
    return len(arrays) - 1


def _built(part: Any, arrays: list[np.ndarray], like: PyTree) -> PyTree:
    """Return the tree that `part` describes."""
    if part is None:
        return None
    if isinstance(part, int):
        return arrays[part]
    ((kind, content),) = part.items()
    if kind == "params":
        return jax.tree.unflatten(jax.tree.structure(like), [_built(leaf, arrays, like) for leaf in content])
    if kind == "dict":
        return {key: _built(value, arrays, like) for key, value in content.items()}
    return (tuple if kind == "tuple" else list)(_built(value, arrays, like) for value in content)


def _written(arrays: list[np.ndarray], meta: dict) -> bytes:
    """Return the file of `arrays`, each copied once."""
    # Larger types first, so that all lie at multiples of their size.
    order = sorted(range(len(arrays)), key=lambda k: -arrays[k].itemsize)
    end, table = 0, {"__metadata__": meta}
    for k in order:
        begin, end = end, end + arrays[k].nbytes
        table[str(k)] = {"dtype": NAMES[arrays[k].dtype], "shape": arrays[k].shape, "data_offsets": [begin, end]}
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)
    return b"".join([len(head).to_bytes(8, "little"), head, *(arrays[k].reshape(-1).view(np.uint8).data for k in order)])


def _read(data: Buffer) -> tuple[list[np.ndarray], dict]:
    """Return the arrays of a file, without a copy, and what else it says."""
    start = 8 + int.from_bytes(data[:8], "little")
    table = json.loads(data[8:start])
    meta = table.pop("__metadata__")
    arrays = []
    for k in range(len(table)):
        entry = table[str(k)]
        begin, end = entry["data_offsets"]
        dtype, shape = TYPES[entry["dtype"]], tuple(entry["shape"])
        if not 0 <= begin <= end <= len(data) - start or math.prod(shape) * dtype.itemsize != end - begin:
            raise ValueError(f"array {k} is not where it should be")
        array = np.frombuffer(data, np.uint8, end - begin, start + begin) if end > begin else np.zeros(0, np.uint8)
        arrays.append(array.view(dtype).reshape(shape))
    return arrays, meta


def copy_leaves(tree: PyTree) -> PyTree:
    """Return `tree` with every leaf sent over the wire and back, so that nothing is shared with the original."""
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, decode(encode([np.asarray(leaf) for leaf in leaves], None), None)[0])
