"""Mistakes in the user's own algorithm, problem or sampler: one sentence with the file, the line and the remedy."""

import difflib
import functools
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import jax

from turnout.core.errors import PACKAGE, UserError

LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {PACKAGE, "<"})
"""Where code lies that is not the user's, and how the names of generated code begin."""

ROUND_BY_ROUND = "or set debug = True, which runs round by round without compilation"

REMEDIES = {
    jax.errors.TracerBoolConversionError: (
        "Python's if, and, or, not and while need a value that is known before the run",
        f"use jax.numpy.where or jax.lax.cond, {ROUND_BY_ROUND}",
    ),
    jax.errors.TracerIntegerConversionError: (
        "an index or a range needs a number that is known before the run",
        f"use x.at[i] or jax.lax.fori_loop, {ROUND_BY_ROUND}",
    ),
    jax.errors.TracerArrayConversionError: ("NumPy needs values that are known before the run", "use jax.numpy in its place"),
    jax.errors.ConcretizationTypeError: (
        "float(), int(), a shape or a range needs a value that is known before the run",
        f"keep it as an array, {ROUND_BY_ROUND}",
    ),
    jax.errors.NonConcreteBooleanIndexError: (
        "a mask as an index gives an array whose length is not known before the run",
        f"use jax.numpy.where with three arguments, {ROUND_BY_ROUND}",
    ),
    jax.errors.UnexpectedTracerError: (
        "a value of one round or client is used in another",
        "return it in the state or the reply, and do not keep it in a variable",
    ),
}
"""What is wrong, and what to do, by the error of JAX."""


def own_mistakes_told(function: Callable) -> Callable:
    """Make a function raise a `UserError` with file, line and remedy where the user's own code fails inside, or what that called.

    Errors of turnout and of libraries that it calls by itself stay as they are.

    Args:
        function: The function.
    """

    @functools.wraps(function)
    def told(*arguments, **named):
        try:
            return function(*arguments, **named)
        except UserError:
            raise
        except (TypeError, ValueError, AttributeError, NameError, LookupError, ArithmeticError) as error:
            own = _own_frames(error.__traceback__)
            if not own:
                raise
            mistake = UserError(_sentence(error, own[-1]))
            mistake.own_frames = _chained(own)
            raise mistake.with_traceback(mistake.own_frames) from None

    return told


def with_short_traceback(function: Callable) -> Callable:
    """Make a function of turnout raise a `UserError` with the frames of the user's code alone, below its own.

    Args:
        function: The function.
    """

    @functools.wraps(function)
    def shortened(*arguments, **named):
        try:
            return function(*arguments, **named)
        except UserError as error:
            raise error.with_traceback(error.own_frames) from None

    return shortened


def what_failed(error: Exception) -> str:
    """Return the first line of what an error says, behind file and line where it is in the user's own code.

    Args:
        error: The error, which was caught.
    """
    what, own = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip("."), _own_frames(error.__traceback__)
    return f"{Path(own[-1].tb_frame.f_code.co_filename).name}, line {own[-1].tb_lineno}: {what}" if own else what


def _own_frames(traceback: TracebackType | None) -> list[TracebackType]:
    """Return the parts of a traceback, below the place that catches it, that are in the user's code."""
    found = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(LIBRARIES):
            found.append(traceback)
        traceback = traceback.tb_next
    return found


def _chained(frames: list[TracebackType]) -> TracebackType | None:
    chain = None
    for each in reversed(frames):
        chain = TracebackType(chain, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return chain


def _sentence(error: Exception, where: TracebackType) -> str:
    code = where.tb_frame.f_code
    place = f"{Path(code.co_filename).name}, line {where.tb_lineno}, in {code.co_name}"
    for kind, (what, remedy) in REMEDIES.items():
        if isinstance(error, kind):
            return f"{place}: {what}: {remedy}"
    what = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".").replace("'JaxClient' object", "a client")
    if "Ask.__call__()" in what:
        return f"{place}: ask takes who, a local method and one message: put several things into one tuple or dict"
    if isinstance(error, KeyError):
        what = f"there is no {what}"
    return f"{place}: {what}: {_advice(error)}"


def _advice(error: Exception) -> str:
    """Return what to do about an error of Python."""
    name, holder = getattr(error, "name", None), getattr(error, "obj", None)
    if isinstance(error, AttributeError) and name and holder is not None:
        near = difflib.get_close_matches(name, [each for each in dir(holder) if not each.startswith("_")], 1)
        return f"did you mean {near[0]!r}?" if near else "correct the name"
    return "correct this line"
