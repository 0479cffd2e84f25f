"""The guarantees of Cost-aware client selection for I-CGM and its estimators, as functions of constants.

n clients of equal weight, m in a cohort, client 1 the delegate; h_i = f - f_i. `Dissimilarity` defines delta, Delta_1 and L_1;
n_m = n / m, q_m = (n - m) / (n - 1) and delta_m^2 = q_m delta^2 / m = `deviation`^2. Queries are those of the slowest client of
each exchange, summed, as in the ledger: a full pass counts 1, where section 2.1 of the paper counts ceil(n_m), one for each of
its rounds.
"""

import math
from typing import NamedTuple

from turnout.accounting.prices import Selection
from turnout.core.errors import UserError
from turnout.core.records import Count, Positive, config
from turnout.theory.dissimilarity import Dissimilarity

LARGEST = 1e30
"""Limit on constants and their inverses, so that no formula overflows."""


@config
class Case:
    """A problem, a price and the accuracy to reach. Upper bounds on the constants serve as well.

    Args:
        constants: The constants of the problem.
        clients: n.
        size: Cohort size m.
        gap: F^0 = f(x^0) - f*.
        epsilon: Accuracy E|grad f|^2 <= epsilon^2.
        price: C_A and C_R.
        heterogeneity: zeta, (1/n) sum_i |grad h_i(x)|^2 <= zeta^2 for all x; None where it is not known.

    Raises:
        UserError: If a constant is out of range.

    Examples:
        >>> from turnout.theory.dissimilarity import Dissimilarity
        >>> from turnout.theory.selection import Case, practical
        >>> case = Case(Dissimilarity(1.0, 1.0, 1.0, 4.0, 4.0, 4.0), clients=100, size=10, gap=1.0, epsilon=0.1)
        >>> practical(case).lam, case.selections
        (2.0, 10)
    """

    constants: Dissimilarity
    clients: Count
    size: Count
    gap: Positive
    epsilon: Positive
    price: Selection = Selection()
    heterogeneity: Positive | None = None

    def __post_init__(self):
        if self.size > self.clients:
            raise UserError(f"a cohort has 1 to {self.clients} clients, but size is {self.size}")
        given = {**self.constants._asdict(), "gap": self.gap, "epsilon": self.epsilon, "arbitrary": self.price.arbitrary}
        for name, value in {**given, "heterogeneity": self.heterogeneity}.items():
            if value is not None and not 1 / LARGEST < value < LARGEST:
                bounds = f"from {1 / LARGEST:g} to {LARGEST:g}"
                raise UserError(
                    f"the theory needs constants {bounds}, but {name} is {value:g}: give an upper bound, or rescale f"
                )

    @property
    def ratio(self) -> float:
        """n_m = n / m."""
        return self.clients / self.size

    @property
    def selections(self) -> int:
        """ceil(n_m), the arbitrary selections of a full pass."""
        return -(-self.clients // self.size)

    @property
    def deviation(self) -> float:
        """delta_m."""
        return cohort_delta(self.constants.delta, self.clients, self.size)

    @property
    def zeta(self) -> float:
        """zeta; a `UserError` where it is not known."""
        if self.heterogeneity is None:
            raise UserError("this is about clients whose gradients differ by at most zeta: give heterogeneity")
        return self.heterogeneity

    @property
    def stretch(self) -> float:
        """F^0 / epsilon^2, the rounds for each unit of a Lipschitz constant."""
        return self.gap / self.epsilon**2


class Parameters(NamedTuple):
    """The parameters of I-CGM.

    Args:
        lam: lambda of the subproblems.
        beta: beta of the recursion.
        probability: p of the delegate's K = 1 + Geom(p) steps.
        refresh: p_B of RG-SVRG.
        passes: Full passes of RG-SAGA at x^0, x^1.
    """

    lam: float
    beta: float
    probability: float
    refresh: float | None = None
    passes: int | None = None


class Guarantee(NamedTuple):
    """A bound E|grad f|^2 <= epsilon^2 for an iterate drawn from x^1, ..., x^T.

    Args:
        parameters: The parameters to take.
        rounds: T.
        cost: Upper bound on the expected price.
        queries: Upper bound on the expected queries of the slowest clients, summed over exchanges; a full pass counts 1.
    """

    parameters: Parameters
    rounds: int
    cost: float
    queries: float


class Choice(NamedTuple):
    """The constants of a theorem: lambda = 3 Delta_1 + prox s, beta = r / memory, T = 256 (Delta_1 + rounds s) F^0 / epsilon^2.

    s = delta_m / sqrt(r), r being the share of its memory that an estimator renews in a round: 1 / n_m for RG-SAGA, p_B for
    RG-SVRG, and p_B^2 for SVRG, which has no beta.

    Args:
        prox: Factor of s in lambda.
        memory: Divisor of r in beta.
        rounds: Factor of s in T.
    """

    prox: int
    memory: int
    rounds: int


SAGA = Choice(prox=113, memory=112, rounds=38)
"""The constants of Theorem 6.1 (condition (C.1))."""

SVRG = Choice(prox=22, memory=2, rounds=8)
"""The constants of Theorem C.7 (condition (C.2))."""

PLAIN_SVRG = Choice(prox=16, memory=1, rounds=6)
"""The constants of Theorem C.4."""


def rg_saga(case: Case) -> Guarantee:
    """Return the guarantee of Theorem 6.1 for I-CGM with RG-SAGA.

    lambda = 3 Delta_1 + 113 sqrt(n_m) delta_m, beta = 1 / (112 n_m), T = ceil(256 (Delta_1 + 38 sqrt(n_m) delta_m) F^0 /
    epsilon^2), price N <= 2 C_A ceil(n_m) + (C_R + 1) T, queries K <= 2 + (2 + 1/p) T.

    Args:
        case: The problem, the price and the accuracy.
    """
    parameters, rounds = _chosen(case, SAGA, 1 / case.ratio)
    return _charged(case, parameters._replace(passes=2), rounds, passes=2, queries=2)


def rg_svrg(case: Case) -> Guarantee:
    """Return the guarantee of Theorem C.7 for I-CGM with RG-SVRG.

    p_B = C_R / (C_A ceil(n_m)), lambda = 3 Delta_1 + 22 delta_m / sqrt(p_B), beta = p_B / 2,
    T = ceil(256 (Delta_1 + 8 delta_m / sqrt(p_B)) F^0 / epsilon^2), price N <= C_A ceil(n_m) + (2 C_R + 1) T,
    queries K <= 1 + (p_B + 3 + 1/p) T.

    Args:
        case: The problem, the price and the accuracy.
    """
    refresh = _refresh(case)
    parameters, rounds = _chosen(case, SVRG, refresh)
    return _charged(case, parameters._replace(refresh=refresh), rounds, passes=1 + refresh * rounds, queries=3)


def svrg(case: Case) -> Guarantee:
    """Return the guarantee of Theorem C.4 for I-CGM with SVRG itself, g^t = G^t.

    p_B = C_R / (C_A ceil(n_m)), lambda = 3 Delta_1 + 16 delta_m / p_B, T = ceil(256 (Delta_1 + 6 delta_m / p_B) F^0 / epsilon^2),
    price N <= C_A ceil(n_m) + (2 C_R + 1) T, queries K <= 1 + (p_B + 2 + 1/p) T.

    Args:
        case: The problem, the price and the accuracy.
    """
    refresh = _refresh(case)
    parameters, rounds = _chosen(case, PLAIN_SVRG, refresh**2)
    parameters = parameters._replace(beta=1.0, refresh=refresh)
    return _charged(case, parameters, rounds, passes=1 + refresh * rounds, queries=2)


def practical(case: Case) -> Parameters:
    """Return parameters that work in practice, without a bound (section 7, which leaves open whose smoothness p means).

    lambda = (sqrt(n) / m) delta + Delta_1, beta = m / n, p = min(1, delta / L_1), p_B as in theory, and `initial_passes`.

    Args:
        case: The problem, the price and the accuracy.
    """
    lam = math.sqrt(case.clients) / case.size * case.constants.delta + case.constants.delta_one
    chance = min(1.0, case.constants.delta / case.constants.smooth_one)
    return Parameters(lam, 1 / case.ratio, chance, _refresh(case), initial_passes(case.price))


def initial_passes(price: Selection) -> int:
    """Return the number of initial passes for RG-SAGA: 2 where C_A <= C_R + 1, else 0; a rule of thumb, beyond the paper.

    Two passes cost 2 C_A n_m. Without them every client's gradient is known after about 2 n_m rounds, of C_R + 1 each.

    Args:
        price: C_A and C_R.
    """
    return 2 if price.arbitrary <= price.random + 1 else 0


def probability(lam: float, delta_one: float, smooth_one: float) -> float:
    """Return p = (lambda - Delta_1) / (8 (L_1 + lambda)), for which K = 1 + Geom(p) steps suffice (Lemma 3.4).

    Args:
        lam: lambda > Delta_1.
        delta_one: Delta_1.
        smooth_one: L_1.

    Raises:
        UserError: If lambda is too small.
    """
    return (checked_lam(lam, delta_one) - delta_one) / (8 * (smooth_one + lam))


def lam_warning(lam: float, delta_one: float) -> str | None:
    """Return why no theorem holds for this lambda; None for lambda > Delta_1.

    Args:
        lam: lambda.
        delta_one: Delta_1.
    """
    if lam > delta_one:
        return None
    return f"the theorems of I-CGM need lam > Delta_1, but lam is {lam:.4g} and Delta_1 {delta_one:.4g}: raise lam"


def checked_lam(lam: float, delta_one: float) -> float:
    """Return lambda; `UserError` if it is not above Delta_1.

    Args:
        lam: lambda.
        delta_one: Delta_1.
    """
    warning = lam_warning(lam, delta_one)
    if warning is not None:
        raise UserError(warning)
    return lam


def cohort_delta(delta: float, clients: int, size: int) -> float:
    """Return delta_m = delta sqrt(q_m / m) of uniform cohorts (equation (9)).

    E|grad h_S(x) - grad h_S(y)|^2 <= delta_m^2 |x - y|^2.

    Args:
        delta: delta.
        clients: n.
        size: m.
    """
    return delta * math.sqrt((clients - size) / max(1, clients - 1) / size)


def _refresh(case: Case) -> float:
    """p_B = C_R / (C_A ceil(n_m)), for which a round pays as much for full passes as for its cohort."""
    return case.price.random / (case.price.arbitrary * case.selections)


def _chosen(case: Case, choice: Choice, share: float) -> tuple[Parameters, int]:
    """Return the parameters and T for an estimator that renews `share` of its memory a round."""
    constants, spread = case.constants, case.deviation / math.sqrt(share)
    lam = 3 * constants.delta_one + choice.prox * spread
    rounds = math.ceil(256 * (constants.delta_one + choice.rounds * spread) * case.stretch)
    return Parameters(lam, share / choice.memory, probability(lam, constants.delta_one, constants.smooth_one)), rounds


def _charged(case: Case, parameters: Parameters, rounds: int, passes: float, queries: int) -> Guarantee:
    """Charge `passes` over all clients, and a cohort's exchange, with its `queries`, and the delegate's in each round."""
    selections, price = case.selections * passes, case.price
    cost = price.arbitrary * selections + (price.random + 1) * rounds
    return Guarantee(parameters, rounds, cost, passes + (queries + 1 / parameters.probability) * rounds)
