"""Streaming DiLoCo: against a plain program with delays, as DiLoCo with one fragment, and its largest message."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_diloco import NESTEROV, AdamW, diloco
from tests.helpers.similar import CLIENTS, cohort, similar, slope

ROUNDS, STEPS, FRAGMENTS, OVERLAP, MIXING = 50, 4, 3, 2, 0.4


def streaming(sampler, **options) -> t.StreamingDiLoCo:
    inner = t.optimisers.AdamW(0.02, weight_decay=0.1)
    return t.StreamingDiLoCo(sampler, inner, NESTEROV, steps=STEPS, **options)


def plain(problem, sampler, fragments, overlap, mixing) -> np.ndarray:
    """Four numbers in three fragments: 0 and 1, 2 and 3, and none but the zeros at the end."""
    size = -(-4 // fragments)
    places = [np.arange(p * size, min(4, (p + 1) * size)) for p in range(fragments)]
    x, m, own = np.zeros(4), np.zeros(4), [AdamW() for _ in range(CLIENTS)]
    y = [np.zeros(4) for _ in range(CLIENTS)]
    for number in range(1, ROUNDS + 1):
        here, before = places[(number - 1) % fragments], places[(number - 2) % fragments]
        clients, shares = cohort(sampler, problem, 1, number)
        mean = np.zeros(len(here))
        for i, share in zip(clients, shares, strict=True):
            for step in range(STEPS + 1):
                if step == overlap and number > 1:
                    y[i] = y[i].copy()
                    y[i][before] = mixing * y[i][before] + (1 - mixing) * x[before]
                if step < STEPS:
                    y[i] = own[i].step(y[i], slope(problem, i, y[i]))
            mean += share * y[i][here]
        if clients:
            gradient, x = x[here] - mean, x.copy()
            m[here] = 0.9 * m[here] + gradient
            x[here] -= 0.7 * (gradient + 0.9 * m[here])
    return x


@pytest.mark.parametrize(
    ("sampler", "overlap"),
    [(t.Full(), OVERLAP), pytest.param(t.Nice(2), STEPS, marks=pytest.mark.slow)],
    ids=["everyone", "as long as a round"],
)
def test_a_run_is_its_numpy_program_and_the_largest_message_is_a_fragment(sampler, overlap):
    problem = similar(False)
    trace = t.run(streaming(sampler, fragments=FRAGMENTS, overlap=overlap, mixing=MIXING), problem, rounds=ROUNDS, seed=1)
    np.testing.assert_allclose(trace.x, plain(problem, sampler, FRAGMENTS, overlap, MIXING), rtol=0, atol=1e-10)
    totals, drawn = trace.ledger.totals(), CLIENTS if isinstance(sampler, t.Full) else 2
    assert trace.ledger.peaks() == {"bytes_down": 2 * 8 + 4, "bytes_up": 2 * 8}
    assert (totals["bytes_down"], totals["bytes_up"]) == (20 * drawn * ROUNDS, 16 * drawn * ROUNDS)


@pytest.mark.slow
def test_one_fragment_without_delay_is_diloco():
    problem = similar(True)
    trace = t.run(streaming(t.Full(), fragments=1, overlap=0, mixing=0.0), problem, rounds=5, seed=1)
    np.testing.assert_allclose(trace.x, diloco(problem, t.Full(), 1), atol=1e-11)
    other = t.run(
        t.DiLoCo(t.Full(), t.optimisers.AdamW(0.02, weight_decay=0.1), NESTEROV, steps=STEPS), problem, rounds=5, seed=1
    )
    assert other.ledger.peaks() == {"bytes_down": 32, "bytes_up": 32}
