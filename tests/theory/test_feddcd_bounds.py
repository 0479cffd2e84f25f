"""The lower bound of Theorem 7.1 of FedDCD is given for the algorithms that it is about."""

import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import ALGORITHMS
from turnout.theory.feddcd_bounds import lower_bound_of


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_cohorts_of_a_round_are_those_of_its_exchanges(name):
    """Each exchange has a cohort of its own, drawn by `sampler`; the ledger is compared with the same table elsewhere."""
    example = ALGORITHMS[name]
    exchanges = example.round or ()
    regular = not example.start and {exchange.who for exchange in exchanges} in ({"cohort"}, {"everyone"})
    assert example.make(t.Nice(3)).cohorts_per_round == (len(exchanges) if regular else None)


@pytest.mark.tiers(quick=[], longer=["fedavg-1", "mimemvr-2"])
@pytest.mark.parametrize(("name", "coordinates"), [("fedavg", 1), ("accfeddcd", 2), ("mimemvr", 2), ("scaffold-sag", 2)])
def test_an_exchange_reaches_one_more_coordinate_of_the_chain(name, coordinates):
    """The theorem counts exchanges of which each may reach the next coordinate, here with all clients."""
    chain, rounds = t.Chain.of(clients=4, length=20, mu=0.01, smoothness=1.0), 3
    algorithm = ALGORITHMS[name].make(t.Full())
    trace = t.run(algorithm, chain, rounds=rounds)
    assert np.count_nonzero(trace.x) <= coordinates * rounds
    lower = lower_bound_of(algorithm, chain)
    assert lower is None or lower.cohorts == coordinates
