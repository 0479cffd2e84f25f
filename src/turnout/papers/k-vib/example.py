"""K-Vib's example 3.2: three vectors, of which about two are drawn, independently or with replacement."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

VECTORS = np.array([[2**0.5 / 2, 2**0.5 / 2], [1, -(2 * 2**0.5)], [2 * 7**0.5, 2 * 2**0.5]])
"""Their lengths are 1, 3 and 6, which the paper prints as squared lengths."""

P = Fraction(1, 4), Fraction(3, 4), Fraction(1)
Q = Fraction(1, 10), Fraction(3, 10), Fraction(6, 10)

Outcomes = list[tuple[Fraction, np.ndarray]]
"""The chance of each outcome of a draw, and the factor of each vector in its estimate of the sum."""


def independent(p: Sequence[Fraction]) -> Outcomes:
    """Return the outcomes of coins with chances p."""
    coins = [np.array(one) for one in product((0, 1), repeat=len(p))]
    chances = [prod(q if coin else 1 - q for coin, q in zip(one, p, strict=True)) for one in coins]
    return [(Fraction(chance), one / np.array(p, float)) for chance, one in zip(chances, coins, strict=True)]


def replacement(q: Sequence[Fraction], draws: int) -> Outcomes:
    """Return the outcomes of draws with chances q."""
    orders = product(range(len(q)), repeat=draws)
    return [
        (prod((q[i] for i in one), start=Fraction(1)), np.bincount(one, minlength=len(q)) / np.array(q, float) / draws)
        for one in orders
    ]


def variance(outcomes: Outcomes) -> float:
    """Return the variance of the estimates of the sum, which are unbiased."""
    return sum(float(chance) * float(np.sum(((factors - 1) @ VECTORS) ** 2)) for chance, factors in outcomes)


def sentences() -> list[str]:
    """Say in numbers what the example shows, and where they differ from the paper's."""
    coins = independent(P)
    three, one = (sum(chance for chance, factors in coins if np.count_nonzero(factors) == size) for size in (3, 1))
    whole = (1 / (3 * np.array(Q, float))) @ VECTORS
    off = float(np.linalg.norm(whole - VECTORS.sum(axis=0)))
    return [
        f"Example 3.2, by enumeration: independent draws with p = (1/4, 3/4, 1) have variance {variance(coins):.3g} and take "
        f"three clients with probability {three} and one with {one}; two draws with replacement, q = (0.1, 0.3, 0.6), have "
        f"variance {variance(replacement(Q, 2)):.3g}. The printed (1, 3, 6) are lengths, not their squares.",
        f"There, all three clients, each drawn once with q, give ({whole[0]:.1f}, {whole[1]:.1f}), at a distance of {off:.3g} "
        "from the sum; the paper prints (6.4, 5.9), and 0.6 as the squared distance.",
    ]
