"""The one exception for mistakes a user can mend."""

from difflib import get_close_matches


class UserError(ValueError):
    """A mistake in what the user gave: its message is one sentence that says what, where and what to do."""


def unknown(what: str, name: str, known) -> UserError:
    """Build the error for a name that is not among the `known` ones, with the nearest one as a suggestion."""
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "known are " + ", ".join(known)
    return UserError(f"unknown {what} {name!r}: {hint}")
