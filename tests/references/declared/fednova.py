"""FedNova."""

from tests.references import averaging
from tests.references.declared.case import EVERYONE, Case


def cases():
    source, program, parameters = (
        "Wang et al., 2020 (NeurIPS), section 5",
        averaging.fednova,
        {"lr": 0.2, "local_steps": [2, 1, 3, 2]},
    )
    local = (
        "for i in S: y_i = x, m = 0, a_i = 0, k = 0; repeat local_steps[i] times: m <- momentum m + grad f_i(y_i); "
        "y_i <- y_i - lr (m + mu (y_i - x)); k <- momentum k + 1; a_i <- (1 - lr mu) a_i + k"
    )
    plain = "for i in S: y_i = x; repeat local_steps[i] times: y_i <- y_i - lr grad f_i(y_i); a_i = local_steps[i]"
    everyone = "x <- x + (sum_i lambda_i a_i) sum_i lambda_i (y_i - x) / a_i"
    yield Case(
        "fednova",
        "fednova",
        program,
        parameters,
        source,
        "weights by rows, all clients, plain local steps",
        [plain, everyone],
        weights="rows",
        cohorts=EVERYONE,
    )
    yield Case(
        "fednova-momentum",
        "fednova",
        program,
        parameters | {"momentum": 0.5},
        source,
        "weights by rows, all clients, momentum in local steps from 0 in each round",
        [local, everyone],
        weights="rows",
        cohorts=EVERYONE,
    )
    yield Case(
        "fednova-proximal",
        "fednova",
        program,
        parameters | {"mu": 0.5},
        source,
        "weights by rows, all clients, proximal local steps, tau_eff = sum_i lambda_i a_i, a_i = |a_i|_1 of the paper",
        [local, everyone],
        weights="rows",
        cohorts=EVERYONE,
    )
    yield Case(
        "fednova-proximal-steps",
        "fednova",
        program,
        parameters | {"mu": 0.5, "tau": 1.8},
        source,
        "weights by rows, all clients, proximal local steps, tau_eff = sum_i lambda_i local_steps[i], as in the authors' program",
        [local, "x <- x + tau sum_i lambda_i (y_i - x) / a_i"],
        "open",
        "rows",
        cohorts=EVERYONE,
    )
    work = "t = sum_S lambda_i a_i / sum_S lambda_i"
    yield Case(
        "fednova-cohort",
        "fednova",
        program,
        parameters,
        source,
        "weights by rows, cohorts, lambda_i / p_i for the changes and the cohort's mean for the work",
        [plain, work, "x <- x + t sum_S (lambda_i / p_i) (y_i - x) / a_i"],
        "open",
        "rows",
    )
    yield Case(
        "fednova-even",
        "fednova",
        program,
        {"lr": 0.2, "local_steps": [2, 2, 2, 2], "shared": "mean"},
        source,
        "equal weights, cohorts, two steps of each client, which is FedAvg",
        [plain, work, "x <- x + t mean_S (y_i - x) / a_i"],
        "open",
    )
    yield Case(
        "fednova-even-scaled",
        "fednova",
        program,
        {"lr": 0.2, "local_steps": [2, 2, 2, 2], "scale": 2.0, "shared": "mean"},
        source,
        "equal weights, cohorts, two steps of each client, changes scaled by N / |S| although weights add up to 1",
        [plain, work, "x <- x + t (N / |S|) mean_S (y_i - x) / a_i"],
        "deviation",
    )
    yield Case(
        "fednova-cohort-mean",
        "fednova",
        program,
        parameters | {"shared": "mean"},
        source,
        "weights by rows, cohorts, both sums with weights that add up to 1 in the cohort",
        [plain, work, "x <- x + t sum_S lambda_i (y_i - x) / a_i / sum_S lambda_i"],
        "open",
        "rows",
    )
