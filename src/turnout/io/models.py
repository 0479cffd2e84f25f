"""Models on disk: named arrays in the safetensors format."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.core.narrowing import narrowed
from turnout.io.serialization import DTYPES


def named_leaves(x: PyTree) -> dict[str, np.ndarray]:
    """Return the arrays of the parameters x by their paths, such as "hidden.weight"; a single array is called "x"."""
    return {name: np.asarray(leaf) for name, leaf in leaves_by_name(x).items()}


def encode_model(x: PyTree, facts: dict[str, Any], whole: PyTree = None) -> bytes:
    """Return the safetensors file of the parameters x in their own types, with `facts` as JSON in its metadata "turnout".

    Args:
        x: Parameters.
        facts: Entries of the metadata.
        whole: x with all else that the model needs; None: x alone. The metadata name what is not in x as "further".
    """
    # Slow to import.
    from safetensors.numpy import save

    leaves = named_leaves(x if whole is None else whole)
    further = sorted({*leaves} - {*named_leaves(x)})
    facts = {**facts, **({"further": further} if further else {})}
    arrays = {name: np.ascontiguousarray(leaf).reshape(leaf.shape) for name, leaf in leaves.items()}
    # One entry only: the library writes several in an order that differs from process to process.
    return save(arrays, {"turnout": json.dumps(facts)})


def load_model(path: Path | str, like: PyTree) -> PyTree:
    """Load parameters from a safetensors file, such as the model.safetensors that a run leaves in its folder.

    Args:
        path: The file.
        like: Parameters with the structure, shapes and types to return.

    Returns:
        The parameters, structured as `like` and in its types.

    Raises:
        UserError: The file cannot be read, holds another architecture, or numbers that are not finite.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import jax.numpy as jnp, turnout as t
        >>> problem = t.Quadratic.random(clients=4, dimension=2, seed=0)
        >>> trace = t.run(t.MbGd(t.Full(), lr=0.1), problem, rounds=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trace.save_model(Path(folder) / "model.safetensors")
        ...     x = t.load_model(Path(folder) / "model.safetensors", like=trace.x)
        >>> bool(jnp.array_equal(x, trace.x))
        True
    """
    return match_structure(_read(Path(path)), like, str(path))


def initial_parameters(start: PyTree | Path | str, like: PyTree, drawn: tuple[str, ...] = ()) -> PyTree:
    """Return a run's initial parameters, given as a file or as a pytree, in the structure and types of `like`.

    Args:
        start: A file, or parameters.
        like: Parameters of the problem, whose structure and types are required.
        drawn: Names of leaves that are those of `like` where `start` has none of them, as a model without adapters.
    """
    given, source = (_read(Path(start)), str(start)) if isinstance(start, (str, Path)) else (named_leaves(start), "start")
    if not given.keys() & {*drawn}:
        first = named_leaves(like)
        given |= {name: first[name] for name in drawn}
    return match_structure(given, like, source)


def match_structure(arrays: dict[str, np.ndarray], like: PyTree, source: str) -> PyTree:
    """Return the named `arrays` in the structure and types of `like`; errors name their `source`.

    Args:
        arrays: Arrays by name.
        like: Parameters of the problem.
        source: Where the arrays come from, for error messages.
    """
    expected = named_leaves(like)
    advice = "start from a model of the same problem"
    for name in sorted(expected.keys() ^ arrays.keys()):
        here, there = ("no", "one") if name in expected else ("an array", "none")
        raise UserError(f"{source} holds another architecture: it has {here} {name!r}, and the problem's has {there}; {advice}")
    for name, leaf in expected.items():
        given = arrays[name]
        if given.shape != leaf.shape:
            raise UserError(
                f"{source} holds another architecture: {name!r} has the shape {given.shape} there, {leaf.shape} here; {advice}"
            )
        if jnp.issubdtype(given.dtype, jnp.floating) != jnp.issubdtype(leaf.dtype, jnp.floating):
            raise UserError(f"{source} holds another architecture: {name!r} is {given.dtype} there, {leaf.dtype} here; {advice}")
        if not np.isfinite(given.astype(float)).all():
            raise UserError(f"{name!r} in {source} holds NaN or infinite numbers: start from a model that did not diverge")
    return jax.tree.unflatten(
        jax.tree.structure(like), [_typed(arrays[name], leaf.dtype, f"{name!r} in {source}") for name, leaf in expected.items()]
    )


def _typed(array: np.ndarray, dtype, what: str) -> np.ndarray:
    # NumPy does not know bfloat16 as a floating-point type, and its range is that of single precision.
    known = dtype if np.issubdtype(dtype, np.floating) or not jnp.issubdtype(dtype, jnp.floating) else np.float32
    array = array if np.issubdtype(array.dtype, np.number) else array.astype(np.float32)
    return narrowed(array, known, what).astype(dtype)


def _read(path: Path) -> dict[str, np.ndarray]:
    # Slow to import.
    from safetensors import SafetensorError, deserialize

    try:
        content = path.read_bytes()
        entries = deserialize(content)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): give the model of a run, or none") from None
    except SafetensorError as error:
        raise UserError(f"{path} is not a safetensors file ({error}): give the model.safetensors of a run") from None
    further = {*_facts(content).get("further", ())}
    entries = [(name, entry) for name, entry in entries if name not in further]
    for name, entry in entries:
        if entry["dtype"] not in DTYPES:
            raise UserError(f"{path}: {name!r} has the type {entry['dtype']}, which is not read here: convert it to F32")
    return {name: np.frombuffer(entry["data"], DTYPES[entry["dtype"]]).reshape(entry["shape"]) for name, entry in entries}


def _facts(content: bytes) -> dict[str, Any]:
    """Return what turnout has stored in the metadata of a safetensors file, whose JSON follows its length in 8 bytes."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    try:
        facts = json.loads(header.get("__metadata__", {}).get("turnout", "{}"))
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
