"""Modules written with flax's nnx, which take batches."""

from typing import Any

import jax
from flax import nnx

from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.problems.modules.base import OwnModule, leaf_at, nested
from turnout.problems.modules.flags import arguments_of, flags


class NnxModule(OwnModule):
    """A module of flax's nnx, whose `Param` and `BatchStat` are the leaves of x, by their paths.

    Random numbers of its `Rngs` follow the key of a pass. In training it is in the mode of `train()`, else in that of `eval()`.

    Args:
        given: The module.
        shape: The shape of a row.
    """

    def __init__(self, given: Any, shape: tuple[int, ...]):
        if not callable(given):
            raise UserError(f"{type(given).__name__} is no function of rows: give its class a __call__")
        self.arguments = arguments_of(type(given).__call__, 2)
        self.graph, params, moved, self.random = _split(given)
        self.variables = {**params, **moved}
        like = self.x_of(given)
        statistics = leaves_by_name(nested({path: variable.get_value() for path, variable in moved.items()}))
        modes = [nnx.graphdef(self._module(like, None, training)) for training in (True, False)]
        super().__init__(self.graph, shape, like, tuple(statistics), modes[0] != modes[1] or bool(flags(self.arguments, True)))

    def x_of(self, given):
        _, params, moved, _ = _split(given)
        return nested({path: variable.get_value() for path, variable in {**params, **moved}.items()})

    def outputs(self, x, features, key=None):
        module = self._module(x, key, key is not None)
        outputs = module(features, **flags(self.arguments, key is not None))
        _, _, moved, _ = _split(module)
        return outputs, nested({path: variable.get_value() for path, variable in moved.items()})

    def whole(self, x):
        return self._module(x, None, False)

    def _module(self, x: Any, key: Any, training: bool) -> nnx.Module:
        """Return a new module with the leaves of x and the random numbers of a key, in training or not."""
        key = jax.random.key(0) if key is None else key
        states = {path: variable.replace(leaf_at(x, path)) for path, variable in self.variables.items()}
        for number, (path, variable) in enumerate(self.random.items()):
            begun = jax.random.fold_in(key, number) if isinstance(variable, nnx.RngKey) else jax.numpy.zeros_like(variable)
            states[path] = variable.replace(begun)
        module = nnx.merge(self.graph, nnx.from_flat_state(states))
        module.train() if training else module.eval()
        return module


def _split(module: nnx.Module) -> tuple[Any, dict, dict, dict]:
    """Return the graph of a module, and by their paths its parameters, its statistics and what random numbers come from."""
    graph, params, moved, random, rest = nnx.split(module, nnx.Param, nnx.BatchStat, nnx.RngState, ...)
    for path, leaf in nnx.to_flat_state(rest):
        raise UserError(
            f"{'.'.join(map(str, path))} of the module is a {type(leaf).__name__}, which is neither nnx.Param, nnx.BatchStat nor "
            "random state: make it one of these"
        )
    return graph, _by_path(params), _by_path(moved), _by_path(random)


def _by_path(state: Any) -> dict:
    return {tuple(path): variable for path, variable in nnx.to_flat_state(state)}
