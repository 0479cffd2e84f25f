"""Functions that numba compiles when they are first called."""

import inspect

from turnout.core.errors import UserError

try:
    import numba
except ImportError:
    raise UserError("turnout.samplers.large_scale needs numba: install it with pip install 'turnout[scale]'") from None


def compiled(function):
    """Compile `function` for the processor, anew in each process."""
    # numba's cache of a file does not notice changes of functions from other files, so there is none. And a run-time type checker
    # wraps every function, while numba wants the function itself.
    return numba.njit(error_model="numpy")(inspect.unwrap(function))
