"""How clients are scored, mixed and drawn, and what their feedback changes."""

from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from turnout.core.errors import UserError
from turnout.core.records import Count, Positive, Share, config
from turnout.samplers.large_scale.buckets import LARGEST, Buckets
from turnout.samplers.large_scale.probabilities import chances
from turnout.samplers.large_scale.update import accumulate, replace


class Round(NamedTuple):
    """What a rule learns from: feedback pi_i = lambda_i |g_i| [k] of the drawn clients `ids` [k]."""

    buckets: Buckets
    size: int
    theta: float
    weights: Float[np.ndarray, " n"] | None
    ids: Int[np.ndarray, " k"]
    feedback: Float[np.ndarray, " k"]


class Rule:
    """Scores a_i >= 0, mixed with the uniform distribution by a weight theta."""

    root: ClassVar[bool] = False
    """Whether the index holds a_i^2 - 1 in place of a_i."""

    weighted: ClassVar[bool | None] = False
    """Whether the clients' weights are needed; None if they may be left out."""

    mixes_before_cap: ClassVar[bool] = False
    """Whether scores are mixed with their mean before they are capped, rather than probabilities after it."""

    replacement: ClassVar[bool] = False
    """Whether K clients are drawn with replacement, rather than each by a coin of its own."""

    def theta(self, size: int, clients: int) -> float:
        """Return the weight of the uniform distribution."""
        return 0.0

    def values(self, clients: int, weights: Float[np.ndarray, " n"] | None) -> Float[np.ndarray, " n"]:
        """Return the first values of all clients."""
        return np.ones(clients)

    def allows(self, values: Float[np.ndarray, " n"], unit: float) -> bool:
        """Return whether the values and the unit of a checkpoint can be of this rule."""
        return bool(0 <= unit < np.inf and np.abs(values).max() < LARGEST and not (self.root and np.signbit(values).any()))

    def learn(self, seen: Round, unit: float) -> float:
        """Change the values by a round's feedback, or raise `UserError` before; return the unit, 0 while it is unknown."""
        return unit


@config
class Uniform(Rule):
    """p_i = K / N."""


@config
class BySize(Rule):
    """p_i = min(1, w_i / nu) with the weights w_i."""

    weighted = True

    def values(self, clients, weights):
        return weights.copy()


@config
class Cumulative(Rule):
    """a_i = sqrt(omega_i + gamma), and omega_i <- omega_i + pi_i^2 / p_i for each draw of i, p_i being the mixed probability.

    gamma is G^2 times a number, G = `bound`, by default the mean feedback of the first sample where it is not 0. As only ratios
    of scores matter, values are omega_i / gamma, so that nothing but the drawn clients changes when G becomes known. `mixing`
    sets theta, which else follows from T = `rounds`.
    """

    rounds: Count | None = None
    bound: Positive | None = None
    mixing: Share | None = None
    root = True

    def theta(self, size, clients):
        if self.mixing is not None:
            return self.mixing
        if self.rounds is None:
            raise UserError(f"{type(self).__name__} needs the number of rounds: give rounds or mixing")
        return self.usual(size, clients, self.rounds)

    def usual(self, size: int, clients: int, rounds: int) -> float:
        """Return theta as the paper has it."""
        raise UserError(f"{type(self).__name__} has no usual(self, size, clients, rounds): write one")

    def values(self, clients, weights):
        return np.zeros(clients)

    def learn(self, seen, unit):
        unit = self.bound or unit or float(np.mean(seen.feedback))
        draws = 1 if self.replacement else seen.size
        weight = draws * (seen.theta or 1.0) / seen.buckets.client.size
        if unit and not accumulate(seen.buckets, seen.ids, seen.feedback, unit, weight):
            raise UserError(f"feedback up to {seen.feedback.max():g} is too large beside G = {unit:g}: check it, or give bound")
        return unit


@config
class KVib(Cumulative):
    """K-Vib: p_i = (1 - theta) min(1, a_i / nu) + theta K / N, independent coins (Algorithm 2, Lemma 5.1 with square roots).

    theta = min(1, (N / (T K))^(1/3)) and gamma = G^2 N / (K theta) (Theorem 5.2), theta = 0 counting as 1 there.
    """

    def usual(self, size, clients, rounds):
        return min(1.0, (clients / (rounds * size)) ** (1 / 3))


@config
class Vrb(Cumulative):
    """Vrb: q_i = (1 - theta) a_i / sum_j a_j + theta / N, K draws with replacement (Borsos et al., 2018).

    theta = (N / T)^(1/3), or 0.3 where N > T, and gamma = G^2 N / theta.
    """

    replacement = True

    def usual(self, size, clients, rounds):
        return (clients / rounds) ** (1 / 3) if clients <= rounds else 0.3


@config
class LastNorm(Rule):
    """p_i = min(1, t_i / nu), t_i = (1 - theta) a_i + theta mean(a), a_i the last feedback pi_i = lambda_i |g_i| of client i.

    A client without any has a_i = lambda_i g, lambda_i = w_i / sum_j w_j, or 1 / N without weights. g is the mean of |g_i|
    in the first sample where it is not 0, and then g <- 0.9 g + 0.1 times each sample's average with weights lambda_i / p_i.
    """

    mixing: Share = 0.05
    weighted = None
    mixes_before_cap = True

    def theta(self, size, clients):
        return self.mixing

    def values(self, clients, weights):
        return np.full(clients, -1.0 / clients) if weights is None else -weights

    def learn(self, seen, unit):
        p = chances(seen.buckets, seen.ids)
        share = np.full(p.size, 1.0 / seen.buckets.client.size) if seen.weights is None else seen.weights[seen.ids]
        heard, norm = share > 0, unit
        if heard.any():
            # Each |g_i| counts the same in the first average, and lambda_i / p_i times after it.
            weight = share[heard] / p[heard] if unit else np.ones(heard.sum())
            with np.errstate(over="ignore"):
                norm = float(np.average(seen.feedback[heard] / share[heard], weights=weight))
        if not norm < LARGEST:
            raise UserError(f"feedback up to {seen.feedback.max():g} is too large beside the clients' weights: check it")
        replace(seen.buckets, seen.ids, seen.feedback)
        return 0.9 * unit + 0.1 * norm if unit else norm
