"""Rules of the large-scale sampler: how clients are scored, mixed and drawn, and what their feedback changes."""

from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from turnout.core.errors import UserError
from turnout.core.records import Count, Positive, Share, config
from turnout.samplers.large_scale.buckets import MAX_SCORE, Buckets
from turnout.samplers.large_scale.probabilities import probabilities_of
from turnout.samplers.large_scale.update import accumulate, set_values


class Observation(NamedTuple):
    """One round's feedback pi_i = lambda_i |g_i| [k] of the drawn clients `ids` [k], and the sampler that drew them.

    Args:
        buckets: The clients in buckets.
        size: K.
        theta: Weight of the uniform distribution.
        weights: Weights of the clients [n]; None without.
        ids: Ids of the drawn clients that replied [k].
        feedback: pi_i = lambda_i |g_i| [k].
    """

    buckets: Buckets
    size: int
    theta: float
    weights: Float[np.ndarray, " n"] | None
    ids: Int[np.ndarray, " k"]
    feedback: Float[np.ndarray, " k"]


class Rule:
    """Base class: scores a_i >= 0, mixed with the uniform distribution by a weight theta."""

    square_root: ClassVar[bool] = False
    """Whether the stored value is a_i^2 - 1 instead of a_i."""

    needs_weights: ClassVar[bool | None] = False
    """Whether the clients' weights are required (True), refused (False) or optional (None)."""

    mixes_before_cap: ClassVar[bool] = False
    """Whether scores are mixed with their mean before the cap, instead of probabilities after the cap."""

    replacement: ClassVar[bool] = False
    """Whether K clients are drawn with replacement, instead of each client independently."""

    def theta(self, size: int, clients: int) -> float:
        """Return the weight of the uniform distribution.

        Args:
            size: K.
            clients: n.
        """
        return 0.0

    def values(self, clients: int, weights: Float[np.ndarray, " n"] | None) -> Float[np.ndarray, " n"]:
        """Return the initial values of all clients.

        Args:
            clients: n.
            weights: Weights of the clients [n]; None without.
        """
        return np.ones(clients)

    def allows(self, values: Float[np.ndarray, " n"], unit: float) -> bool:
        """Return whether this rule can produce the values and the unit of a checkpoint.

        Args:
            values: Values of all clients [n].
            unit: G, 0 while unknown.
        """
        return bool(
            0 <= unit < np.inf and np.abs(values).max() < MAX_SCORE and not (self.square_root and np.signbit(values).any())
        )

    def observe(self, observation: Observation, unit: float) -> float:
        """Update the values by a round's feedback; return the unit G, 0 while unknown. Raise `UserError` before any change.

        Args:
            observation: The feedback of a round.
            unit: G, 0 while unknown.
        """
        return unit


@config
class Uniform(Rule):
    """Equal probabilities, p_i = K / N."""


@config
class BySize(Rule):
    """Probabilities proportional to the given weights w_i, p_i = min(1, w_i / nu) with sum p = K."""

    needs_weights = True

    def values(self, clients, weights):
        return weights.copy()


@config
class Cumulative(Rule):
    """Base class: a_i = sqrt(omega_i + gamma), and omega_i <- omega_i + pi_i^2 / p_i for each draw of i, p_i after mixing.

    gamma is proportional to G^2. Only ratios of scores matter, so the stored values are omega_i / gamma, and only drawn clients
    change when G becomes known.

    Args:
        rounds: Number T of rounds of the run, from which theta follows; required unless `mixing` is given.
        bound: G, the size of pi_i; None takes the mean feedback of the first cohort where it is not 0.
        mixing: theta, instead of the paper's value.
    """

    rounds: Count | None = None
    bound: Positive | None = None
    mixing: Share | None = None
    square_root = True

    def theta(self, size, clients):
        if self.mixing is not None:
            return self.mixing
        if self.rounds is None:
            raise UserError(f"{type(self).__name__} needs the number of rounds: give rounds or mixing")
        return self.default_theta(size, clients, self.rounds)

    def default_theta(self, size: int, clients: int, rounds: int) -> float:
        """Return the paper's theta.

        Args:
            size: K.
            clients: n.
            rounds: T.
        """
        raise UserError(f"{type(self).__name__} has no default_theta(self, size, clients, rounds): write one")

    def values(self, clients, weights):
        return np.zeros(clients)

    def observe(self, observation, unit):
        unit = self.bound or unit or float(np.mean(observation.feedback))
        draws = 1 if self.replacement else observation.size
        weight = draws * (observation.theta or 1.0) / observation.buckets.client.size
        if unit and not accumulate(observation.buckets, observation.ids, observation.feedback, unit, weight):
            raise UserError(
                f"feedback up to {observation.feedback.max():g} is too large beside G = {unit:g}: check it, or give bound"
            )
        return unit


@config
class KVib(Cumulative):
    """K-Vib: p_i = (1 - theta) min(1, a_i / nu) + theta K / N, independent draws (Zeng et al., 2023, Algorithm 2, Lemma 5.1).

    a_i = sqrt(omega_i + gamma), omega_i <- omega_i + pi_i^2 / p_i for drawn i; theta = min(1, (N / (T K))^(1/3)) and
    gamma = G^2 N / (K theta) (Theorem 5.2), with 1 for theta = 0 in gamma.

    Args:
        rounds: Number T of rounds of the run, from which theta follows; required unless `mixing` is given.
        bound: G, the size of pi_i; None takes the mean feedback of the first cohort where it is not 0.
        mixing: theta, instead of the paper's value.
    """

    def default_theta(self, size, clients, rounds):
        return min(1.0, (clients / (rounds * size)) ** (1 / 3))


@config
class Vrb(Cumulative):
    """VRB: q_i = (1 - theta) a_i / sum_j a_j + theta / N, K draws with replacement (Borsos et al., 2018).

    a_i = sqrt(omega_i + gamma), omega_i <- omega_i + pi_i^2 / q_i for each draw of i; theta = (N / T)^(1/3), or 0.3 if N > T, and
    gamma = G^2 N / theta.

    Args:
        rounds: Number T of rounds of the run, from which theta follows; required unless `mixing` is given.
        bound: G, the size of pi_i; None takes the mean feedback of the first cohort where it is not 0.
        mixing: theta, instead of the paper's value.
    """

    replacement = True

    def default_theta(self, size, clients, rounds):
        return (clients / rounds) ** (1 / 3) if clients <= rounds else 0.3


@config
class LastNorm(Rule):
    """Last norm: p_i = min(1, t_i / nu), t_i = (1 - theta) a_i + theta mean(a), a_i the last feedback lambda_i |g_i| of client i.

    A client without feedback has a_i = lambda_i g, with lambda_i = w_i / sum_j w_j, or 1 / N without weights. g is the mean |g_i|
    of the first cohort where it is not 0; then g <- 0.9 g + 0.1 times the cohort's mean |g_i| with weights lambda_i / p_i.

    Args:
        mixing: theta in [0, 1]; every p_i is at least theta K / N.
    """

    mixing: Share = 0.05
    needs_weights = None
    mixes_before_cap = True

    def theta(self, size, clients):
        return self.mixing

    def values(self, clients, weights):
        return np.full(clients, -1.0 / clients) if weights is None else -weights

    def observe(self, observation, unit):
        p = probabilities_of(observation.buckets, observation.ids)
        clients, weights, ids = observation.buckets.client.size, observation.weights, observation.ids
        share = np.full(p.size, 1.0 / clients) if weights is None else weights[ids]
        usable, norm = share > 0, unit
        if usable.any():
            # The first average is unweighted.
            weight = share[usable] / p[usable] if unit else np.ones(usable.sum())
            with np.errstate(over="ignore"):
                norm = float(np.average(observation.feedback[usable] / share[usable], weights=weight))
        if not norm < MAX_SCORE:
            raise UserError(f"feedback up to {observation.feedback.max():g} is too large beside the clients' weights: check it")
        set_values(observation.buckets, observation.ids, observation.feedback)
        return 0.9 * unit + 0.1 * norm if unit else norm
