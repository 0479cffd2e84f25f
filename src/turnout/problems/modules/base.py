"""`OwnModule`: a module of the user's own as a function of its parameters and of rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import cached_property
from inspect import signature
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.core.own_code import what_failed
from turnout.problems.activations import bytes_of_a_row
from turnout.problems.modules.dependence import depends_on_last


class OwnModule(ABC):
    """A module of the user's own, as a function of its parameters x and of b rows.

    x is a nested dictionary of floating-point arrays: the parameters, and what training moves without a gradient, of which whole
    numbers and truth values are kept as floating-point numbers. Modules that compute the same are equal, so that they share
    compiled programs.

    Args:
        identity: What modules that compute the same have in common.
        shape: The shape of a row.
        like: The leaves of x as the library has them, or their shapes and types.
        statistics: Names of the leaves that training moves without a gradient.
        has_modes: Whether the module can be told that it is in training.
    """

    def __init__(
        self, identity: Hashable, shape: tuple[int, ...], like: PyTree, statistics: tuple[str, ...] = (), has_modes: bool = False
    ):
        self.shape, self.statistics, self.has_modes = shape, statistics, has_modes
        _refuse_types(like, statistics)
        self.like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), like)
        try:
            hash(identity)
        except TypeError:
            identity = id(self)
        self.identity = identity, shape, statistics, has_modes

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.identity == other.identity  # type: ignore

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape})"

    @abstractmethod
    def x_of(self, given: Any) -> PyTree:
        """Return the leaves of x that a module of the user's own has, in the library's types."""

    @abstractmethod
    def outputs(self, x: PyTree, features: Float[Array, "b ..."], key: Any = None) -> tuple[Array, PyTree]:
        """Return the outputs for b rows, and the leaves of x that training has moved; none where `key` is None.

        Args:
            x: Leaves in the library's types.
            features: The rows.
            key: Random key of a pass in training; None: evaluation.
        """

    @abstractmethod
    def whole(self, x: PyTree) -> Any:
        """Return what the library calls the module with the parameters x.

        Args:
            x: Leaves in the library's types.
        """

    def start(self, key: Any, make: Callable | None) -> PyTree:
        """Return the first leaves of x, drawn with a random key.

        Args:
            key: The key.
            make: The user's function from a key to a module; None where the library draws parameters by itself.
        """
        x = self.x_of(made(make, key))
        shapes, drawn = ({name: leaf.shape for name, leaf in leaves_by_name(tree).items()} for tree in (self.like, x))
        if drawn != shapes:
            raise UserError("the function of a key returns modules of different structure: let only numbers depend on the key")
        return stored(x)

    def evaluated(self, x: PyTree, features: Float[Array, "b ..."]) -> Array:
        """Return the outputs for b rows in evaluation.

        Args:
            x: Parameters of the problem.
            features: The rows.
        """
        return self.outputs(self.restored(x), features)[0]

    def trained(self, x: PyTree, features: Float[Array, "b ..."], key: Any) -> tuple[Array, dict[str, Array]]:
        """Return the outputs for b rows in training, and each of the `statistics` after this pass, by its name.

        Args:
            x: Parameters of the problem.
            features: The rows.
            key: Random key of this pass.
        """
        outputs, moved = self.outputs(self.restored(x), features, key)
        before, after = leaves_by_name(x), leaves_by_name(moved)
        return outputs, {name: after[name].astype(before[name].dtype) for name in self.statistics}

    def restored(self, x: PyTree) -> PyTree:
        """Return the parameters x of the problem in the library's types: whole numbers are rounded."""

        def one(leaf, like):
            if jnp.issubdtype(like.dtype, jnp.floating):
                return leaf
            return leaf > 0.5 if like.dtype == bool else jnp.rint(leaf).astype(like.dtype)

        return jax.tree.map(one, x, self.like)

    @cached_property
    def trains_apart(self) -> bool:
        """Whether outputs in training are others than in evaluation: statistics move, or numbers are drawn."""
        if self.statistics or self.has_modes:
            return True
        outputs = self._traced(lambda x, features, key: self.trained(x, features, key)[0], "training", 2, jax.random.key(0))
        return depends_on_last(outputs)

    @cached_property
    def activation_bytes(self) -> int:
        """Bytes of activations between one row and its outputs."""
        return bytes_of_a_row(lambda rows: self._traced(self.evaluated, "evaluation", rows))

    def outputs_of(self, rows: int) -> jax.ShapeDtypeStruct:
        """Return shape and type of the outputs for some rows; `UserError` where the module does not take them, or has none.

        Args:
            rows: The number of rows.
        """
        values = self._traced(self.evaluated, "evaluation", rows).out_avals
        if self.trains_apart:
            self._traced(self.trained, "training", rows, jax.random.key(0))
        return jax.ShapeDtypeStruct(values[0].shape, values[0].dtype)

    def _traced(self, function: Callable, mode: str, rows: int, *key: Any):
        """Return the program of a function of x, rows and maybe a key; `UserError` where the module fails.

        Args:
            function: The function.
            mode: What it does, in words.
            rows: The number of rows.
            *key: A random key.
        """
        x = jax.tree.map(_floating, self.like)
        features = jax.ShapeDtypeStruct((rows, *self.shape), jax.tree.leaves(x)[0].dtype)

        def one_array(x, features, *key):
            values = function(x, features, *key)
            outputs = values[0] if isinstance(values, tuple) and key else values
            if not isinstance(outputs, jax.Array):
                raise UserError(
                    f"the module returns a {type(outputs).__name__}, but its outputs are one array: return that alone"
                )
            return values

        try:
            return jax.make_jaxpr(one_array)(x, features, *key)
        except UserError:
            raise
        except Exception as error:
            raise failed(mode, rows, self.shape, error) from error


def made(make: Callable | None, key: Any) -> Any:
    """Return the module that the user's function makes with a random key, or without one where it takes none.

    Args:
        make: The function.
        key: The key.
    """
    try:
        return make(*[key][: _arguments(make)])  # type: ignore
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"the function that makes the module fails ({what_failed(error)}): let it take a random key of JAX"
        ) from error


def drawn(draw: Callable, shape: tuple[int, ...], key: Any) -> Any:
    """Return what a module draws for a row of zeros; `UserError` where it fails.

    Args:
        draw: Function of a key and a batch.
        shape: The shape of a row.
        key: The key.
    """
    try:
        return draw(key, jnp.zeros((1, *shape)))
    except Exception as error:
        raise UserError(
            f"the module draws no parameters for rows of shape {shape} ({what_failed(error)}): let it take what the data have"
        ) from error


def failed(mode: str, rows: int, shape: tuple[int, ...], error: Exception) -> UserError:
    """Return the error of a module that fails on rows.

    Args:
        mode: What it does, in words.
        rows: The number of rows.
        shape: The shape of a row.
        error: Why it fails.
    """
    why = f"the module fails in {mode} on {rows} rows of shape {shape} ({what_failed(error)})"
    return UserError(f"{why}: let it take what the data have")


def stored(x: PyTree) -> PyTree:
    """Return leaves of a library as those of a problem: whole numbers and truth values as floating-point numbers."""

    def one(leaf):
        return leaf if jnp.issubdtype(leaf.dtype, jnp.floating) else jnp.asarray(leaf).astype(jnp.result_type(float))

    return jax.tree.map(one, x)


def nested(leaves: dict[tuple, Any]) -> dict:
    """Return leaves by their paths as nested dictionaries."""
    tree: dict = {}
    for (*parts, last), leaf in leaves.items():
        place = tree
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = leaf
    return tree


def leaf_at(tree: dict, path: tuple) -> Any:
    """Return the leaf of nested dictionaries at a path.

    Args:
        tree: The dictionaries.
        path: The keys.
    """
    for part in path:
        tree = tree[part]
    return tree


def words_of(path: tuple) -> tuple[str, ...]:
    """Return a path of JAX in words."""
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in path)


def _arguments(make: Callable | None) -> int:
    """Return how many arguments a function has; those of classes of C are not known, and taken to be one."""
    try:
        return len(signature(make).parameters)  # type: ignore
    except ValueError:
        return 1


def _floating(leaf) -> jax.ShapeDtypeStruct:
    kind = leaf.dtype if jnp.issubdtype(leaf.dtype, jnp.floating) else jnp.result_type(float)
    return jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(kind))


def _refuse_types(like: PyTree, statistics: tuple[str, ...]) -> None:
    """Raise `UserError` where there is no parameter, or one is no floating-point number."""
    leaves = leaves_by_name(like)
    if not leaves.keys() - {*statistics}:
        raise UserError("the module has no floating-point arrays, so that there is nothing to train: give one with parameters")
    for name, leaf in leaves.items():
        known = (jnp.floating, jnp.integer, jnp.bool_) if name in statistics else (jnp.floating,)
        if not any(jnp.issubdtype(leaf.dtype, kind) for kind in known):
            raise UserError(f"{name} of the module is {leaf.dtype}, which no gradient trains: make it floating-point numbers")
