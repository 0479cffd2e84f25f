"""The epsilon of Gaussian releases, by dp-accounting."""

from collections.abc import Mapping
from math import sqrt
from typing import Any, NamedTuple

from turnout.core.errors import UserError

STEP = 1e-4
"""Step of the grid of privacy losses; a coarser one bounds epsilon from above too, less tightly."""

POINTS = 100_000
"""Points of this grid up to the epsilon without sampling: a larger epsilon gets a coarser grid."""


class Release(NamedTuple):
    """A sum or a reply that is published with Gaussian noise.

    Args:
        multiplier: Standard deviation of the noise over the distance between two neighbouring sums.
        sampled: How the clients of the sum were drawn, if nobody knows them: each with at most this probability, or K of n
            without replacement, as (n, K). None: their draw is known, or not of these kinds.
    """

    multiplier: float
    sampled: float | tuple[int, int] | None = None


def import_dp_accounting() -> Any:
    """Return dp-accounting; `UserError` where it is not installed."""
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ModuleNotFoundError as error:
        raise UserError(f"[privacy] needs dp-accounting ({error}): pip install 'turnout[privacy]'") from None
    return dp_accounting


def epsilon_of(releases: Mapping[Release, int], delta: float) -> float:
    """Return the epsilon of all releases together.

    Gaussian releases without sampling are together one with 1 / z^2 = sum 1 / z_j^2, whose epsilon is exact (Balle and Wang,
    2018). Poisson sampling is accounted for by distributions of the privacy loss, and a fixed size by Renyi divergences.

    Args:
        releases: Numbers of releases, each at least 1.
        delta: The delta for which epsilon is told.
    """
    precision = sum(count / release.multiplier**2 for release, count in sorted(releases.items(), key=str))
    if not precision:
        return 0.0
    dp = import_dp_accounting()
    unsampled = float(dp.get_epsilon_gaussian(1 / sqrt(precision), delta))
    if not any(release.sampled for release in releases):
        return unsampled
    if any(isinstance(release.sampled, tuple) for release in releases):
        accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    else:
        # The relation of two Gaussians at a distance of one, whatever the neighbours are.
        relation = dp.NeighboringRelation.REPLACE_SPECIAL
        accountant = dp.pld.PLDAccountant(relation, value_discretization_interval=max(STEP, unsampled / POINTS))
    for release, count in releases.items():
        accountant.compose(_event(dp, release), count)
    # No sampling is worse than one that is known.
    return min(unsampled, float(accountant.get_epsilon(delta)))


def local_epsilon(replies: Mapping[float, int], delta: float) -> float:
    """Return the epsilon of one client's replies in the local model; neighbours differ in the client's data.

    Args:
        replies: The number of replies by the noise multiplier.
        delta: The delta for which epsilon is told.
    """
    # Two clipped replies differ by at most twice the clipping norm.
    return epsilon_of({Release(multiplier / 2): count for multiplier, count in replies.items()}, delta)


def _event(dp, release: Release):
    event = dp.GaussianDpEvent(release.multiplier)
    if release.sampled is None:
        return event
    if isinstance(release.sampled, tuple):
        return dp.SampledWithoutReplacementDpEvent(*release.sampled, event)
    return dp.PoissonSampledDpEvent(release.sampled, event)
