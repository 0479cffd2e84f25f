"""What a round of K-Vib costs with an index of scores; `python -m benchmarks.index --largest` shows 10^8 clients."""

import argparse
import math
import resource
import time
from statistics import median

import numpy as np

from benchmarks.timing import SEED, Line, alternate, ratio, seconds
from turnout.samplers.score_index.index import ScoreIndex

COHORT, THETA = 100, 0.1
SIZES = (10**4, 10**5, 10**6, 10**7)
ROUNDS, DENSE_ROUNDS = 1000, 10
COMPARED, LARGEST = 10**6, 10**8
SETTINGS = {"cohort": COHORT, "rounds": ROUNDS, "rounds, dense": DENSE_ROUNDS, "seeds": [SEED]}


def measure() -> list[Line]:
    """Return the spread of the costs over population sizes, the gain over a dense sampler, the memory and the agreement."""
    plays = {n: Play(Indexed(n)) for n in SIZES}
    dense = Play(Dense(COMPARED))
    timed = {str(n): timer(play, ROUNDS) for n, play in plays.items()}
    taken = alternate({**timed, "dense": timer(dense, DENSE_ROUNDS)})
    each = {name: median(times) / (DENSE_ROUNDS if name == "dense" else ROUNDS) * 1e6 for name, times in taken.items()}
    costs = [each[str(n)] for n in SIZES]
    gain = ratio(taken, "dense", str(COMPARED)) * ROUNDS / DENSE_ROUNDS
    return [
        Line("index", "slowest over fastest round of 10^4 to 10^7 clients", max(costs) / min(costs), 8.0, settings=SETTINGS,
             note=" / ".join(f"{cost:.0f}" for cost in costs) + " microseconds a round", timings=taken),
        Line("index", "a dense round over an index's, of 10^6 clients", gain, 150.0, at_least=True, settings=SETTINGS,
             note=f"{each['dense'] / 1e3:.1f} milliseconds against {each[str(COMPARED)]:.0f} microseconds", timings=taken),
        Line("index", "memory for a client, of 10^7 clients", held(plays[SIZES[-1]].sampler) / SIZES[-1], 24.0, unit="bytes"),
        Line("index", "largest relative difference of a probability from the dense one", difference(), 1e-12, unit="",
             note="10^6 clients, 200 rounds with the same feedback"),
    ]  # fmt: skip


class Dense:
    """K-Vib by array operations over all clients: thresholds are searched without sorting, scores are kept, buffers reused."""

    def __init__(self, clients: int):
        self.theta = THETA
        self.omega, self.scores, self.gamma = np.zeros(clients), np.ones(clients), None
        self.p, self.coins, self.heads = np.empty(clients), np.empty(clients), np.empty(clients, bool)
        self.renew()

    def renew(self):
        """p = (1 - theta) min(1, a / nu) + theta K / N; nu grows until whoever exceeds it is capped."""
        a, total, capped = self.scores, self.scores.sum(), 0
        nu = total / COHORT
        if a.max() > nu:
            while (count := np.count_nonzero(above := a > nu)) > capped:
                capped, nu = count, (total - a[above].sum()) / (COHORT - count)
        np.multiply(a, (1 - self.theta) / nu, out=self.p)
        if capped:
            np.minimum(self.p, 1 - self.theta, out=self.p)
        self.p += self.theta * COHORT / a.size

    def draw(self, generator):
        generator.random(out=self.coins)
        ids = np.flatnonzero(np.less(self.coins, self.p, out=self.heads))
        return ids, self.p[ids]

    def observe(self, ids, feedback):
        if self.gamma is None:
            self.gamma = feedback.mean() ** 2 * self.p.size / (COHORT * self.theta)
            self.scores[:] = math.sqrt(self.gamma)
        self.omega[ids] += feedback**2 / self.p[ids]
        self.scores[ids] = np.sqrt(self.omega[ids] + self.gamma)
        self.renew()


class Indexed:
    """K-Vib over an index, as `turnout.samplers.indexed` computes it inside of a program."""

    def __init__(self, clients: int):
        self.gamma, self.unit = clients / (COHORT * THETA), 0.0
        first = np.full(clients, math.sqrt(self.gamma))
        self.index = ScoreIndex(first, COHORT, THETA, mixes_before_cap=False, replacement=False)

    def draw(self, generator):
        ids, self.p = self.index.draw(generator)
        return ids, self.p

    def observe(self, ids, feedback):
        self.unit = self.unit or float(feedback.mean())
        gains = (feedback / self.unit) ** 2 / self.p
        self.index.set(ids, np.sqrt(self.index.scores(ids) ** 2 + gains), self.unit)


class Play:
    """A sampler with clients whose feedback stays the same; it depends on their number modulo 1000, to need little memory."""

    def __init__(self, sampler):
        self.sampler, self.generator = sampler, np.random.default_rng(SEED)
        self.feedback = np.random.default_rng(SEED).lognormal(0, 1.5, 1000)

    def round(self):
        ids, _ = self.sampler.draw(self.generator)
        self.sampler.observe(ids, self.feedback[ids % 1000])


def timer(play: Play, rounds: int):
    """Return a function that gives the seconds of some rounds: a draw, feedback, new probabilities."""
    return lambda: seconds(lambda: [play.round() for _ in range(rounds)])


def held(sampler: "Indexed") -> int:
    """Return the bytes of an index."""
    return sampler.index.nbytes


def difference() -> float:
    """Return the largest relative difference between the index and the dense sampler, fed the same."""
    dense, play = Dense(COMPARED), Play(Indexed(COMPARED))
    for _ in range(200):
        ids, _ = play.sampler.draw(play.generator)
        for sampler in (dense, play.sampler):
            sampler.observe(ids, play.feedback[ids % 1000])
    return float(np.max(np.abs(play.sampler.index.probabilities(np.arange(COMPARED)) / dense.p - 1)))


def largest() -> None:
    """Print what the index of 10^8 clients takes."""
    Play(Indexed(1000)).round()
    before, began = peak(), time.perf_counter()
    play = Play(Indexed(LARGEST))
    built = time.perf_counter() - began
    each = median(seconds(play.round) for _ in range(5 * ROUNDS)) * 1e6
    print(f"{LARGEST:.0e} clients: built in {built:.1f} s, {each:.0f} microseconds a round (median of {5 * ROUNDS}),")
    print(f"{held(play.sampler) / LARGEST:.1f} bytes a client, peak {peak():.2f} GB, {peak() - before:.2f} GB of it the index")


def peak() -> float:
    """Return the most memory that this process has held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index", description="Measure the index of 10^8 clients.")
    parser.add_argument("--largest", action="store_true", required=True, help="needs 2.5 GB")
    parser.parse_args()
    largest()
