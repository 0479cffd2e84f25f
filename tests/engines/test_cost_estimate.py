"""What is foretold of a run of any algorithm is what its ledger counts."""

import pytest

import turnout as t
from tests.helpers.cost_estimates import PAIR, check
from tests.helpers.examples import ALGORITHMS, LOCAL, icgm, sppm

VARIANTS = {
    "feddcd-eager": lambda: t.FedDcd(PAIR, LOCAL, convexity=0.1, delivery="eager"),
    "fedprox-own-steps": lambda: t.FedProx(PAIR, lr=0.01, steps=[1, 2, 3, 4, 5], mu=0.5),
    "fedvarp-clients": lambda: t.FedVarp(PAIR, lr=0.01, steps=2, memory="clients"),
    "icgm-passes": lambda: icgm(t.RgSaga(passes=2), PAIR, delegate=t.Nice(1)),
    "mbgd-available": lambda: t.MbGd(t.Available(PAIR, probability=0.6, memory=0.5), lr=0.01),
    "mblocalgd-k-vib": lambda: t.MbLocalGd(t.Independent(size=2.0, probability=t.KVib()), lr=0.01, steps=2),
    "saber-partial": lambda: t.SaberPartial(PAIR, LOCAL, lam=20.0, cohorts=3),
    "sppm-sketch": lambda: t.Sppm(PAIR, t.solvers.SketchedNewton(smoothness=20.0, convexity=0.5), gamma=0.1, inner=2, first=4),
    "sppm-scaffnew": lambda: sppm(t.solvers.Scaffnew(), PAIR),
}
"""What chance, a sampler or a client decides, beside the examples."""

CASES = {name: lambda example=example: example.make(PAIR) for name, example in ALGORITHMS.items()} | VARIANTS


@pytest.mark.tiers(
    quick=["mblocalgd-k-vib"],
    longer=["diloco", "ef21", "fedavg", "feddcd", "mime", "point-saga", "scaffnew", "scaffold", "mbgd-available"],
    slow=["accfeddcd", "clag", "icgm", "locodl", "marina", "saber-partial", "tamuna"],
)
@pytest.mark.parametrize("name", CASES)
def test_the_ledger_of_every_algorithm_is_what_was_foretold(name):
    check(CASES[name]())
