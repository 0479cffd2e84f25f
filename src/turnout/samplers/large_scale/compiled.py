"""Functions that numba compiles when they are first called."""

import inspect

from turnout.core.errors import UserError

try:
    import numba
except ImportError:
    raise UserError("turnout.samplers.large_scale needs numba: install it with pip install 'turnout[scale]'") from None


def compiled(function):
    """Compile `function` for the processor, once in each process."""
    # No cache on disk: numba does not notice changes of functions that other files define. `unwrap` removes the wrapper of a
    # run-time type checker, which numba cannot compile.
    return numba.njit(error_model="numpy")(inspect.unwrap(function))
