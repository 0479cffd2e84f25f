"""Which cases of a test run in `make test`, and which in `make test-all` alone."""

from collections.abc import Collection, Iterable

import pytest


def slow_but(fast: Collection[str], names: Iterable[str]) -> list:
    """Return `names` as parameters of a test, marked slow but for those in `fast`, which show what the others repeat."""
    names = [*names]
    assert {*fast} <= {*names}, f"{[*{*fast} - {*names}]} are no cases"
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]


def slow_but_pairs(names: Iterable[str], others: Iterable[str], fast: Collection[str] | None = None) -> list:
    """Return all pairs as parameters of a test, marked slow but for so many that each name, or each of `fast`, is in one."""
    names, others = [*names], [*others]
    fast = names if fast is None else fast
    assert {*fast} <= {*names}, f"{[*{*fast} - {*names}]} are no cases"
    size = min(len(names), len(others))
    return [
        pytest.param(name, other, marks=() if name in fast and (i - j) % size == 0 else pytest.mark.slow)
        for i, name in enumerate(names)
        for j, other in enumerate(others)
    ]
