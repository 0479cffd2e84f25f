"""Functions that numba compiles when they are first called."""

import inspect

from turnout.core.errors import UserError


def compiled(function, nogil: bool = False):
    """Compile `function` for the processor, once in each process; `UserError` where numba is not installed.

    Args:
        function: The function.
        nogil: Whether other threads of Python go on while it runs.
    """
    try:
        import numba
    except ImportError:
        raise UserError("clients on disk, and draws among very many, need numba: pip install 'turnout[scale]'") from None
    # No cache on disk: numba does not notice changes of functions that other files define. `unwrap` removes the wrapper of a
    # run-time type checker, which numba cannot compile.
    return numba.njit(error_model="numpy", nogil=nogil)(inspect.unwrap(function))
