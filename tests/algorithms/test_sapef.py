"""SA-PEF: against a plain program, as error feedback, and what it keeps where nothing is previewed or everything."""

import itertools

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_compressed import top_two
from tests.algorithms.test_references import cohorts, local_descent
from tests.helpers.examples import small
from turnout.core.seeds import Seeds
from turnout.runs.session import Session

ROUNDS, LR, STEPS, TOP = 50, 0.02, 3, t.codecs.TopK(count=2)


@pytest.mark.longer
def test_a_run_is_its_numpy_program():
    problem, sampler, alpha = small(), t.Nice(4), 0.6
    x, left = np.zeros(3), np.zeros((6, 3))
    for cohort in cohorts(sampler, problem, 2, ROUNDS):
        total, weight = np.zeros(3), 0.0
        for i, share, _ in cohort:
            u = local_descent(problem, i, x + alpha * left[i], LR, STEPS) - x + (1 - alpha) * left[i]
            left[i] = u - top_two(u)
            total, weight = total + share * top_two(u), weight + share
        x = x + 0.8 * total / weight
    trace = t.run(t.SaPef(sampler, TOP, LR, alpha, STEPS, server_lr=0.8), problem, rounds=ROUNDS, seed=2)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    totals = trace.ledger.totals()
    assert totals["bytes_up"] == (2 * 8 + 1) * totals["contacts"] and totals["queries_total"] == STEPS * totals["contacts"]


@pytest.mark.slow
def test_without_a_preview_it_is_federated_averaging_with_error_feedback():
    exchange = t.Exchange(up=TOP, feedback="ef14")
    one = t.run(t.SaPef(t.Nice(4), TOP, LR, 0.0, STEPS), small(), rounds=10)
    other = t.run(t.FedAvg(t.Nice(4), LR, STEPS), small(), rounds=10, exchange=exchange)
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-13)


@pytest.mark.tiers(longer=["0.5", "1.0"], slow=["0.0"])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_what_compression_leaves_behind_is_not_lost(alpha):
    """x + sum lambda_i e_i moves by the mean change of local steps from x + alpha e_i, in every round."""
    problem, shares = small(), np.asarray(small().population.shares)
    session = Session(t.SaPef(t.Full(), TOP, LR, alpha, STEPS), problem, seeds=Seeds.of(0), rounds=6)
    states = []
    for _ in range(7):
        session.step(1)
        states.append([np.array(part) for part in (session.progress.server, session.progress.clients)])
    for (x, left), (new, after) in itertools.pairwise(states):
        starts = x + alpha * left
        moved = np.array([local_descent(problem, i, start, LR, STEPS) - start for i, start in enumerate(starts)])
        np.testing.assert_allclose(new + shares @ after, x + shares @ (left + moved), rtol=0, atol=1e-12)
    assert np.abs(after).max() > 1e-3
