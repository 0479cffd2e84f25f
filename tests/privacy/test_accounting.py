"""Epsilon against own calculations: exact for Gaussians, by convolution for Poisson sampling, by enumeration for lost replies."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from tests.helpers.gaussian_privacy import gaussian_epsilon
from turnout.privacy.accounting import Release, epsilon_of, local_epsilon

dp = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'turnout[privacy]'")

DELTA = 1e-5


def poisson_epsilon(probability: float, deviation: float, count: int) -> float:
    """The worse of both directions: the loss of one release, divided between points of a grid, and its sum by convolution."""

    def direction(reverse: bool) -> float:
        edges = np.linspace(-12 * deviation, 1 + 12 * deviation, 100_001)
        middle = (edges[1:] + edges[:-1]) / 2
        ratio = np.log1p(probability * np.expm1((middle - 0.5) / deviation**2))
        absent, present = (np.diff(norm.cdf(edges, centre, deviation)) for centre in (0.0, 1.0))
        mass = absent if reverse else (1 - probability) * absent + probability * present
        loss, step = -ratio if reverse else ratio, 1e-3
        number = np.floor(loss / step).astype(int)
        low, above = number.min(), loss / step - number
        points = number.max() - low + 2
        one = np.bincount(number - low, mass * (1 - above), points) + np.bincount(number - low + 1, mass * above, points)
        size = count * (one.size - 1) + 1
        total = np.clip(np.fft.irfft(np.fft.rfft(one, size) ** count, size), 0, None)
        losses = (np.arange(size) + count * low) * step

        def excess(epsilon):
            return np.sum(total * -np.expm1(np.minimum(epsilon - losses, 0))) - DELTA

        return brentq(excess, 0, losses[-1]) if excess(0) > 0 else 0.0

    return max(direction(False), direction(True))


@pytest.mark.longer
@given(st.lists(st.tuples(st.floats(0.3, 20), st.integers(1, 50)), min_size=1, max_size=4))
def test_gaussians_together_are_one_gaussian(parts):
    releases = {Release(multiplier): count for multiplier, count in parts}
    precision = sum(count / release.multiplier**2 for release, count in releases.items())
    assert epsilon_of(releases, DELTA) == pytest.approx(gaussian_epsilon(precision**-0.5, DELTA), rel=1e-6, abs=1e-6)
    local = {2 * release.multiplier: count for release, count in releases.items()}
    assert local_epsilon(local, DELTA) == epsilon_of(releases, DELTA)


def test_nothing_spends_nothing():
    assert epsilon_of({}, DELTA) == local_epsilon({}, DELTA) == 0


@pytest.mark.tiers(quick=["0.02-0.9-20"], longer=["0.3333333333333333-2.0-5"])
@pytest.mark.parametrize(("probability", "multiplier", "count"), [(0.1, 1.1, 30), (1 / 3, 2.0, 5), (0.02, 0.9, 20)])
def test_poisson_sampling_is_that_of_the_convolved_losses(probability, multiplier, count):
    """And less than by Renyi divergences, by a tenth and more."""
    epsilon = epsilon_of({Release(multiplier, probability): count}, DELTA)
    assert epsilon == pytest.approx(poisson_epsilon(probability, multiplier, count), rel=0.02)
    renyi = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_SPECIAL)
    renyi.compose(dp.PoissonSampledDpEvent(probability, dp.GaussianDpEvent(multiplier)), count)
    assert epsilon < 0.95 * renyi.get_epsilon(DELTA)


@pytest.mark.longer
def test_sampling_never_costs_more_than_none():
    """Also where the bound for a fixed size is loose, and where epsilon is so large that the grid is coarse."""
    for sampled in ((6, 5), 0.9):
        for multiplier in (0.05, 5.0):
            assert epsilon_of({Release(multiplier, sampled): 40}, DELTA) <= epsilon_of({Release(multiplier): 40}, DELTA)


def mixture(replies, weights: dict[tuple[int, ...], float], grid, deviation: float) -> np.ndarray:
    """Density on a grid of the noisy sum over a random set of clients."""
    parts = (weight * norm.pdf(grid, sum(replies[i] for i in members), deviation) for members, weight in weights.items())
    return np.sum([*parts], axis=0)


@pytest.mark.longer
@pytest.mark.parametrize(
    "lost",
    [
        pytest.param((0.0, 0.0, 0.0), marks=pytest.mark.slow),
        (0.5, 0.2, 0.9),
        pytest.param((0.0, 0.9, 0.0), marks=pytest.mark.slow),
    ],
)
def test_lost_replies_never_cost_privacy(lost):
    """The sets of three clients that are drawn, and then answer, by enumeration; clients 1 and 2 reply as they please."""
    deviation, grid = 1.1, np.linspace(-15, 15, 20_001)
    coins, step = (0.3, 0.6, 0.1), grid[1] - grid[0]
    pairs = [(0, 1), (0, 2), (1, 2)]
    drawn = {
        "coins": {m: np.prod([p if i in m else 1 - p for i, p in enumerate(coins)]) for m in subsets()},
        "a fixed size": {m: 1 / 3 for m in pairs},
    }
    # Neighbours: client 0's reply is 1 or 0 for coins, 1 or -1 for a fixed size, with noise of deviation 1.1 and 2.2.
    for name, (other, spread, release) in {
        "coins": (0.0, 1.0, Release(deviation, 0.3)),
        "a fixed size": (-1.0, 2.0, Release(deviation, (3, 2))),
    }.items():
        weights: dict[tuple[int, ...], float] = {}
        for (members, chance), arrives in product(drawn[name].items(), subsets()):
            answers = np.prod([1 - q if i in arrives else q for i, q in enumerate(lost)])
            both = tuple(i for i in members if i in arrives)
            weights[both] = weights.get(both, 0) + chance * answers
        assert sum(weights.values()) == pytest.approx(1)
        spent = {delta: epsilon_of({release: 1}, delta) for delta in (1e-5, 1e-2)}
        for rest in product((-1.0, 0.4, 1.0), repeat=2):
            one, two = (mixture((own, *rest), weights, grid, spread * deviation) for own in (1.0, other))
            for delta, epsilon in spent.items():
                for first, second in ((one, two), (two, one)):
                    assert np.sum(np.clip(first - np.exp(epsilon) * second, 0, None)) * step <= delta * 1.001


def subsets() -> list[tuple[int, ...]]:
    return [tuple(i for i in range(3) if bits[i]) for bits in product((0, 1), repeat=3)]
