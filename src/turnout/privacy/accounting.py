"""The epsilon of Gaussian releases, by the RDP accountant of dp-accounting."""

from collections.abc import Mapping
from typing import Any

from turnout.core.errors import UserError


def import_dp_accounting() -> Any:
    """Return dp-accounting; `UserError` where it is not installed."""
    try:
        import dp_accounting
        import dp_accounting.rdp
    except ModuleNotFoundError as error:
        raise UserError(f"[privacy] needs dp-accounting ({error}): pip install 'turnout[privacy]'") from None
    return dp_accounting


def local_epsilon(releases: Mapping[float, int], delta: float) -> float:
    """Return the epsilon of one client's replies in the local model; neighbours differ in the client's data.

    Args:
        releases: The number of replies by the noise multiplier.
        delta: The delta for which epsilon is told.
    """
    dp = import_dp_accounting()
    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    for multiplier, count in sorted(releases.items()):
        # Two clipped replies differ by at most twice the clipping norm.
        accountant.compose(dp.GaussianDpEvent(multiplier / 2), count)
    return float(accountant.get_epsilon(delta)) if releases else 0.0
