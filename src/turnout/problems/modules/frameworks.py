"""The library that a module is written with, and the module as a function of its parameters."""

from collections.abc import Callable
from typing import Any, Literal

import jax

from turnout.core.errors import UserError
from turnout.core.own_code import what_failed
from turnout.problems.modules.base import OwnModule, made

Library = Literal["equinox", "linen", "nnx", "pair", "torch"]

PLACES: dict[Library, str] = {"equinox": "equinox.", "linen": "flax.linen.", "nnx": "flax.nnx.", "torch": "torch.nn."}
"""Where the base class of each library's modules is."""


def library_of(given: Any) -> Library | None:
    """Return the library that a module is written with; None where it is none.

    Args:
        given: A module, a pair of an equinox module and its state, a pair (init, apply), or anything else.
    """
    if isinstance(given, tuple) and len(given) == 2:
        return library_of(given[0]) or ("pair" if all(map(callable, given)) else None)
    # Without importing the library: where no class of it is, no module of it is.
    places = [f"{base.__module__}." for base in type(given).__mro__ if not isinstance(given, type)]
    return next((library for library, place in PLACES.items() if any(where.startswith(place) for where in places)), None)


def built(given: Any) -> tuple[Any, Library, Callable | None]:
    """Return a module, its library and the function of a key that made it, if it was `given` as one that draws parameters.

    Args:
        given: A module, or a function from a key to one.

    Raises:
        UserError: It is neither.
    """
    library, module, make = library_of(given), given, None
    if library is None and callable(given):
        module, make = made(given, jax.random.key(0)), given
        library = library_of(module)
    if library is None:
        raise UserError(
            "a module is one of equinox, flax or PyTorch, a pair (init, apply), or a function of a key that returns one, but "
            f"this is a {type(module).__name__}: give one of these"
        )
    return module, library, make if library in ("equinox", "nnx") else None


def own_module(module: Any, library: Library, shape: tuple[int, ...]) -> OwnModule:
    """Return a module as a function of its parameters.

    Args:
        module: The module.
        library: Its library, not PyTorch.
        shape: The shape of a row.
    """
    # The libraries are slow to import, and need not be installed.
    if library == "equinox":
        from turnout.problems.modules.equinox_module import EquinoxModule as kind
    elif library == "nnx":
        from turnout.problems.modules.nnx_module import NnxModule as kind
    elif library == "linen":
        from turnout.problems.modules.linen_module import LinenModule as kind
    else:
        from turnout.problems.modules.function_pair import FunctionPair as kind
    try:
        return kind(module, shape)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"the module cannot be read ({what_failed(error)}): give one whose class the library knows") from error
