"""The bounds of K-Vib (Zeng et al., 2023), as functions of floats and NumPy arrays.

N clients take part independently with p_i <= 1, sum_i p_i = K. The feedback is pi_t(i) = lambda_i |g_i^t| <= G, and the loss of
round t is l_t(p) = sum_i pi_t(i)^2 / p_i. The static regret is sum_t l_t(p^t) - min_p sum_t l_t(p).
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from turnout.core.errors import UserError
from turnout.problems.base import Problem
from turnout.samplers import Independent, Sampler
from turnout.samplers.probabilities import KVib
from turnout.samplers.probabilities.waterfilling import capped
from turnout.theory.dissimilarity import gradients_at
from turnout.theory.selection_costs import at_start as gap_and_zeta


def mixing(rounds: float, clients: float, size: float) -> float:
    """Return theta = min(1, (N / (T K))^(1/3)), the weight of the uniform distribution (K-Vib, Theorem 5.2).

    Args:
        rounds: T.
        clients: N.
        size: K.
    """
    return min(1.0, (clients / (rounds * size)) ** (1 / 3))


def least_loss(feedback: Float[np.ndarray, " n"], size: float) -> float:
    """Return min_p sum_i v_i^2 / p_i over p_i <= 1, sum_i p_i = K; (sum_i v_i)^2 / K where no p_i reaches 1 (equation (4)).

    Args:
        feedback: v_i >= 0 [n].
        size: K.
    """
    with jax.enable_x64(True):
        p = np.asarray(capped(jnp.asarray(feedback, float), jnp.asarray(size, float)))
    return float(np.sum(np.divide(feedback**2, p, out=np.zeros(len(p)), where=feedback > 0)))


def theorem_5_1(limits: Float[np.ndarray, " n"], deviations: Float[np.ndarray, " n"], rounds: float, size: float) -> float:
    """Return the bound on T_BFP = min_p sum_t l_t(p) - sum_t min_p l_t(p), the price of one p for all rounds.

    T_BFP <= T |s| (2 |pi_*| + |s|) with s_i = sqrt(V_T(i) / T) and |v|^2 = `least_loss` of v (K-Vib, Theorem 5.1). Where no p_i
    reaches 1, |v| is sum_i v_i / sqrt(K), as the paper writes it; its proof leaves the cap out. Each pi_*(i) is at most the mean
    of pi_t(i) over the rounds, as for feedback that falls to its limit.

    Args:
        limits: pi_*(i) [n], the limits of the feedback.
        deviations: V_T(i) = sum_t (pi_t(i) - pi_*(i))^2 [n].
        rounds: T.
        size: K.
    """
    spread, limit = (math.sqrt(least_loss(v, size)) for v in (np.sqrt(deviations / rounds), limits))
    return rounds * spread * (2 * limit + spread)


def theorem_5_2(
    bound: float, rounds: float, clients: float, size: float, theta: float | None = None, uncapped: float | None = None
) -> float:
    """Return the bound on the expected static regret of K-Vib with gamma = G^2 N / (K theta), in the unit of G^2.

    G^2 N^2 (theta T / K + (22 / z + 2 sqrt(6) / K) sqrt(N T / (theta K)) + 22 / (z theta K)) (K-Vib, Theorem 5.2: equations (53)
    and (54) without their division by N^2). It is about feedback that does not depend on the draws; for other feedback the paper
    adds a logarithmic factor.

    Args:
        bound: G, an upper bound on all pi_t(i).
        rounds: T.
        clients: N.
        size: K.
        theta: Weight of the uniform distribution; None for the paper's.
        uncapped: z, the least K - |{i: p_i = 1}| of a round; None for K, which is so while no p_i reaches 1.

    Raises:
        UserError: If T K < N, where theta would be above 1.
    """
    if rounds * size < clients:
        raise UserError(
            f"Theorem 5.2 of K-Vib needs T K >= N, but {rounds:g} times {size:g} is less than {clients:g}: raise rounds or size"
        )
    theta = mixing(rounds, clients, size) if theta is None else theta
    z = size if uncapped is None else uncapped
    stability = (22 / z + 2 * math.sqrt(6) / size) * math.sqrt(clients * rounds / (theta * size))
    return (bound * clients) ** 2 * (theta * rounds / size + stability + 22 / (z * theta * size))


def utility(clients: float, size: float, largest_weight: float) -> tuple[float, float]:
    """Return the interval [N W, N W + (N - K) W / K] that the gamma^t of Theorem 4.1 are in (K-Vib, below equation (7)).

    Args:
        clients: N.
        size: K.
        largest_weight: W, the largest lambda_i.
    """
    return clients * largest_weight, (clients + (clients - size) / size) * largest_weight


def theorem_4_1(
    rounds: float, gap: float, smoothness: float, variance: float, quality: float, beta_2: float, rho=1 / 32
) -> float:
    """Return the bound on min_t E|grad f(x^t)|^2 of federated averaging with an unbiased sampler and the best step size.

    rho min <= sqrt(2 M (4 beta_1 + 5 L sigma^2) / T) + (5 sigma^2 beta_2)^(1/3) (2 M / T)^(2/3) + 16 M L / T (K-Vib, Theorem 4.1,
    with the constants of its proof; the last one is that of Lemma B.5 for steps up to 1 / (8 L), where the paper has 2).

    Args:
        rounds: T.
        gap: M >= f(x^0) - f*.
        smoothness: L >= L_i.
        variance: sigma^2 = sigma_l^2 / R + sigma_g^2, of stochastic gradients in R local steps, and among the clients.
        quality: beta_1, the mean over the rounds of Q(S^t); the dynamic regret over T bounds it.
        beta_2: The mean over the rounds of gamma^t, in the interval `utility`.
        rho: min_t (1 - 10 gamma^t eta^2) / 16, positive; 1/32 if eta^2 <= 1 / (20 gamma^t).
    """
    share = gap / rounds
    stochastic = math.sqrt(2 * share * (4 * quality + 5 * smoothness * variance))
    drift = (5 * variance * beta_2) ** (1 / 3) * (2 * share) ** (2 / 3)
    return (stochastic + drift + 16 * smoothness * share) / rho


class AtStart(NamedTuple):
    """Constants of a problem, the last two at x^0.

    Args:
        gap: M = f(x^0) - f*.
        smoothness: L, the largest L_i.
        variance: sigma_g^2 = sum_i lambda_i |grad f_i(x^0) - grad f(x^0)|^2.
        feedback: G, the largest lambda_i |grad f_i(x^0)|.
    """

    gap: float
    smoothness: float
    variance: float
    feedback: float


@dataclass(frozen=True)
class RegretBounds:
    """What K-Vib's theorems say of T rounds with feedback of at most G; regrets are in the unit of G^2.

    Theorem 5.1 is taken for feedback with |pi_t(i) - pi_*(i)| <= G / sqrt(t) (Assumption 5.1) and pi_*(i) <= G, and Theorem 4.1
    for exact gradients as feedback, beta_1 from the other two theorems, and the largest beta_2.

    Args:
        rounds: T.
        clients: N.
        size: K.
        theta: Weight of the uniform distribution.
        largest_weight: The largest lambda_i.
        start: Constants of the problem; None where they are not known.
    """

    rounds: int
    clients: int
    size: float
    theta: float
    largest_weight: float
    start: AtStart | None

    def facts(self) -> dict[str, float]:
        """Return the entries of a file."""
        problem = (1.0, self.rounds, self.clients, self.size, self.theta)
        # At most ceil(K) - 1 clients have p_i = 1.
        capped = theorem_5_2(*problem, uncapped=self.size - math.ceil(self.size) + 1)
        ones, harmonic = np.ones(self.clients), float(np.sum(1 / np.arange(1, self.rounds + 1)))
        hindsight = theorem_5_1(ones, ones * harmonic, self.rounds, self.size)
        facts = {"rounds": self.rounds, "clients": self.clients, "size": self.size, "theta": self.theta}
        facts |= {"static_regret": theorem_5_2(*problem), "static_regret_capped": capped, "hindsight": hindsight}
        if self.start is None:
            return facts
        gap, smoothness, variance, feedback = self.start
        quality = (capped + hindsight) * feedback**2 / self.rounds
        beta_2 = utility(self.clients, self.size, self.largest_weight)[1]
        gradient = theorem_4_1(self.rounds, gap, smoothness, variance, quality, beta_2)
        return {**facts, **self.start._asdict(), "gradient": gradient}

    def curves(self, points: int) -> dict[str, np.ndarray]:
        """Return "rounds", at most `points` numbers from N / K to T, and the bounds of `facts` for each with the paper's theta.

        "uniform" is N^2 T / K, the largest loss of uniform draws.

        Args:
            points: The most numbers of rounds.
        """
        rounds = np.unique(np.linspace(math.ceil(self.clients / self.size), self.rounds, points).round())
        each = [replace(self, rounds=int(t), theta=mixing(t, self.clients, self.size)).facts() for t in rounds]
        names = ("static_regret", "static_regret_capped", "hindsight", *(() if self.start is None else ("gradient",)))
        bounds = {name: np.array([facts[name] for facts in each]) for name in names}
        return {"rounds": rounds, **bounds, "uniform": self.clients**2 * rounds / self.size}


def regret_bounds(sampler: Sampler, problem: Problem, rounds: int, start: PyTree) -> RegretBounds:
    """Return K-Vib's bounds for `rounds` rounds from the parameters `start`.

    Args:
        sampler: Sampler that is bound to `problem`.
        problem: The problem.
        rounds: T.
        start: x^0.

    Raises:
        UserError: If the sampler is not `Independent` with the rule `KVib`, or T K < N.
    """
    if not (isinstance(sampler, Independent) and isinstance(sampler.probability, KVib)):
        raise UserError("the theorems of K-Vib are about the sampler 'independent' with the probability 'k-vib': take these")
    n, size = problem.clients, float(sampler.size or 0)
    with jax.enable_x64(True):
        theta = float(sampler.probability.theta(size, problem.population))
    found = RegretBounds(rounds, n, size, theta, float(problem.population.lambdas.max()), at_start(problem, start))
    found.facts()
    return found


def at_start(problem: Problem, start: PyTree) -> AtStart | None:
    """Return the constants of Theorem 4.1, or None where the L_i are not known.

    Args:
        problem: The problem.
        start: x^0.
    """
    constants, weights = problem.constants(), problem.population.lambdas
    if constants is None:
        return None
    with jax.enable_x64(True):
        ((_, gradients),) = gradients_at(problem, [start])
    norms, spread = np.linalg.norm(gradients, axis=1), np.linalg.norm(gradients - weights @ gradients, axis=1)
    gap = gap_and_zeta(problem, start)[0]
    return AtStart(gap, float(np.max(constants.smoothness)), float(weights @ spread**2), float(np.max(weights * norms)))
