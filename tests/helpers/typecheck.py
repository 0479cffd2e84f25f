"""The run-time type checker of the tests: beartype, with int accepted for float as type checkers do (PEP 484)."""

import sys
from functools import wraps
from itertools import count

from beartype import BeartypeConf, beartype

every_call = beartype(conf=BeartypeConf(is_pep484_tower=True))

CALLS = 50
"""How many calls of a function are checked in a process: later ones seldom differ, and checks take as long as all else."""


def check(copy):
    """Return a function that checks its arguments, as jaxtyping wants it; `copy` has the signature of the one that is checked."""
    checked, numbers = every_call(copy), count(1)
    # jaxtyping asks this function before each call whether it is to be checked.
    original = sys._getframe(2).f_locals["fn"]

    @wraps(checked)
    def counted(*args, **kwargs):
        if next(numbers) == CALLS:
            original.__no_type_check__ = True
        return checked(*args, **kwargs)

    return counted
