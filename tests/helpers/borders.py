"""Property tests of borders: what goes in comes out, or is refused."""

from collections.abc import Callable
from inspect import signature

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

CASES = [
    pytest.param(50, id="some"),
    pytest.param(500, id="more", marks=pytest.mark.slow),
    pytest.param(10_000, id="many", marks=pytest.mark.everything),
]


def border(**drawn: SearchStrategy) -> Callable[[Callable], Callable]:
    """Make a test of a claim about drawn values: `make test` plays 50 cases, `make nightly` 500, `make everything` 10,000.

    Args:
        **drawn: Strategies of the claim's arguments; its argument `folder` is an own folder.
    """

    def test_of(claim: Callable) -> Callable:
        @pytest.mark.parametrize("cases", CASES)
        def test(cases, tmp_path):
            def bound(**values):
                claim(**values, **({"folder": tmp_path} if "folder" in signature(claim).parameters else {}))

            settings(max_examples=cases)(given(**drawn)(bound))()

        test.__name__, test.__doc__, test.__module__ = claim.__name__, claim.__doc__, claim.__module__
        return test

    return test_of
