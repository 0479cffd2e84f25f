"""The cost of generality in the dual: FedDCD on MNIST against the same program written by hand in JAX."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import turnout as t
from benchmarks.rounds import SEEDS, draw_all, per_client
from benchmarks.timing import SEED, Line, alternate, ratio, seconds
from turnout.data import ContiguousSplit, load, present
from turnout.problems import Multinomial
from turnout.runs.session import Session

CLIENTS, COHORT, ROUNDS, MU = 100, 30, 100, 1e-2
BLOCKS = 5
"""Both sides play the run once, in so many parts in turn, since it takes minutes: the ratio is the median over the parts."""

CHECKED, EXACT = 3, 1e-12
"""Rounds after which the parameters of both sides are compared, and the tolerance of the local solutions there: looser ones
depend on rounding, which conjugate gradients amplify."""

TOLERANCE, RELATIVE, STEPS, PRODUCTS = 1e-6, 1e-4, 50, 1000
DECREASE, SLACK, HALVINGS = 0.01, 1e-6, 100
WHAT = "FedDCD on MNIST over a bare JAX program"
SETTINGS = {"data": "mnist", "clients": CLIENTS, "cohort": COHORT, "rounds": ROUNDS, "mu": MU, "tolerance": TOLERANCE,
            "relative": RELATIVE, "precision": "double", "seeds": [SEED]}  # fmt: skip


def measure() -> list[Line]:
    """Return the time of the run over that of the bare program, and how far the results of both are apart."""
    if present("mnist") is None:
        return [Line("dual", WHAT, None, note="skipped: put the idx files of MNIST into $TURNOUT_DATA")]
    dataset = load("mnist")
    problem = Multinomial.of(dataset, ContiguousSplit(CLIENTS).split(dataset), MU, intercept=False)
    session, bare = new_session(problem, ROUNDS), Bare(problem, ROUNDS)
    chunks = session.play()
    next(chunks)  # Compiles, and writes the row before the first round.
    bare.play(0)
    taken = alternate(
        {"bare": lambda: seconds(lambda: bare.play(ROUNDS // BLOCKS)), "turnout": lambda: seconds(lambda: next(chunks))},
        BLOCKS, warm=False,
    )  # fmt: skip
    each = {side: sum(times) for side, times in taken.items()}
    queries = f"{session.trace.ledger.totals()['queries_total']} against {bare.queries} oracle queries"
    return [
        Line("dual", WHAT, ratio(taken, "turnout", "bare"), 1.2, settings=SETTINGS, timings=taken,
             note=f"{each['turnout']:.0f} against {each['bare']:.0f} seconds, {queries}"),
        Line("dual", "largest difference of the parameters", apart(problem), 1e-10, unit="",
             settings={**SETTINGS, "rounds": CHECKED, "tolerance": EXACT}, note=f"{CHECKED} rounds at tolerance {EXACT:g}"),
    ]  # fmt: skip


def apart(problem: Multinomial) -> float:
    """Return the largest difference between the parameters of both sides after a few rounds with nearly exact solutions."""
    session, bare = new_session(problem, CHECKED, EXACT), Bare(problem, CHECKED, EXACT)
    list(session.play())
    bare.play(CHECKED)
    return float(np.max(np.abs(session.trace.x["weight"] - bare.x)))


def new_session(problem: Multinomial, rounds: int, tolerance: float = TOLERANCE) -> Session:
    """Return a session that writes a trace row before the first round and after each part of the run."""
    solver = t.client_solvers.NewtonCg(steps=STEPS, tolerance=tolerance, products=PRODUCTS, relative=RELATIVE)
    return Session(
        t.FedDcd(t.Nice(COHORT), solver), problem, seeds=SEEDS, rounds=rounds, every=max(1, rounds // BLOCKS), metrics=("value",)
    )


class Bare:
    """FedDCD as one would write it for one use: no sampling, no counting but of queries, nothing to choose."""

    def __init__(self, problem: Multinomial, rounds: int, tolerance: float = TOLERANCE):
        with jax.enable_x64(True):
            self.data = per_client(problem)
            self.cohorts = draw_all(t.Nice(COHORT), problem.population, rounds)
            zero = jnp.zeros((CLIENTS, self.data[0].shape[-1], problem.classes))
            self.state = zero, zero, zero[0], jnp.zeros((), int)
        self.tolerance, self.round = tolerance, 0

    def play(self, rounds: int) -> None:
        """Play so many rounds more, and wait for the end."""
        first, self.round = self.round, self.round + rounds
        with jax.enable_x64(True):
            self.state = jax.block_until_ready(play(*self.data, self.cohorts, first, self.round, self.state, self.tolerance))

    @property
    def x(self) -> np.ndarray:
        return np.asarray(self.state[2])

    @property
    def queries(self) -> int:
        return int(self.state[3])


@jax.jit
def play(features, labels, cohorts, first, last, state, tolerance):
    """Return every y_i and w_i [n, d, classes], the last mean and the queries made, after the rounds `first` to `last` - 1."""

    def one_round(number, state):
        y, w, _, queries = state
        ids = cohorts[number]
        found, asked = lax.map(lambda i: minimise(features[i], labels[i], y[i], w[i], tolerance), ids)
        mean = jnp.mean(found, axis=0)
        return y.at[ids].add(-MU * (found - mean)), w.at[ids].set(found), mean, queries + jnp.sum(asked)

    return lax.fori_loop(first, last, one_round, state)


class Point(NamedTuple):
    """A point w, value and gradient there, each row's `chances` [s, classes], steps and queries so far, whether to give up."""

    w: jax.Array
    value: jax.Array
    gradient: jax.Array
    chances: jax.Array
    steps: jax.Array
    queries: jax.Array
    stuck: jax.Array


def minimise(a, labels, y, w, tolerance):
    """Return argmin f_i(w) - <w, y> by Newton's method with conjugate gradients, and the queries that it took."""
    rows = labels.size
    truth = jax.nn.one_hot(labels, w.shape[1], dtype=a.dtype)

    def at(w):
        logits = a @ w
        log_p = jax.nn.log_softmax(logits)
        p = jnp.exp(log_p)
        value = -jnp.vdot(truth, log_p) / rows + MU / 2 * jnp.vdot(w, w) - jnp.vdot(w, y)
        return value, a.T @ ((p - truth) / rows) + MU * w - y, p

    def newton(point):
        p, products = direction(point)
        slope = jnp.vdot(point.gradient, p)

        def bad(trial):
            step, (value, gradient, _), trials = trial
            armijo = value <= point.value + DECREASE * step * slope
            level = value <= point.value + SLACK * jnp.abs(value)
            return ~(armijo | level & (jnp.vdot(gradient, p) <= (2 * DECREASE - 1) * slope)) & (trials <= HALVINGS)

        def halve(trial):
            step, _, trials = trial
            return step / 2, at(point.w + step / 2 * p), trials + 1

        step, (value, gradient, chances), trials = lax.while_loop(bad, halve, (jnp.ones_like(slope), at(point.w + p), 1))
        stuck = ~(value < point.value) & ~(jnp.linalg.norm(gradient) < jnp.linalg.norm(point.gradient) / 2)
        queries = point.queries + products + trials
        return Point(point.w + step * p, value, gradient, chances, point.steps + 1, queries, stuck)

    def direction(point):
        goal = jnp.maximum(tolerance / 100, RELATIVE * jnp.linalg.norm(point.gradient))

        def unfinished(state):
            _, _, _, square, products = state
            return (products < PRODUCTS) & ((products == 0) | (jnp.sqrt(square) > goal))

        def step(state):
            p, r, v, square, products = state
            z = a @ v
            product = a.T @ (point.chances / rows * (z - jnp.sum(point.chances * z, axis=1, keepdims=True))) + MU * v
            length = square / jnp.vdot(v, product)
            p, r = p + length * v, r - length * product
            new = jnp.vdot(r, r)
            return p, r, r + new / square * v, new, products + 1

        r = -point.gradient
        p, _, _, _, products = lax.while_loop(unfinished, step, (jnp.zeros_like(r), r, r, jnp.vdot(r, r), 0))
        return p, products

    def unfinished(point):
        return (point.steps < STEPS) & ~point.stuck & (jnp.linalg.norm(point.gradient) > tolerance)

    last = lax.while_loop(unfinished, newton, Point(w, *at(w), 0, 1, False))
    return last.w, last.queries
