"""FedDisco: against a plain program, with discrepancies of real labels, and where its weights lead."""

import numpy as np
import pytest
from scipy.special import rel_entr

import turnout as t
from tests.algorithms.test_references import cohorts, local_descent
from tests.helpers.federations import SHARES, four, with_rows
from turnout.core.errors import UserError

ROUNDS, LR = 50, 0.1


def weights(cohort, d, a, b) -> np.ndarray:
    """The authors' weights: old - a d + b, cut at 0 and normalised, d being divided by its sum in the cohort."""
    old = np.array([share for _, share, _ in cohort])
    d = np.array([d[i] for i, *_ in cohort])
    new = np.maximum(0, old / old.sum() - a * d / d.sum() + b)
    return new / new.sum()


def divergences(problem) -> np.ndarray:
    """KL of each client's labels from those of all, by SciPy."""
    ones = np.array(
        [np.mean(problem.rows[1][first:last] > 0) for first, last in zip(problem.offsets, problem.offsets[1:], strict=False)]
    )
    shares = np.stack([ones, 1 - ones], axis=1)
    return rel_entr(shares, SHARES @ shares).sum(1)


@pytest.mark.longer
def test_a_run_with_the_labels_of_the_problem_is_its_numpy_program():
    problem, sampler, x = with_rows(), t.Nice(3), np.zeros(5)
    d, cut = divergences(problem), 0
    trace = t.run(t.FedDisco(sampler, lr=LR, steps=2, a=1.0), problem, rounds=ROUNDS, seed=1)
    for cohort in cohorts(sampler, problem, 1, ROUNDS):
        w = weights(cohort, d, 1.0, 0.1)
        cut += np.any(w == 0)
        x = x + sum(weight * (local_descent(problem, i, x, LR, 2) - x) for weight, (i, *_) in zip(w, cohort, strict=True))
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    assert cut > 0 and trace.ledger.totals()["vectors_up"] == 3 * ROUNDS


@pytest.mark.longer
def test_it_stops_at_the_minimum_of_the_weighted_mean():
    """With everyone and one step: sum_i w_i grad f_i = 0; with a = b = 0 at the minimum of f."""
    (matrices, vectors), d = four().rows, np.array([0.1, 0.4, 0.3, 0.2])
    for a, b in ((0.6, 0.05), (0.0, 0.0)):
        w = weights([(i, share, None) for i, share in enumerate(SHARES)], d, a, b)
        x = t.run(t.FedDisco(t.Full(), lr=LR, a=a, b=b, discrepancy=d.tolist()), four(), rounds=600, every=600).x
        np.testing.assert_allclose(x, np.linalg.solve(np.tensordot(w, matrices, 1), w @ vectors), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("given", "sentence"), [(None, "needs labels of classes"), ([0.1, 0.2], "or 4 of them")])
def test_discrepancies_must_be_known(given, sentence):
    with pytest.raises(UserError, match=sentence):
        t.FedDisco(t.Full(), lr=LR, discrepancy=given).bind(four())
