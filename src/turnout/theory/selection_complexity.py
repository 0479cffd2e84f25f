"""Orders of the price and the queries to E|grad f|^2 <= epsilon^2: table 1 of Cost-aware client selection.

The price is C_A N_A + C_R N_R + N_D, and queries are those of the slowest client of each exchange, summed; a full pass counts 1,
as in the ledger, where the paper counts n_m. Constant factors are 1: the orders show how both grow with each quantity, not how
large they are. F = F^0, eps = epsilon and zeta_m = zeta / sqrt(m).

The paper prints zeta_m^2 F / eps^4 + sqrt(L_max) zeta / eps^3 for FedAvg, and zeta_m^2 F / eps^2 for MimeMVR and CE-LGD. These
change with the units of f and x; here they have the factors that make them numbers. SABER-full is as in the table, not the text.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from turnout.theory.selection import Case

ASSUMPTIONS = {
    "FS": "grad f is L_f-Lipschitz",
    "IS": "every grad f_i is L_max-Lipschitz",
    "SD": "every grad (f - f_i) is Delta_max-Lipschitz",
    "BGD": "(1/n) sum_i |grad f_i(x) - grad f(x)|^2 <= zeta^2 for all x, which no quadratics of different curvature satisfy",
    "Delta_1": "grad (f - f_1) is Delta_1-Lipschitz, f_1 being the delegate's",
    "L_1": "grad f_1 is L_1-Lipschitz, for the queries",
    "delta": "(1/n) sum_i |grad (f - f_i)(x) - grad (f - f_i)(y)|^2 <= delta^2 |x - y|^2",
}
"""The assumptions of the analyses."""


@dataclass(frozen=True)
class Complexity:
    """The order of one method's costs.

    Args:
        method: Its name.
        assumptions: Keys of `ASSUMPTIONS`.
        price_formula: The price as text.
        price: The price of a `Case`.
        queries_formula: The queries as text; None where they are not known.
        queries: The queries of a `Case`; None where they are not known.
    """

    method: str
    assumptions: tuple[str, ...]
    price_formula: str
    price: Callable[[Case], float]
    queries_formula: str | None = None
    queries: Callable[[Case], float] | None = None

    def amounts(self, case: Case) -> tuple[float | None, float | None]:
        """Return price and queries; None where they are not known, as without the zeta that they need."""
        if "BGD" in self.assumptions and case.heterogeneity is None:
            return None, None
        return self.price(case), None if self.queries is None else self.queries(case)


def _fedavg(c: Case) -> float:
    smooth, zeta = c.constants.smooth_max, c.zeta / c.epsilon
    return smooth * c.stretch * (zeta**2 / c.size + zeta + 1)


def _momentum(c: Case, fewer: float) -> float:
    """zeta_m^2 / eps^2 + (zeta_m / `fewer`) Delta_max F / eps^3 + Delta_max F / eps^2."""
    zeta = c.zeta / math.sqrt(c.size) / c.epsilon
    return zeta**2 + c.constants.delta_max * c.stretch * (zeta / fewer + 1)


def _mime(c: Case) -> float:
    return _momentum(c, 1)


def _celgd(c: Case) -> float:
    return _momentum(c, math.sqrt(c.size))


def _local(c: Case) -> float:
    """Local steps of MimeMVR and CE-LGD in a round."""
    return c.constants.smooth_max / c.constants.delta_max


def _spread(c: Case) -> float:
    """sqrt(n_m) delta_m."""
    return math.sqrt(c.ratio) * c.deviation


def _svrg_spread(c: Case) -> float:
    """sqrt(C_A n_m / C_R) delta_m."""
    return math.sqrt(c.price.arbitrary / c.price.random) * _spread(c)


TABLE = (
    Complexity(
        "GD",
        ("FS",),
        "C_A n_m L_f F/eps^2",
        lambda c: c.price.arbitrary * c.ratio * c.constants.smooth_f * c.stretch,
        "L_f F/eps^2",
        lambda c: c.constants.smooth_f * c.stretch,
    ),
    Complexity(
        "FedRed",
        ("Delta_1", "L_1"),
        "C_A n_m Delta_1 F/eps^2",
        lambda c: c.price.arbitrary * c.ratio * c.constants.delta_one * c.stretch,
        "(L_1 + Delta_1) F/eps^2",
        lambda c: (c.constants.smooth_one + c.constants.delta_one) * c.stretch,
    ),
    Complexity(
        "FedAvg",
        ("IS", "BGD"),
        "C_R L_max (zeta_m^2/eps^2 + zeta/eps + 1) F/eps^2",
        lambda c: c.price.random * _fedavg(c),
        "L_max (zeta_m^2/eps^2 + zeta/eps + 1) F/eps^2",
        _fedavg,
    ),
    Complexity(
        "FedDyn",
        ("IS",),
        "C_A n_m + C_R n_m L_max F/eps^2",
        lambda c: c.ratio * (c.price.arbitrary + c.price.random * c.constants.smooth_max * c.stretch),
    ),
    Complexity(
        "MimeMVR",
        ("IS", "BGD", "SD"),
        "C_A (zeta_m^2/eps^2 + (zeta_m/eps + 1) Delta_max F/eps^2)",
        lambda c: c.price.arbitrary * _mime(c),
        "(L_max/Delta_max) (zeta_m^2/eps^2 + (zeta_m/eps + 1) Delta_max F/eps^2)",
        lambda c: _local(c) * _mime(c),
    ),
    Complexity(
        "CE-LGD",
        ("IS", "BGD", "SD"),
        "C_R (zeta_m^2/eps^2 + (zeta_m/(sqrt(m) eps) + 1) Delta_max F/eps^2)",
        lambda c: c.price.random * _celgd(c),
        "(L_max/Delta_max) (zeta_m^2/eps^2 + (zeta_m/(sqrt(m) eps) + 1) Delta_max F/eps^2)",
        lambda c: _local(c) * _celgd(c),
    ),
    Complexity(
        "Scaffold",
        ("IS",),
        "C_A n_m + C_A n_m^(2/3) L_max F/eps^2",
        lambda c: c.price.arbitrary * (c.ratio + c.ratio ** (2 / 3) * c.constants.smooth_max * c.stretch),
        "1 + n_m^(2/3) L_max F/eps^2",
        lambda c: 1 + c.ratio ** (2 / 3) * c.constants.smooth_max * c.stretch,
    ),
    Complexity(
        "SABER-full",
        ("SD",),
        "C_A n_m + C_A (Delta_max + sqrt(n_m) delta_m) F/eps^2",
        lambda c: c.price.arbitrary * (c.ratio + (c.constants.delta_max + _spread(c)) * c.stretch),
    ),
    Complexity(
        "SABER-partial",
        ("SD", "BGD"),
        "C_A n_m + C_R (zeta_m^2/eps^2) Delta_max F/eps^2",
        lambda c: (
            c.price.arbitrary * c.ratio + c.price.random * c.zeta**2 / c.size / c.epsilon**2 * c.constants.delta_max * c.stretch
        ),
    ),
    Complexity(
        "I-CGM-RG-SVRG",
        ("Delta_1", "delta", "L_1"),
        "C_A n_m + (C_R Delta_1 + sqrt(C_A C_R n_m) delta_m) F/eps^2",
        lambda c: c.price.arbitrary * c.ratio + c.price.random * (c.constants.delta_one + _svrg_spread(c)) * c.stretch,
        "1 + (L_1 + Delta_1 + sqrt(C_A n_m / C_R) delta_m) F/eps^2",
        lambda c: 1 + (c.constants.smooth_one + c.constants.delta_one + _svrg_spread(c)) * c.stretch,
    ),
    Complexity(
        "I-CGM-RG-SAGA",
        ("Delta_1", "delta", "L_1"),
        "C_A n_m + C_R (Delta_1 + sqrt(n_m) delta_m) F/eps^2",
        lambda c: c.price.arbitrary * c.ratio + c.price.random * (c.constants.delta_one + _spread(c)) * c.stretch,
        "1 + (L_1 + Delta_1 + sqrt(n_m) delta_m) F/eps^2",
        lambda c: 1 + (c.constants.smooth_one + c.constants.delta_one + _spread(c)) * c.stretch,
    ),
)
"""Table 1, in the order of the paper."""
