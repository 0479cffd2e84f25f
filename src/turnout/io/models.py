"""Models in files: parameters by their names, in the format safetensors."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.io.serialization import TYPES


def named_leaves(x: PyTree) -> dict[str, np.ndarray]:
    """Return the arrays of the parameters by name: "hidden.weight" and so on by their paths, "x" for a single array."""
    leaves = jax.tree_util.tree_leaves_with_path(x)
    return {".".join(jax.tree_util.keystr((key,), simple=True) for key in path) or "x": np.asarray(leaf) for path, leaf in leaves}


def encode_model(x: PyTree, facts: dict[str, Any]) -> bytes:
    """Return the file of the parameters x, their types kept; its metadata "turnout" holds `facts` as JSON."""
    # Slow to import.
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(leaf).reshape(leaf.shape) for name, leaf in named_leaves(x).items()}
    # One entry only: the library writes several in an order that differs from process to process.
    return save(arrays, {"turnout": json.dumps(facts)})


def load_model(path: Path | str, like: PyTree) -> PyTree:
    """Return the parameters in the file `path`, structured as `like` is and in its types.

    `UserError` where the file is no such file, or holds another architecture or numbers that are not finite.
    """
    return match_structure(_read(Path(path)), like, str(path))


def initial_parameters(start: PyTree | Path | str, like: PyTree) -> PyTree:
    """Return the first parameters that a run is given, as a file or as they are, in the structure and types of `like`."""
    if isinstance(start, (str, Path)):
        return load_model(start, like)
    return match_structure(named_leaves(start), like, "start")


def match_structure(arrays: dict[str, np.ndarray], like: PyTree, source: str) -> PyTree:
    """Return the named `arrays` as parameters structured as `like` is and in its types; `source` says where they are from."""
    wanted = named_leaves(like)
    advice = "start from a model of the same problem"
    for name in sorted(wanted.keys() ^ arrays.keys()):
        here, there = ("no", "one") if name in wanted else ("an array", "none")
        raise UserError(f"{source} holds another architecture: it has {here} {name!r}, and the problem's has {there}; {advice}")
    for name, leaf in wanted.items():
        given = arrays[name]
        if given.shape != leaf.shape:
            raise UserError(
                f"{source} holds another architecture: {name!r} has the shape {given.shape} there, {leaf.shape} here; {advice}"
            )
        if jnp.issubdtype(given.dtype, jnp.floating) != jnp.issubdtype(leaf.dtype, jnp.floating):
            raise UserError(f"{source} holds another architecture: {name!r} is {given.dtype} there, {leaf.dtype} here; {advice}")
        if not np.isfinite(given.astype(float)).all():
            raise UserError(f"{name!r} in {source} holds NaN or infinite numbers: start from a model that did not diverge")
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name].astype(leaf.dtype) for name, leaf in wanted.items()])


def _read(path: Path) -> dict[str, np.ndarray]:
    # Slow to import.
    from safetensors import SafetensorError, deserialize

    try:
        entries = deserialize(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): give a model that a run left, or none") from None
    except SafetensorError as error:
        raise UserError(f"{path} is no file of safetensors ({error}): give a model.safetensors that a run left") from None
    for name, entry in entries:
        if entry["dtype"] not in TYPES:
            raise UserError(f"{path}: {name!r} has the type {entry['dtype']}, which is not read here: convert it to F32")
    return {name: np.frombuffer(entry["data"], TYPES[entry["dtype"]]).reshape(entry["shape"]) for name, entry in entries}
