"""CLAG and LAG: against a plain program that counts what is sent, within their bound, and what they save."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_compressed import Known, top_two, weighted
from tests.algorithms.test_references import cohorts
from tests.helpers.examples import small
from tests.helpers.gradients import client_gradient
from tests.helpers.theorems import Theorem
from turnout.theory.compression import ef21_step

ROUNDS, LR = 50, 0.05


def square(v) -> float:
    return float(np.sum(v**2))


@pytest.mark.tiers(quick=[], longer=["lag"])
@pytest.mark.parametrize(
    ("sampler", "codec", "compress", "trigger"),
    [(t.Nice(4), t.codecs.TopK(count=2), top_two, 20.0), (t.Full(), t.codecs.Identity(), lambda v: v, 3.0)],
    ids=["clag", "lag"],
)
def test_a_run_is_its_numpy_program_and_its_ledger_a_hand_count(sampler, codec, compress, trigger):
    problem, asked, sent = small(), 0, 0
    x, shares = np.zeros(3), np.asarray(problem.population.shares)
    memory, last = np.zeros((6, 3)), np.zeros((6, 3))
    for cohort in cohorts(sampler, problem, 2, ROUNDS):
        for i, *_ in cohort:
            slope = client_gradient(problem, i, x)
            asked += 1
            if square(slope - memory[i]) > trigger * square(slope - last[i]):
                memory[i], sent = memory[i] + compress(slope - memory[i]), sent + 1
            last[i] = slope
        x = x - LR * shares @ memory
    trace = t.run(t.Clag(sampler, codec, lr=LR, trigger=trigger), problem, rounds=ROUNDS, seed=2)
    np.testing.assert_allclose(trace.x, x, rtol=0, atol=1e-10)
    totals = trace.ledger.totals()
    size = 2 * 8 + 1 if isinstance(codec, t.codecs.TopK) else 3 * 8
    assert 0 < sent < 0.9 * asked
    assert totals["bytes_up"] == asked + size * sent
    assert totals["contacts"] == asked + sent and totals["queries_total"] == asked


@pytest.mark.slow
def test_without_a_trigger_it_is_ef21():
    """As long as g_i is not the gradient itself."""
    codec = t.codecs.TopK(count=2)
    runs = [
        t.run(algorithm, small(), rounds=5).x
        for algorithm in (t.Clag(t.Full(), codec, lr=LR, trigger=0.0), t.Ef21(t.Full(), codec, lr=LR))
    ]
    np.testing.assert_allclose(*runs, rtol=0, atol=1e-14)


CASES = {"clag": (t.codecs.TopK(count=3), 0.5, 4.0), "lag": (t.codecs.Identity(), 1.0, 2.0)}
"""Codec, alpha and trigger."""


def clag_theorem(name, problem) -> Theorem:
    (codec, alpha, trigger), known = CASES[name], Known(problem)
    lr, theta = ef21_step(problem, t.Full(), codec, trigger), 1 - np.sqrt(1 - alpha)
    root = np.sqrt(2 * max((1 - alpha) / theta, trigger) / theta)
    theirs = 1 / (known.shares @ known.smoothness + np.sqrt(known.shares @ known.smoothness**2) * root)
    assert lr == pytest.approx(min(theirs, theta / (2 * known.mu))) and lr <= ef21_step(problem, t.Full(), codec)
    first = known.gap + lr / theta * known.shares @ np.sum(known.start**2, axis=1)
    return Theorem(problem, t.Clag(t.Full(), codec, trigger=trigger), "gap", first, 1 - lr * known.mu)


@pytest.mark.tiers(longer=["lag"], slow=["clag"])
@pytest.mark.parametrize("name", CASES)
def test_the_gap_falls_at_the_theorems_rate(name):
    clag_theorem(name, weighted()).check(rounds=300)


def test_cohorts_need_a_step_size():
    with pytest.raises(t.UserError, match="cohorts of Nice: give lr"):
        t.run(t.Clag(t.Nice(2), t.codecs.TopK(count=1), trigger=1.0), small(), rounds=1)
