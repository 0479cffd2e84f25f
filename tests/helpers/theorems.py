"""What a theorem says of a run, and the check that a run keeps to it."""

from dataclasses import dataclass, replace

import jax
import numpy as np

import turnout as t
from turnout.core.seeds import Seeds
from turnout.runs.setup import bind

ROWS = 30
"""Rows of the traces of long runs, whose programs so are the same for all problems."""


def play(problem, algorithm, metric: str, rounds: int, seeds: int, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounds of the rows, and the metric [seeds, rows]."""
    options = {"seeds": range(seeds), "rounds": rounds, "every": every, "metrics": (metric,)}
    traces = t.sweep(algorithm, problem, {}, **options).traces
    assert all(trace.diverged is None for trace in traces)
    return traces[0].columns["round"], np.array([trace.columns[metric] for trace in traces])


@dataclass(frozen=True)
class Theorem:
    """E metric <= first rate^k in the round `begins` + k of a run."""

    problem: t.Problem
    algorithm: t.Algorithm
    metric: str
    first: float
    rate: float
    begins: int = 0

    def check(self, rounds: int, seeds: int = 1, every: int = 1, fall: float = 2.0) -> float:
        """Require the mean over seeds to be within the bound in each row, and to get there by falling `fall` times or more.

        Returns the largest share of the bound that was needed after the start.
        """
        rows, errors = play(self.problem, self.algorithm, self.metric, rounds, seeds, every)
        errors, ages = np.mean(errors, axis=0)[rows >= self.begins], rows[rows >= self.begins] - self.begins
        bound = self.first * self.rate**ages * (1 + 1e-9) + 1e-13 * max(1.0, self.first)
        assert np.all(errors <= bound)
        assert errors[-1] < errors[0] / fall
        return float(np.max((errors / bound)[1:]))

    def check_long(self, seeds: int, most: int) -> float:
        """`check` until the bound is a tenth of the first, or for about `most` rounds."""
        every = int(np.ceil(min(most, np.log(0.1) / np.log(self.rate)) / ROWS))
        return self.check(ROWS * every, seeds, every)

    def with_lr(self, factor: float) -> "Theorem":
        """The same promise of a run whose steps are `factor` times as long."""
        lr = bind(self.algorithm, self.problem).lr
        return replace(self, algorithm=replace(self.algorithm, lr=factor * lr))


@dataclass(frozen=True)
class LocalTheorem:
    """E[rate^-T |x - x*|^2] <= first for the number T of local steps until a communication, which the seed decides."""

    problem: t.Problem
    algorithm: t.Algorithm
    first: float
    rate: float

    def check(self, rounds: int, seeds: int, every: int = 1, fall: float = 2.0, allowed: float = 5.0) -> float:
        """Require the mean over seeds in each row to be at most 1 and `allowed` standard errors, and each distance to fall.

        Returns the largest mean after the start.
        """
        rows, errors = play(self.problem, self.algorithm, "distance", rounds, seeds, every)
        steps = steps_of(self.problem.clients, bind(self.algorithm, self.problem).probability, rounds, seeds)
        ratios = errors / self.rate ** steps[:, rows] / self.first
        assert np.all(np.mean(ratios, axis=0) <= 1 + allowed * np.std(ratios, axis=0) / np.sqrt(seeds) + 1e-9)
        assert np.all(errors[:, -1] < errors[:, 0] / fall)
        return float(np.max(np.mean(ratios, axis=0)[1:]))

    def check_long(self, seeds: int, most: int) -> float:
        """`check` until the bound is a hundredth of the first on average, or for about `most` rounds."""
        p = float(bind(self.algorithm, self.problem).probability)
        every = int(np.ceil(min(most, p * np.log(0.01) / np.log(self.rate)) / ROWS))
        return self.check(ROWS * every, seeds, every)


def steps_of(clients: int, probability: float, rounds: int, seeds: int) -> np.ndarray:
    """T [seeds, 1 + rounds] after 0, 1, ... rounds of an algorithm whose communications come by a coin."""

    def drawn(number, seed):
        return jax.random.geometric(jax.random.fold_in(Seeds.of(seed).exchange(number, 0), clients), probability)

    of_rounds = jax.vmap(drawn, (0, None))
    each = [of_rounds(np.arange(1, rounds + 1), seed) for seed in range(seeds)]
    return np.cumsum(np.pad(np.asarray(each, float), ((0, 0), (1, 0))), axis=1)
