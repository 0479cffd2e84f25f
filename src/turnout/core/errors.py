"""The exception for mistakes that a user can correct."""

from difflib import get_close_matches


class UserError(ValueError):
    """A mistake in the user's input; the message is one sentence that says what is wrong, where, and what to do.

    Examples:
        >>> import turnout as t
        >>> t.Nice(0)
        Traceback (most recent call last):
        ...
        turnout.core.errors.UserError: ...
    """


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
