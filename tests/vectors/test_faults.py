"""Planted faults: each is found by a vector, at the place where it first shows."""

import inspect
import sys

import pytest

import turnout as t
from tests.references.cases import CASES, played
from tests.vectors.turnout_runs import play
from turnout import vectors

FAULTS = {
    "equal weights in the place of rows": ("fedavg", "p.mean(cohort, changes)", "np.mean(changes, axis=0)", "round 1, server, x"),
    "lambda_i without 1 / p_i": ("mblocalgd", "p.average(cohort, changes)", "p.total(cohort, changes)", "round 1, server, x"),
    "the proximal term doubled": ("fedprox", "mu * (y - x)", "2 * mu * (y - x)", "round 1, reply of client 2, change"),
    "|S| / N left out": ("scaffold-2", "(p.total if fraction else p.mean)(", "p.mean(", "round 1, server, c"),
    "a stale variate": (
        "scaffold-2",
        "variates = [new.get(i, own) for i, own in enumerate(variates)]",
        "pass",
        "round 1, state of client 2, c_i",
    ),
    "1 / local_steps left out": ("scaffold-2", "(local_steps * lr)", "lr", "round 1, reply of client 2, change_of_c_i"),
    "the correction with the other sign": ("scaffold-1", "- own + c", "+ own - c", "round 2, reply of client 0, change"),
    "the server's step size twice": ("scaffold-2", "x + server_lr * p.mean", "x + server_lr**2 * p.mean", "round 1, server, x"),
    "the new variate from the round's end": (
        "scaffold-1",
        "p.grad(i, x) if option",
        "p.grad(i, y) if option",
        "round 1, reply of client 2, change_of_c_i",
    ),
    "momentum with the other sign": ("fedavgm", "v = beta * v", "v = -beta * v", "round 2, server, x"),
    "v from 0": ("fedadam", 'tau**2 if v_start == "tau^2" else 0.0', "0.0", "round 1, server, x"),
    "betas exchanged": ("fedadam", "m = beta1 * m + (1 - beta1) * g", "m = beta2 * m + (1 - beta2) * g", "round 1, server, x"),
    "steps counted in the place of a_i": (
        "fednova-momentum",
        "kept = momentum * kept + 1",
        "kept = 1",
        "round 1, reply of client 0, normalised_change",
    ),
    "h by the cohort": ("feddyn", "h - alpha * p.total", "h - alpha * p.mean", "round 1, server, x"),
    "h_i without p": ("scaffnew", "probability / lr * (x - last)", "1 / lr * (x - last)", "round 1, state of client 0, h_i"),
    "staleness off by one": ("fedbuff-staleness", "number - max(when, 1)", "number - when", "round 1, server, x"),
    "memories at the rate 1": ("diana", "kept / 3 if rate is None", "1.0 if rate is None", "round 1, server, h"),
    "MARINA's cohort without 1 / p_i": (
        "marina-pp",
        "p.average(cohort, changes)",
        "p.total(cohort, changes)",
        "round 1, server, g",
    ),
    "chi left out": ("tamuna", "* 4 * (copies - 1) / (copies * 3) / lr", "/ lr", "round 1, state of client 0, h_i"),
    "an estimate that never forgets": (
        "ce-lgd",
        "p.grad(i, new) - (1 - rho)",
        "p.grad(i, new) - 1",
        "round 1, exchange 2, reply of client 2, difference",
    ),
    "a fast client's gradients all in one table": ("ringleader", "if due and i not in due:", "if False:", "round 9, server, x"),
    "the head as it was": ("fedrep", "heads[i] = fitted(i, x, heads[i])", "pass", "round 1, reply of client 2, change"),
    "hubs of one weight": ("in-hubs", "weights=shares", "weights=None", "round 1, server, x"),
    "gradients of all periods": (
        "amplified-scaffold",
        "c, gradients = [*means], {}",
        "c = [*means]",
        "round 3, reply of client 3, change_of_g_i",
    ),
    "H after the replies": (
        "fednl-1",
        "gradients), p.total(EVERYONE, own)",
        "gradients), p.total(EVERYONE, np.add(own, changes))",
        "round 2, server, x",
    ),
}
"""By name: the vector, what is changed in the program into what, and where it first shows."""


def faulty(program, old, new):
    """The program with a line changed."""
    source = inspect.getsource(program)
    assert source.count(old) == 1, f"{program.__name__} has {source.count(old)} times {old!r}"
    scope = vars(sys.modules[program.__module__]).copy()
    exec(source.replace(old, new), scope)
    return scope[program.__name__]


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name):
    vector, old, new, where = FAULTS[name]
    case = CASES[vector]
    assert vectors.first_difference(vectors.load(vector), played(case).rounds) is None
    log = played(case._replace(program=faulty(case.program, old, new)))
    assert vectors.first_difference(vectors.load(vector), log.rounds).where == where


def test_the_vectors_of_a_family_differ():
    """So that a program equals one of them at most."""
    found = vectors.collection()[0]
    for members in vectors.families().values():
        for one in members:
            twins = [other for other in members if vectors.first_difference(found[one], found[other]["rounds"]) is None]
            assert twins == [one]


OWN = {
    "|S| / N left out": ("scaffold-2", t.Scaffold, "round", "replies.total()", "replies.mean()"),
    "the server's step size twice": ("scaffold-2", t.Scaffold, "round", "self.server_lr)", "self.server_lr**2)"),
    "the work of others": ("fednova-cohort", t.FedNova, "round", "replies.mean()", "replies.total()"),
    "a buffer not divided": ("fedbuff", t.FedBuff, "round", "self.server_lr / self.buffer", "self.server_lr"),
}
"""By name: the vector, turnout's class, the method, and what is changed in it into what."""


@pytest.mark.tiers(quick=[], slow=["the server's*"])
@pytest.mark.parametrize("name", OWN)
def test_a_fault_in_turnout_is_found(name, monkeypatch):
    vector, kind, method, old, new = OWN[name]
    source = inspect.getsource(getattr(kind, method))
    assert old in source
    scope = vars(sys.modules[kind.__module__]).copy()
    exec(inspect.cleandoc("\n" + source).replace(old, new), scope)
    monkeypatch.setattr(kind, method, scope[method])
    vector = vectors.load(vector)
    states = play(vector, "nodes")["states"]
    rounds = [{"server": {"x": server[0].tolist()}} for server, _ in states[1:]]
    assert vectors.first_difference(vector, rounds) is not None
