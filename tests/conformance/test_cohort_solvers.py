"""What every cohort solver owes: the checks of `turnout.testing` on each example, and its ledger by hand."""

from dataclasses import replace
from functools import lru_cache

import pytest

import turnout as t
from tests.helpers.examples import SOLVER_EXCHANGES, SOLVERS, small, sppm
from tests.helpers.hand_count import COHORT, expected_totals
from turnout.solvers.base import StepResult
from turnout.testing import check
from turnout.testing.solvers import CHECKS, case


@lru_cache(1)
def case_of(name):
    """Return one case, which all checks share: they follow one another, so that nothing is compiled twice."""
    return case(SOLVERS[name], small())


@pytest.mark.tiers(
    quick=[
        "bfgs-states_keep_their_types",
        "bfgs-proximal_point_is_reached",
        "bfgs-resumes_to_the_bit",
        "bfgs-goes_on_to_the_bit",
    ],
    longer=[
        "bfgs-objective_falls",
        "bfgs-compiles_once",
        "scaffnew-states_keep_their_types",
        "scaffnew-proximal_point_is_reached",
        "scaffnew-ledger_counts_what_nodes_send",
        "scaffnew-compiles_once",
        "scaffnew-resumes_to_the_bit",
        "scaffnew-goes_on_to_the_bit",
    ],
    slow=["scaffnew-objective_falls", "scaffnew-engines_agree", "sketch-engines_agree"],
)
@pytest.mark.parametrize("name_of_check", CHECKS)
@pytest.mark.parametrize("name", SOLVERS)
def test_conformance(name, name_of_check):
    """First a line search, then an algorithm with random branches, and Hessians with a metric."""
    CHECKS[name_of_check](case_of(name))


@pytest.mark.tiers(quick=[], longer=["mime"], slow=["lbfgs", "aicn", "localgd", "sketch", "fedspeed"])
@pytest.mark.parametrize("name", SOLVERS)
def test_the_ledger_is_a_hand_count(name):
    """Two steps a round, all with the same cohort, but for the first exchange. Line searches reject what they must."""
    totals = t.run(sppm(SOLVERS[name], t.Nice(COHORT)), small(), rounds=3, engine="nodes").ledger.totals()
    first, *rest = (*SOLVER_EXCHANGES[name], *SOLVER_EXCHANGES[name])
    expected = expected_totals((), (first, *(replace(exchange, who="again") for exchange in rest)), 3, small())
    expected |= {"rejected": totals["rejected"], "iterations": totals["exchanges"] - totals["rejected"]}
    assert {event: totals[event] for event in expected} == expected


@t.record
class Wrong(t.CohortSolver):
    """Gradient descent on phi with a sum of replies that is not f_S."""

    sum: str = t.static(kw_only=True)
    sign: float = 1.0

    def start(self, phi, memory):
        return phi.centre

    def step(self, ask, phi, state):
        replies = ask(phi.cohort, self.gradient, phi.unravel(state))
        gradient = phi.gradient(state, getattr(replies, self.sum)())
        return StepResult(state - self.sign * gradient / self.bounds(phi)[1], state, gradient)

    def solution(self, state):
        return state


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["total", "mean"])
def test_a_sum_of_replies_that_is_not_the_average_is_refused(wrong):
    with pytest.raises(t.UserError, match="of the way from its cohort's proximal point .* average"):
        check(Wrong(sum=wrong), small())
    check(Wrong(sum="average"), small())


@pytest.mark.longer
def test_ascent_is_refused():
    with pytest.raises(t.UserError, match="raises the proximal objective"):
        check(Wrong(sum="average", sign=-0.01), small())
