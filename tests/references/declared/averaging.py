"""FedAvg and FedProx."""

from tests.references import adaptive, averaging
from tests.references.declared.case import BATCHES, LOCAL, ROUND, Case


def cases():
    source = "McMahan et al., 2017, Algorithm 1"
    mean = "x <- x + sum_S lambda_i (y_i - x) / sum_S lambda_i"
    yield Case(
        "fedavg", "fedavg", averaging.fedavg, ROUND, source, "weights by rows, lambda_i = n_i / n", [LOCAL, mean], weights="rows"
    )
    yield Case("fedavg-equal", "fedavg", averaging.fedavg, ROUND, source, "equal weights", [LOCAL, mean], "open")
    yield Case(
        "fedavg-logistic",
        "fedavg",
        averaging.fedavg,
        ROUND,
        source,
        "weights by rows, logistic loss",
        [LOCAL, mean],
        weights="rows",
        loss="logistic",
    )
    yield Case(
        "fedavg-batches",
        "fedavg",
        averaging.fedavg,
        ROUND,
        source,
        "weights by rows, batches of two rows: the steps of a client take the rows that `draws.batches` lists",
        [LOCAL.replace("grad f_i(y_i)", "the gradient on the rows of the step"), mean],
        weights="rows",
        given={"batches": BATCHES},
    )
    yield Case(
        "fedavg-local-momentum",
        "fedavg",
        adaptive.local_momentum,
        ROUND | {"momentum": 0.5},
        source,
        "weights by rows, momentum in local steps from 0 in each round",
        ["for i in S: y_i = x, m = 0; repeat local_steps times: m <- momentum m + grad f_i(y_i); y_i <- y_i - lr m", mean],
        "open",
        weights="rows",
    )
    yield Case(
        "fedavg-all-clients",
        "fedavg",
        averaging.unbiased,
        ROUND,
        source,
        "weights by rows, cohort weights lambda_i / p_i, p_i = |S| / N: unbiased for full participation",
        [LOCAL, "x <- x + sum_S (lambda_i / p_i) (y_i - x)"],
        "open",
        weights="rows",
    )
    prox = "for i in S: y_i = x; repeat local_steps times: y_i <- y_i - lr (grad f_i(y_i) + mu (y_i - x))"
    source = "Li et al., 2020 (MLSys), Algorithm 2"
    for name, weights, variant, status in (
        ("fedprox", "equal", "equal weights, two gradient steps on the proximal objective", "paper"),
        ("fedprox-rows", "rows", "weights by rows, two gradient steps on the proximal objective", "open"),
    ):
        yield Case(name, "fedprox", averaging.fedavg, ROUND | {"mu": 0.5}, source, variant, [prox, mean], status, weights)
    yield Case(
        "fedprox-half-weight",
        "fedprox",
        averaging.fedavg,
        ROUND | {"mu": 0.25},
        source,
        "weights by rows, proximal term mu |y - x|^2 / 4, half of the paper's: `mu` is the paper's halved",
        [prox, mean],
        "deviation",
        "rows",
    )
    yield Case(
        "fedprox-double-weight",
        "fedprox",
        averaging.fedavg,
        ROUND | {"mu": 1.0},
        source,
        "weights by rows, proximal term mu |y - x|^2, twice the paper's: `mu` is the paper's doubled",
        [prox, mean],
        "deviation",
        "rows",
    )
