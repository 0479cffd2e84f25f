"""What every gradient estimator owes within I-CGM: the checks of `turnout.testing` on each example."""

from functools import lru_cache

import pytest

import turnout as t
from tests.helpers.examples import ESTIMATORS, icgm, small
from turnout.testing.algorithms import CHECKS, case

# I-CGM itself is checked with "rg-saga" among the algorithms.
NAMES = [name for name in ESTIMATORS if name != "rg-saga"]
SHARED = (
    "states_keep_their_types",
    "engines_agree",
    "ledger_counts_what_nodes_send",
    "lost_replies_are_mended",
    "resumes_to_the_bit",
)


@lru_cache(1)
def case_of(name):
    """Return one case, which all checks share: they follow one another, so that nothing is compiled twice."""
    return case(icgm(ESTIMATORS[name], t.Nice(3)), small())


@pytest.mark.tiers(
    quick=["storm-states_keep_their_types"],
    longer=["storm-ledger_counts_what_nodes_send"],
    slow=["storm-engines_agree", "storm-lost_replies_are_mended", "storm-resumes_to_the_bit"],
)
@pytest.mark.parametrize("check", SHARED)
@pytest.mark.parametrize("name", NAMES)
def test_conformance(name, check):
    """First what the server carries on, where "rg-saga" shows what clients keep; tests/estimators has the textbook of each."""
    CHECKS[check](case_of(name))
