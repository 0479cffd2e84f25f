"""K-Vib's examples 3.1 and 3.2: how far estimates of a sum are off, exactly, with draws of either kind."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

VECTORS = np.array([[2**0.5 / 2, 2**0.5 / 2], [1, -(2 * 2**0.5)], [2 * 7**0.5, 2 * 2**0.5]])
"""Example 3.2: their lengths are 1, 3 and 6, which the paper prints as squared lengths."""

INDEPENDENT = (Fraction(1, 4), Fraction(3, 4), Fraction(1))
REPLACEMENT = (Fraction(1, 10), Fraction(3, 10), Fraction(6, 10))
BUDGET = 2


@dataclass(frozen=True)
class Estimate:
    """One estimate that a draw of `drawn` gives, with its probability."""

    drawn: tuple[int, ...]
    probability: Fraction
    value: np.ndarray


def independent(p: tuple[Fraction, ...], vectors: np.ndarray) -> list[Estimate]:
    """Return sum_{i in S} g_i / p_i for each set S that independent coins with chances p can give."""
    found = []
    for coins in product((False, True), repeat=len(p)):
        chance = prod((q if coin else 1 - q for coin, q in zip(coins, p, strict=True)), start=Fraction(1))
        drawn = tuple(i for i, coin in enumerate(coins) if coin)
        if chance:
            found.append(Estimate(drawn, chance, sum((vectors[i] / float(p[i]) for i in drawn), np.zeros(vectors.shape[1]))))
    return found


def replacement(q: tuple[Fraction, ...], draws: int, vectors: np.ndarray) -> list[Estimate]:
    """Return (1/K) sum_k g_{i_k} / q_{i_k} for each outcome of K = `draws` draws with chances q, whatever their order."""
    found: dict[tuple[int, ...], Fraction] = {}
    for order in product(range(len(q)), repeat=draws):
        drawn = tuple(sorted(order))
        found[drawn] = found.get(drawn, Fraction(0)) + prod((q[i] for i in order), start=Fraction(1))
    return [
        Estimate(drawn, chance, sum((vectors[i] / float(q[i]) for i in drawn), np.zeros(vectors.shape[1])) / draws)
        for drawn, chance in found.items()
    ]


def mean(estimates: list[Estimate]) -> np.ndarray:
    """Return the mean of the estimates."""
    return sum((float(each.probability) * each.value for each in estimates), np.zeros_like(estimates[0].value))


def variance(estimates: list[Estimate]) -> float:
    """Return the mean squared distance of the estimates to their mean."""
    centre = mean(estimates)
    return sum(float(each.probability) * float(np.sum((each.value - centre) ** 2)) for each in estimates)


def of_size(estimates: list[Estimate], size: int) -> Fraction:
    """Return the probability that `size` different clients are drawn."""
    return sum((each.probability for each in estimates if len(set(each.drawn)) == size), Fraction(0))


def everyone(q: tuple[Fraction, ...], vectors: np.ndarray) -> np.ndarray:
    """Return sum_i g_i / (N q_i): what all N clients, each drawn once with chances q, would add up to."""
    return sum((g / (len(q) * float(chance)) for g, chance in zip(vectors, q, strict=True)), np.zeros(vectors.shape[1]))


def vectors_at_random(seed: int = 0, count: int = 100, width: int = 1000) -> np.ndarray:
    """Return the vectors of example 3.1 [count, width]: normal entries, log-normal lengths; the paper does not say."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(count, width)) * np.exp(generator.normal(size=(count, 1))) / width**0.5
