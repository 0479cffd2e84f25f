"""What is foretold of a run of any algorithm is what its ledger counts."""

import pytest

import turnout as t
from tests.helpers.cost_estimates import LOCAL, PAIR, check, icgm, sppm
from turnout.experiment.registry import TABLES

KINDS = TABLES["algorithm"]

SGD = t.optimisers.Sgd(lr=0.01)

EACH_KIND = {
    "accfeddcd": lambda: t.AccFedDcd(PAIR, LOCAL, convexity=0.1, smoothness=10.0),
    "ce-lgd": lambda: KINDS["ce-lgd"](PAIR, lr=0.01, steps=2),
    "fedavg": lambda: t.FedAvg(PAIR, lr=0.01, steps=3),
    "fedavg-sppm": lambda: t.FedAvgSppm(PAIR, gamma=0.1, alpha=0.5, inner=2, solver=LOCAL),
    "feddcd": lambda: t.FedDcd(PAIR, LOCAL, convexity=0.1, delivery="eager"),
    "fedlamb": lambda: t.FedLamb(PAIR, lr=0.01, steps=2),
    "fedopt": lambda: t.FedOpt(PAIR, optimiser=SGD, server_optimiser=t.optimisers.FedAdam(0.01), steps=2),
    "feddyn": lambda: KINDS["feddyn"](PAIR, LOCAL, gamma=0.1),
    "fedprox": lambda: t.FedProx(PAIR, lr=0.01, steps=[1, 2, 3, 4, 5], mu=0.5),
    "fedprox-sppm": lambda: t.FedProxSppm(PAIR, gamma=0.1, inner=2, solver=LOCAL),
    "fedred": lambda: KINDS["fedred"](PAIR, lam=10.0, smoothness=20.0),
    "fedspeed": lambda: t.FedSpeed(PAIR, optimiser=SGD, gamma=0.1, steps=2),
    "fedvarp": lambda: t.FedVarp(PAIR, lr=0.01, steps=2, memory="clients"),
    "gd": lambda: KINDS["gd"](PAIR, lr=0.01),
    "icgm": lambda: icgm(t.RgSaga(passes=2), delegate=t.Nice(1)),
    "mbgd": lambda: t.MbGd(t.Available(PAIR, probability=0.6, memory=0.5), lr=0.01),
    "mblocalgd": lambda: t.MbLocalGd(t.Independent(size=2.0, probability=t.KVib()), lr=0.01, steps=2),
    "mime": lambda: t.Mime(PAIR, optimiser=SGD, steps=2),
    "mimelite": lambda: t.MimeLite(PAIR, optimiser=t.optimisers.Adam(0.01), steps=2),
    "mimemvr": lambda: KINDS["mimemvr"](PAIR, lr=0.01, steps=2),
    "point-saga": lambda: t.PointSaga(PAIR, LOCAL, gamma=0.1),
    "saber-full": lambda: KINDS["saber-full"](PAIR, LOCAL, lam=20.0),
    "saber-partial": lambda: KINDS["saber-partial"](PAIR, LOCAL, lam=20.0, cohorts=3),
    "scaffnew": lambda: KINDS["scaffnew"](PAIR, lr=0.02, probability=0.3),
    "scaffold": lambda: t.Scaffold(PAIR, lr=0.01, steps=3, option="I"),
    "scaffold-sag": lambda: KINDS["scaffold-sag"](PAIR, lr=0.01, steps=2),
    "sppm": lambda: sppm(t.solvers.SketchedNewton(smoothness=20.0, convexity=0.5), inner=2, first=4),
}
"""A setting of every algorithm; one that is new needs one too."""


def test_every_algorithm_is_described():
    assert EACH_KIND.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", EACH_KIND)
def test_the_ledger_of_every_algorithm_is_what_was_foretold(kind):
    algorithm = EACH_KIND[kind]()
    assert type(algorithm) is KINDS[kind]
    check(algorithm)
