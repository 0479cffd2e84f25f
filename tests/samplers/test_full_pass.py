"""How many selections a full pass is charged."""

import numpy as np
import pytest

import turnout as t
from turnout.samplers.full_pass import cohort_size, full_pass

TWELVE = t.Population(12, strata=np.arange(12) % 3)


@pytest.mark.parametrize(
    ("sampler", "size"),
    [
        (t.Nice(5), 5),
        (t.Independent(size=2.6), 3),
        (t.Independent(size=0.3), 1),
        (t.Independent(probability=0.9), 12),
        (t.Full(), 12),
        (t.Stratified(), 3),
        (t.Delegate(), 1),
        (t.Block(blocks=[0] * 4 + [1] * 8), 8),
    ],
)
def test_a_pass_takes_cohorts_of_the_size_of_the_samplers(sampler, size):
    """The size asked for, rounded, at least one; else the places of a cohort."""
    bound = sampler.bind(TWELVE)
    assert cohort_size(bound, TWELVE) == size
    assert full_pass(bound, TWELVE) == t.Full(size=size)


def test_a_pass_needs_everyone():
    sampler = t.Available(t.Nice(2), probability=0.5).bind(TWELVE)
    with pytest.raises(t.UserError, match="a full pass asks all clients"):
        full_pass(sampler, TWELVE)
