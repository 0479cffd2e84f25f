"""The baselines of cost-aware client selection on four quadratics: plain programs of one round each, and what a round sends."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import turnout as t
from tests.helpers.federations import SHARES, four
from turnout.algorithms import Scaffnew
from turnout.client_solvers import LocalSolver, Solution
from turnout.core.seeds import Seeds

CLIENTS, SIZE, DIMENSION, SEED, DELEGATE = 4, 2, 3, 3, 1
PASS = 2
"""Arbitrary selections that a full pass is charged: ceil(4 / 2)."""

COHORTS = list(itertools.combinations(range(CLIENTS), SIZE))
LR, STEPS, LAM, ETA, CHANCE, THETA = 0.02, 3, 8.0, 10.0, 0.3, 0.4


@t.record
class Exact(LocalSolver):
    """One Newton step, which is exact on quadratics; it says that it made two queries."""

    def minimise(self, client, tilt, start, delta=None, convexity=None):
        slope = client.grad(start) - tilt.linear + tilt.weight * (start - tilt.centre)
        hessian = client.hessian(start) + tilt.weight * jnp.eye(start.size, dtype=start.dtype)
        return Solution(start - jnp.linalg.solve(hessian, slope), 2, 0)


class Plain:
    """f_i and what programs do with it in NumPy, on `problem` with weights `shares`."""

    def __init__(self, problem=None, shares=SHARES):
        self.problem, self.shares = problem or four(), shares
        self.matrices, self.vectors = self.problem.rows
        self.optimum = np.linalg.solve(*(np.tensordot(shares, part, 1) for part in self.problem.rows))

    def slope(self, i, x):
        return self.matrices[i] @ x - self.vectors[i]

    def gradient(self, x):
        return sum(share * self.slope(i, x) for i, share in enumerate(self.shares))

    def unbiased(self, cohort, x):
        """grad f_S(x) = sum_{i in S} (lambda_i / p_i) grad f_i(x), p_i = m / n."""
        return sum(self.shares[i] * CLIENTS / SIZE * self.slope(i, x) for i in cohort)

    def mean(self, cohort, of):
        return np.average([of(i) for i in cohort], axis=0, weights=self.shares[list(cohort)])

    def descent(self, i, x, v):
        """x after K steps of f_i corrected by v - grad f_i(x)."""
        y = x
        for _ in range(STEPS):
            y = y - LR * (self.slope(i, y) - self.slope(i, x) + v)
        return y

    def proximal(self, i, x, linear):
        """argmin f_i - <., linear> + (lam / 2) |. - x|^2."""
        return np.linalg.solve(self.matrices[i] + LAM * np.eye(DIMENSION), self.vectors[i] + linear + LAM * x)


ROUNDS = 6


class Luck(NamedTuple):
    """What chance did in round 0, 1, ...: `cohorts` and `clients` of each of four draws, and for each of two exchanges the
    server's `coins` and `steps` and a delegate's `own_steps`.
    """

    cohorts: Any
    clients: Any
    coins: Any
    steps: Any
    own_steps: Any


@cache
def luck() -> Luck:
    seeds, population = Seeds.of(SEED), t.Population(CLIENTS)

    def draw(size, round, number):
        return t.Nice(size).draw(None, seeds.draw(round, number), population).ids

    def of(round):
        draws, keys = jnp.arange(4), [seeds.exchange(round, exchange) for exchange in range(2)]
        server = [jax.random.fold_in(key, CLIENTS) for key in keys]
        return Luck(
            *(jax.vmap(lambda number, size=size: draw(size, round, number))(draws) for size in (SIZE, 1)),
            [jax.random.bernoulli(key, SIZE / CLIENTS) for key in server],
            [jax.random.geometric(key, CHANCE) for key in server],
            [jax.random.geometric(jax.random.fold_in(key, DELEGATE), LAM / (LAM + ETA)) for key in keys],
        )

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(of))(jnp.arange(ROUNDS + 1)))


def cohort(round, number) -> tuple[int, ...]:
    """The clients of the `number`-th draw of a round."""
    return tuple(luck().cohorts[round, number])


def gd(f, state, round):
    (x,) = state
    return (x - LR * f.gradient(x),), {"arbitrary": PASS, "exchanges": 1, "down": 4, "up": 4, "slowest": 1}


def fedred(f, state, round):
    (x,), i = state, DELEGATE
    y, steps = x, int(luck().own_steps[1][round])
    for _ in range(steps):
        y = (ETA * y + LAM * x - f.slope(i, y) - f.gradient(x) + f.slope(i, x)) / (ETA + LAM)
    counts = {"arbitrary": PASS, "delegate": 1, "exchanges": 2, "down": 4 + 2, "up": 4 + 1, "slowest": 1 + steps}
    return (y,), counts


def feddyn(f, state, round, drawn=None, renew=lambda h, moved, x, shares: h - LAM * shares @ moved):
    """x, h and g_i [n, d]."""
    x, h, g = state
    members = cohort(round, 0) if drawn is None else drawn
    points = {i: f.proximal(i, x, g[i]) for i in members}
    g = np.array([g[i] - LAM * (points[i] - x) if i in points else g[i] for i in range(CLIENTS)])
    h = renew(h, np.array([points[i] - x for i in members]), x, f.shares[list(members)])
    x = f.mean(members, points.get) - h / LAM
    return (x, h, g), {"random": 1, "exchanges": 1, "down": 2, "up": 2, "slowest": 2}


def lazy_dane(f, state, round):
    """x^t, x^{t-1}, b_i and x_i [n, d], and who was heard [n]."""
    (x, old, each, points, seen), members = state, cohort(round, 0)
    linear = dict.fromkeys(members, np.zeros(DIMENSION))
    if seen.any():
        known = f.shares * seen / (f.shares @ seen)
        linear = {i: f.slope(i, known @ points) - known @ each for i in members}
    moved = f.mean(members, lambda i: f.proximal(i, x, linear[i]) - x)
    drawn = np.isin(range(CLIENTS), members)
    each = np.array([f.slope(i, x) if drawn[i] else each[i] for i in range(CLIENTS)])
    state = (x + moved + THETA * (x - old), x, each, np.where(drawn[:, None], x, points), seen | drawn)
    return state, {"random": 1, "exchanges": 1, "down": 2 * 3, "up": 2 * 3, "slowest": 2 + 2}


def mime(f, state, round, drawn=None):
    (x,), members = state, cohort(round, 0) if drawn is None else drawn
    v = f.unbiased(members, x)
    counts = {"random": 1, "reasks": 1, "exchanges": 2, "down": 4, "up": 4, "slowest": STEPS}
    return (f.mean(members, lambda i: f.descent(i, x, v)),), counts


def mimemvr(f, state, round, drawn=None, a=CHANCE):
    (x, before, v), members = state, cohort(round, 0) if drawn is None else drawn
    if round == 1:
        a = 1.0
    v = f.unbiased(members, x) + (1 - a) * (v - f.unbiased(members, before))
    counts = {"random": 1, "reasks": 1, "exchanges": 2, "down": 2 * 2 + 2, "up": 4, "slowest": 2 + STEPS - 1}
    return (f.mean(members, lambda i: f.descent(i, x, v)), x, v), counts


def celgd(f, state, round, drawn=None, rho=CHANCE):
    x, v = state
    if round == 0:
        return (x, f.unbiased(cohort(0, 0), x)), {"random": 1, "exchanges": 1, "down": 2, "up": 2, "slowest": 1}
    (j,), members = (luck().clients[round, 0], cohort(round, 1)) if drawn is None else drawn
    y, u = x, v
    for _ in range(STEPS):
        y, old = y - LR * u, y
        u = u + f.slope(j, y) - f.slope(j, old)
    v = f.unbiased(members, y) + (1 - rho) * (v - f.unbiased(members, x))
    return (y, v), {"random": 2, "exchanges": 2, "down": 2 + 4, "up": 1 + 2, "slowest": STEPS + 2}


def scaffold_sag(f, state, round):
    """x, b and b_i [n, d]."""
    x, b, each = state
    if round == 0:
        each = np.array([f.slope(i, x) for i in range(CLIENTS)])
        return (x, f.shares @ each, each), {"arbitrary": PASS, "exchanges": 1, "down": 4, "up": 4, "slowest": 1}
    members = cohort(round, 0)
    each = np.array([f.slope(i, x) if i in members else each[i] for i in range(CLIENTS)])
    b = f.shares @ each
    counts = {"random": 1, "reasks": 1, "exchanges": 2, "down": 4, "up": 4, "slowest": STEPS}
    return (f.mean(members, lambda i: f.descent(i, x, b)), b, each), counts


def saber_full(f, state, round):
    x, v = state
    if round == 0:
        return (x, f.gradient(x)), {"arbitrary": PASS, "exchanges": 1, "down": 4, "up": 4, "slowest": 1}
    (j,) = luck().clients[round, 0]
    new = f.proximal(j, x, f.slope(j, x) - v)
    counts = {"random": 1, "exchanges": 2, "down": 2, "up": 1, "slowest": 3}
    if luck().coins[1][round]:
        return (new, f.gradient(new)), plus(counts, {"arbitrary": PASS, "down": 4, "up": 4, "slowest": 1})
    members = cohort(round, 1)
    v = v + f.unbiased(members, new) - f.unbiased(members, x)
    return (new, v), plus(counts, {"random": 1, "down": 4, "up": 2, "slowest": 2})


def saber_partial(f, state, round, drawn=None):
    x, v = state
    if round == 0:
        return (x, f.gradient(x)), {"arbitrary": PASS, "exchanges": 1, "down": 4, "up": 4, "slowest": 1}
    drawn = [cohort(round, k) for k in range(4)] if drawn is None else drawn
    k = len(drawn) // 2
    x = np.mean([f.mean(members, lambda i: f.proximal(i, x, f.slope(i, x) - v)) for members in drawn[:k]], axis=0)
    counts = {"random": 2 * k, "exchanges": 2 * k, "down": k * (4 + 2), "up": k * (2 + 2), "slowest": k * (3 + 1)}
    return (x, np.mean([f.unbiased(members, x) for members in drawn[k:]], axis=0)), counts


def scaffnew(f, state, round):
    """x_i, each after the communication, and h_i; one coin a step."""
    points, h = state
    steps = int(luck().steps[0][round])
    for step in range(1, steps + 1):
        ahead = np.array([points[i] - LR * (f.slope(i, points[i]) - h[i]) for i in range(CLIENTS)])
        points = np.broadcast_to(f.shares @ ahead, ahead.shape) if step == steps else ahead
        h = h + CHANCE / LR * (points - ahead)
    return (points, h), {"arbitrary": PASS, "exchanges": 1, "down": 4, "up": 4, "slowest": steps}


def plus(counts, more) -> dict:
    return {name: counts.get(name, 0) + more.get(name, 0) for name in {*counts, *more}}


@dataclass(frozen=True)
class Case:
    """An algorithm, its plain program, that one's first state, and whether it has something to do before the first round."""

    algorithm: t.Algorithm
    program: Callable
    first: tuple
    begins: bool = False

    def played(self) -> tuple[np.ndarray, dict]:
        """x after the rounds of `luck`, and what is counted by hand."""
        f, state, counts = Plain(), self.first, {}
        for number in range(0 if self.begins else 1, ROUNDS + 1):
            state, more = self.program(f, state, number)
            counts = plus(counts, more)
        return np.atleast_2d(state[0])[0], counts


def counted(trace) -> dict:
    """The events of a run that are counted by hand, those that are none left out."""
    totals = trace.ledger.totals()
    names = {f"draws_{kind}": kind for kind in ("arbitrary", "random", "delegate")}
    names |= {
        "exchanges": "exchanges",
        "reasks": "reasks",
        "vectors_down": "down",
        "vectors_up": "up",
        "queries_slowest": "slowest",
    }
    return {name: totals[event] for event, name in names.items() if totals[event]}


X, EACH = np.zeros(DIMENSION), np.zeros((CLIENTS, DIMENSION))
NICE = t.Nice(SIZE)
EXACT = {
    "gd": Case(t.Gd(NICE, LR), gd, (X,)),
    "fedred": Case(t.FedRed(NICE, LAM, ETA, delegate=t.Delegate(DELEGATE)), fedred, (X,)),
    "lazy-dane": Case(t.LazyDane(NICE, Exact(), LAM, momentum=THETA), lazy_dane, (X, X, EACH, EACH, np.zeros(CLIENTS, bool))),
    "feddyn": Case(t.FedDyn(NICE, Exact(), 1 / LAM), feddyn, (X, X, EACH)),
    "scaffold-sag": Case(t.ScaffoldSag(NICE, LR, STEPS), scaffold_sag, (X, X, EACH), True),
    "saber-full": Case(t.SaberFull(NICE, Exact(), LAM), saber_full, (X, X), True),
    "scaffnew": Case(Scaffnew(NICE, LR, CHANCE), scaffnew, (EACH, EACH)),
}
"""Those that go to the optimum."""

NOISY = {
    "mime": Case(t.MimeMvr(NICE, LR, STEPS), mime, (X,)),
    "mimemvr": Case(t.MimeMvr(NICE, LR, STEPS, CHANCE), mimemvr, (X, X, X)),
    "ce-lgd": Case(t.CeLgd(NICE, LR, STEPS, estimator=t.Storm(CHANCE)), celgd, (X, X), True),
    "saber-partial": Case(t.SaberPartial(NICE, Exact(), LAM, cohorts=2), saber_partial, (X, X), True),
}
"""Those that the draws keep off it."""
