"""Arguments by which a module is told whether it is in training."""

from collections.abc import Callable
from inspect import Parameter, signature

from turnout.core.errors import UserError

TRAINING = ("train", "training", "is_training")
EVALUATION = ("deterministic", "use_running_average", "inference")


def arguments_of(function: Callable, given: int, further: tuple[str, ...] = ()) -> list[Parameter]:
    """Return the arguments of a function after the first ones; `UserError` where one is needed that is not known.

    Args:
        function: The function.
        given: How many of its first arguments are known.
        further: Names of further ones that are.
    """
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    named = [one for one in signature(function).parameters.values() if one.kind in (*positional, Parameter.KEYWORD_ONLY)]
    rest = named[given:]
    for one in rest:
        if one.default is one.empty and one.name not in (*TRAINING, *EVALUATION, *further):
            raise UserError(
                f"the module needs {one.name} beside the rows, which is not known here: give it a default, or call it train if "
                "it says whether the module is in training"
            )
    return rest


def flags(arguments: list[Parameter], training: bool) -> dict[str, bool]:
    """Return the values of those arguments that say whether a module is in training.

    Args:
        arguments: Arguments of the module.
        training: Whether it is.
    """
    names = [one.name for one in arguments]
    return {name: training for name in TRAINING if name in names} | {name: not training for name in EVALUATION if name in names}
