"""The exception for mistakes that a user can correct, and the warning about results."""

import sys
import warnings
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType

PACKAGE = str(Path(__file__).parents[1])


class UserError(ValueError):
    """A mistake in the user's input; the message is one sentence that says what is wrong, where, and what to do.

    Examples:
        >>> import turnout as t
        >>> t.Nice(0)
        Traceback (most recent call last):
        ...
        turnout.core.errors.UserError: ...
    """

    own_frames: TracebackType | None = None
    """Where the mistake is in the user's own code, if it is there."""


class CannotWriteError(UserError):
    """A file or folder that cannot be written, because the disk is full or does not let us; not a fault of what it was for."""


class Caution(UserWarning):
    """A warning about a result that may not be what it seems; the message is one sentence.

    Examples:
        >>> import warnings
        >>> import turnout as t
        >>> with warnings.catch_warnings(action="error", category=t.Caution):
        ...     trace = t.run(t.FedAvg(t.Full(), lr=0.1), t.Quadratic.random(2, 2), rounds=1)
    """


def caution(sentence: str) -> None:
    """Give a `Caution`, at the place in the user's program that called turnout."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, Caution, stacklevel=level)


def unknown(what: str, name: str, choices) -> UserError:
    """Return the error of a name that is not among the `choices`; it suggests the nearest one.

    Args:
        what: Kind of thing, as in the sentence.
        name: The name that was given.
        choices: The names that exist.
    """
    choices = sorted(choices)
    near = get_close_matches(name, choices, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "known are " + ", ".join(choices)
    return UserError(f"unknown {what} {name!r}: {hint}")
