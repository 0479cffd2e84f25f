"""Distributions of a device's speed over the clients."""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.core.records import NonNegative, Positive, Share, config


class Spread(ABC):
    """How a number differs from client to client.

    Examples:
        >>> import turnout as t
        >>> isinstance(t.devices.LogNormal(median=0.1, sigma=1.0), t.devices.Spread)
        True
    """

    @abstractmethod
    def draw(self, random: np.random.Generator, n: int) -> Float[np.ndarray, " n"]:
        """Return the numbers of n clients.

        Args:
            random: Source of randomness.
            n: Number of clients.
        """


@config
class LogNormal(Spread):
    """Client i has median exp(sigma z_i), z_i ~ N(0, 1).

    Args:
        median: The median, > 0.
        sigma: Standard deviation of the logarithm, >= 0.

    Examples:
        >>> import numpy as np, turnout as t
        >>> t.devices.LogNormal(0.1, sigma=0.0).draw(np.random.default_rng(0), 3)
        array([0.1, 0.1, 0.1])
    """

    median: Positive
    sigma: NonNegative = 1.0

    def draw(self, random, n):
        return self.median * np.exp(self.sigma * random.standard_normal(n))


@config
class Classes(Spread):
    """The k-th of the values for a share s_k of the clients, who are drawn: n s_k of them, rounded by largest remainders.

    Args:
        values: The values, >= 0.
        shares: The share of each, >= 0; they sum to one.

    Raises:
        UserError: If there are not as many shares as values, or these do not sum to one.

    Examples:
        >>> import numpy as np, turnout as t
        >>> sorted(t.devices.Classes([1.0, 5.0], shares=[0.75, 0.25]).draw(np.random.default_rng(0), 4).tolist())
        [1.0, 1.0, 1.0, 5.0]
    """

    values: list[NonNegative]
    shares: list[Share]

    def __post_init__(self):
        if len(self.values) != len(self.shares) or not self.values:
            raise UserError(
                f"classes need a share for each value, but there are {len(self.values)} values and {len(self.shares)} shares"
            )
        if abs(sum(self.shares) - 1) > 1e-9:
            raise UserError(f"shares of classes sum to one, but these sum to {sum(self.shares):g}: correct them")

    def draw(self, random, n):
        exact = n * np.asarray(self.shares)
        counts = np.floor(exact + 1e-9).astype(int)
        largest = np.argsort(counts - exact, kind="stable")[: n - counts.sum()]
        counts[largest] += 1
        return random.permutation(np.repeat(np.asarray(self.values, float), counts))
