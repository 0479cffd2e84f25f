"""Which cases of a test run in `make test`, and which in `make test-all` alone."""

from collections.abc import Collection, Iterable

import pytest


def slow_but(fast: Collection[str], names: Iterable[str]) -> list:
    """Return `names` as parameters of a test, marked slow but for those in `fast`, which show what the others repeat."""
    names = [*names]
    assert {*fast} <= {*names}, f"{[*{*fast} - {*names}]} are no cases"
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]
