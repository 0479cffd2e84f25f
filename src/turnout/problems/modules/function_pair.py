"""Pairs of functions (init, apply) as haiku makes them, which take batches."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import jax

from turnout.core.compiling import program
from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.problems.modules.base import OwnModule, drawn, stored
from turnout.problems.modules.flags import EVALUATION, TRAINING, arguments_of, flags

KEYS = ("rng", "key")


class FunctionPair(OwnModule):
    """A pair of functions: init(key, features) returns the parameters, and apply(params, features) the outputs of b rows.

    `apply` may have further arguments, known by their names: `state` behind the parameters, with which init returns the pair
    (params, state) and apply the pair (outputs, state); `rng` or `key`, which is None in evaluation; and one that says whether
    it is in training, as modules of linen have. With state, x is {"params": ..., "state": ...}, else it is the parameters.

    Args:
        given: The functions.
        shape: The shape of a row.
    """

    def __init__(self, given: tuple[Callable, Callable], shape: tuple[int, ...]):
        self.init, self.apply = given
        self.places, self.arguments = _arguments(self.apply, "apply")
        self.begun, self.first = _arguments(self.init, "init")
        like = jax.eval_shape(lambda: self.x_of(drawn(self._draw, shape, jax.random.key(0))))
        statistics = tuple(leaves_by_name({"state": like["state"]})) if "state" in self.places else ()
        super().__init__(tuple(given), shape, like, statistics, bool(flags(self.arguments, True)))

    def x_of(self, given):
        if "state" not in self.places:
            return given
        if not isinstance(given, tuple) or len(given) != 2:
            raise UserError("apply takes a state, but init returns none: let it return the pair (params, state)")
        return dict(zip(("params", "state"), given, strict=True))

    def start(self, key: Any, make: Callable | None):
        return stored(program(lambda key: self.x_of(drawn(self._draw, self.shape, key)))(key))

    def outputs(self, x, features, key=None):
        inputs = {"params": x, "features": features, "key": key}
        if "state" in self.places:
            inputs |= x
        outputs = self.apply(*(inputs[name] for name in self.places), **flags(self.arguments, key is not None))
        return (outputs[0], {"state": outputs[1]}) if "state" in self.places else (outputs, {})

    def whole(self, x):
        return (x["params"], x["state"]) if "state" in self.places else x

    def _draw(self, key: Any, features: Any):
        inputs = {"key": key, "features": features}
        return self.init(*(inputs[name] for name in self.begun), **flags(self.first, True))


def _arguments(function: Callable, what: str) -> tuple[list[str], list[Parameter]]:
    """Return what the first arguments of `init` or `apply` are, in their order, and the other arguments.

    Args:
        function: The function.
        what: Its name.
    """
    wanted = ["key", "features"] if what == "init" else ["params", "features"]
    places = []
    for one in signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY or one.name in (*TRAINING, *EVALUATION):
            break
        if one.name == "state" and what == "apply":
            places.append("state")
        elif one.name in KEYS:
            places.append("key")
        elif [name for name in wanted if name not in places]:
            places.append(next(name for name in wanted if name not in places))
    return places, arguments_of(function, len(places))
