"""Which cases of a test run in `make test`, which in `make test-all` alone, and which only with `pytest -m everything`."""

from collections.abc import Collection, Iterable

import pytest


def slow_but(fast: Collection[str], names: Iterable[str], slow: Collection[str] | None = None) -> list:
    """Return `names` as parameters of a test, marked slow but for those in `fast`, which show what the others repeat.

    Args:
        fast: Cases that are not marked.
        names: All cases.
        slow: The cases besides that are marked slow, so that the others are marked "everything"; None for all.
    """
    names = [*names]
    known, further = {*fast} | {*(slow or ())}, pytest.mark.slow if slow is None else pytest.mark.everything
    assert known <= {*names}, f"{[*known - {*names}]} are no cases"
    marks = {name: pytest.mark.slow for name in slow or ()} | {name: () for name in fast}
    return [pytest.param(name, marks=marks.get(name, further)) for name in names]


def tier_of(check: str) -> pytest.MarkDecorator:
    """Return the mark of a check of algorithms where others show what it shows: one of them stays in `make test-all`."""
    return pytest.mark.slow if check == "engines_agree" else pytest.mark.everything


def slow_but_pairs(
    names: Iterable[str], others: Iterable[str], fast: Collection[str] | None = None, slow: Collection[str] | None = None
) -> list:
    """Return all pairs as parameters of a test, marked slow but for so many that each name, or each of `fast`, is in one.

    Args:
        names: The first of each pair.
        others: The second of each pair.
        fast: Names with one pair that is not marked; None for all.
        slow: Names with one pair that is marked slow, so that all others are marked "everything"; None for all pairs.
    """
    names, others = [*names], [*others]
    fast = names if fast is None else fast
    known = {*fast} | {*(slow or ())}
    assert known <= {*names}, f"{[*known - {*names}]} are no cases"
    size = min(len(names), len(others))
    further = pytest.mark.slow if slow is None else pytest.mark.everything

    def marks(name, i, j):
        first = (i - j) % size == 0
        return () if first and name in fast else pytest.mark.slow if first and name in (slow or ()) else further

    return [pytest.param(name, other, marks=marks(name, i, j)) for i, name in enumerate(names) for j, other in enumerate(others)]
