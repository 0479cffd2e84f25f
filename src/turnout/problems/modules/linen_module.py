"""Modules written with flax's linen, which take batches."""

from collections.abc import Callable
from typing import Any

import jax

from turnout.core.compiling import program
from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.problems.modules.base import OwnModule, drawn, stored
from turnout.problems.modules.flags import arguments_of, flags

STATISTICS = "batch_stats"


class LinenModule(OwnModule):
    """A module of flax's linen, whose variables are x: {"params": ..., "batch_stats": ...}, without what it has not.

    An argument of its `__call__` says whether it is in training: `train`, `training` or `is_training`, or by their contrary
    `deterministic`, `use_running_average` or `inference`.

    Args:
        given: The module.
        shape: The shape of a row.
    """

    def __init__(self, given: Any, shape: tuple[int, ...]):
        self.module, self.arguments = given, arguments_of(type(given).__call__, 2)
        like = jax.eval_shape(lambda: drawn(self._draw, shape, jax.random.key(0)))
        name = next((name for name in like if name not in ("params", STATISTICS)), None)
        if name is not None:
            raise UserError(
                f"the module has the collection {name!r}, which is neither 'params' nor {STATISTICS!r}: keep its arrays "
                "in one of these"
            )
        statistics = tuple(leaves_by_name({STATISTICS: like[STATISTICS]})) if STATISTICS in like else ()
        has_modes = bool(flags(self.arguments, True))
        if statistics and not has_modes:
            raise UserError(
                f"the module has statistics such as {statistics[0]}, but its __call__ is not told whether it is in training: "
                "give it an argument train"
            )
        super().__init__(given, shape, like, statistics, has_modes)

    def x_of(self, given):
        return given

    def start(self, key: Any, make: Callable | None):
        return stored(program(lambda key: drawn(self._draw, self.shape, key))(key))

    def outputs(self, x, features, key=None):
        if key is None:
            return self.module.apply(x, features, **flags(self.arguments, False)), {}
        options = {"rngs": {"dropout": key, "params": jax.random.fold_in(key, 0)}, **flags(self.arguments, True)}
        if not self.statistics:
            return self.module.apply(x, features, **options), {}
        return self.module.apply(x, features, mutable=[STATISTICS], **options)

    def whole(self, x):
        return x

    def _draw(self, key: Any, features: Any):
        return self.module.init(key, features, **flags(self.arguments, False))
