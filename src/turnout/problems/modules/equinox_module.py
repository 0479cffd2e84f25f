"""Modules written with equinox, which take one row."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from turnout.core.errors import UserError
from turnout.problems.modules.base import OwnModule, leaf_at, nested, words_of
from turnout.problems.modules.flags import arguments_of, flags

AXIS = "batch"
"""The name of the axis of rows, for `equinox.nn.BatchNorm`."""


class EquinoxModule(OwnModule):
    """A module of equinox, called with one row; with state it is called with the state too and returns the pair of both.

    The leaves of x have the paths of the module's floating-point arrays, and those of state the paths of their `StateIndex`.
    Other arrays are constants.

    Args:
        given: The module, or the pair of a module and its `State`.
        shape: The shape of a row.
    """

    def __init__(self, given: Any, shape: tuple[int, ...]):
        module, state = _with_state(given)
        if not callable(module):
            raise UserError(f"{type(module).__name__} is no function of a row: give its class a __call__")
        trained, self.rest = eqx.partition(module, eqx.is_inexact_array)
        self.paths, self.structure = _paths(trained), jax.tree.structure(trained)
        self.states, self.state_structure = _state_paths(module, state), jax.tree.structure(state)
        self.arguments = arguments_of(type(module).__call__, 2 if state is None else 3, ("key",))
        self.key = next((one for one in self.arguments if one.name == "key"), None)
        statistics = tuple(".".join(path) for path in self.states)
        modes = zip(*(jax.tree.leaves(eqx.nn.inference_mode(module, mode)) for mode in (True, False)), strict=True)
        has_modes = any(evaluation is not training for evaluation, training in modes)
        leaves, constants = jax.tree.flatten(self.rest)
        identity = tuple(map(_content, leaves)), constants, self.structure, self.state_structure
        has_modes = has_modes or bool(flags(self.arguments, True))
        super().__init__(identity, shape, self.x_of((module, state)), statistics, has_modes)

    def x_of(self, given):
        module, state = _with_state(given)
        trained = eqx.filter(module, eqx.is_inexact_array)
        leaves = zip((*_paths(trained), *_state_paths(module, state)), jax.tree.leaves((trained, state)), strict=True)
        return nested(dict(leaves))

    def outputs(self, x, features: Float[Array, "b ..."], key=None):
        module, state = self._parts(x)
        module = eqx.nn.inference_mode(module, key is None)
        keys, mode = self._keys(key, features.shape[0]), flags(self.arguments, key is not None)
        if state is None:
            return jax.vmap(lambda row, keys: module(row, **keys, **mode), axis_name=AXIS)(features, keys), {}

        def one(row, keys, state):
            return module(row, state, **keys, **mode)

        outputs, state = jax.vmap(one, axis_name=AXIS, in_axes=(0, 0, None), out_axes=(0, None))(features, keys, state)
        return outputs, nested(dict(zip(self.states, jax.tree.leaves(state), strict=True)))

    def whole(self, x):
        module, state = self._parts(x)
        return module if state is None else (module, state)

    def _parts(self, x: PyTree) -> tuple[Any, Any]:
        """Return the module and its state, if it has one, with the leaves of x."""
        trained = self.structure.unflatten([leaf_at(x, path) for path in self.paths])
        state = self.state_structure.unflatten([leaf_at(x, path) for path in self.states]) if self.states else None
        return eqx.combine(trained, self.rest), state

    def _keys(self, key: Any, rows: int) -> dict[str, Any]:
        """Return the argument `key` of each row where the module takes one; in evaluation only where it needs one."""
        if self.key is None or (key is None and self.key.default is not self.key.empty):
            return {}
        return {"key": jax.random.split(jax.random.key(0) if key is None else key, rows)}


def _with_state(given: Any) -> tuple[Any, Any]:
    """Return a module and its state; None without one."""
    if isinstance(given, tuple):
        return given
    indices = [leaf for leaf in jax.tree.leaves(given, is_leaf=_is_index) if _is_index(leaf)]
    if not indices:
        return given, None
    try:
        return eqx.nn.make_with_state(lambda: given)()
    except ValueError:
        raise UserError(
            "the module has state that was taken out of it: give the pair (module, state) that equinox.nn.make_with_state returns"
        ) from None


def _paths(module: PyTree) -> list[tuple[str, ...]]:
    return [words_of(path) for path, _ in jax.tree_util.tree_leaves_with_path(module)]


def _state_paths(module: PyTree, state: Any) -> list[tuple[str, ...]]:
    """Return the path of each leaf of a state: that of its index in the module, and that within its value."""
    if state is None:
        return []
    # Indices are found by what `state` holds for them: here the number of each leaf.
    numbers = jax.tree.unflatten(jax.tree.structure(state), range(len(jax.tree.leaves(state))))
    places = {}
    for path, index in jax.tree_util.tree_leaves_with_path(module, is_leaf=_is_index):
        if _is_index(index):
            for within, number in jax.tree_util.tree_leaves_with_path(numbers.get(index)):
                places[number] = (*words_of(path), *words_of(within))
    return [places[number] for number in sorted(places)]


def _is_index(leaf: Any) -> bool:
    return isinstance(leaf, eqx.nn.StateIndex)


def _content(leaf: Any) -> Any:
    """Return what is the same for equal constants."""
    if eqx.is_array(leaf) or isinstance(leaf, np.ndarray):
        values = np.asarray(leaf)
        return values.dtype.name, values.shape, values.tobytes()
    return type(leaf), leaf
