"""Which cases of a test run in `make test`, which in `make test-all` alone, and which only with `pytest -m everything`."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

import pytest


def sort_into_tiers(items: Iterable[pytest.Item]) -> None:
    """Mark the cases of tests with `@pytest.mark.tiers(quick=[...], slow=[...])` by their ids, which "*" may stand for parts of.

    Cases in `quick` run in `make test`; those in `slow`, or all others where it is not given, in `make test-all`; what is left is
    marked "everything".
    """
    for item in items:
        tiers = item.get_closest_marker("tiers")
        if tiers is None or item.get_closest_marker("everything"):
            continue
        slow = tiers.kwargs.get("slow", ["*"])
        if not _is_among(item, tiers.kwargs["quick"]):
            item.add_marker("slow" if _is_among(item, slow) else "everything")


def _is_among(item: pytest.Item, cases: Iterable[str]) -> bool:
    """Return whether `cases` name the item's."""
    return any(fnmatchcase(item.callspec.id, case) for case in cases)


def unknown_cases(items: Iterable[pytest.Item]) -> list[str]:
    """Return what marks of tiers name and no test has; `items` are all cases of their tests."""
    missing = {}
    for item in items:
        if tiers := item.get_closest_marker("tiers"):
            test = item.nodeid.partition("[")[0]
            named = missing.setdefault(test, {case for cases in tiers.kwargs.values() for case in cases})
            missing[test] = {case for case in named if not _is_among(item, [case])}
    return sorted(f"{test}[{case}]" for test, cases in missing.items() for case in cases)


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
