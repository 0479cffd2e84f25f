"""Which cases of a test run in `make test`, and which first in `make test-all`, `make nightly` or `make everything`."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

import pytest

TIERS = "quick", "longer", "slow", "everything"


def sort_into_tiers(items: Iterable[pytest.Item]) -> None:
    """Mark the cases of tests with `@pytest.mark.tiers(...)` by their ids, which "*" may stand for parts of.

    With `quick=[...]` these run in `make test`, those of `longer` in `make test-all`, those of `slow` in `make nightly`, and what
    is left is marked "everything". Without `quick` what is left runs in `make test`.
    """
    for item in items:
        tiers = item.get_closest_marker("tiers")
        if tiers is None or item.get_closest_marker("everything"):
            continue
        named = {tier: _is_among(item, cases) for tier, cases in tiers.kwargs.items()}
        rest = "everything" if "quick" in named else "quick"
        tier = next((tier for tier in TIERS if named.get(tier)), rest)
        if tier != "quick":
            item.add_marker(tier)


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
