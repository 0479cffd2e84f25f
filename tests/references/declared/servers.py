"""Optimisers at the server."""

from tests.references import adaptive
from tests.references.declared.case import LOCAL, ROUND, Case


def cases():
    source = "Reddi et al., 2021, Algorithm 2"
    parameters = ROUND | {"server_lr": 0.1, "rule": "adam", "beta1": 0.9, "beta2": 0.99, "tau": 0.01}
    start = "m = 0 and v = tau^2 at first"
    rules = {
        "adam": "v <- beta2 v + (1 - beta2) d^2",
        "yogi": "v <- v - (1 - beta2) d^2 sign(v - d^2)",
        "adagrad": "v <- v + d^2",
    }

    def update(rule, start=start, step="server_lr m / (sqrt(v) + tau)"):
        return [start, LOCAL, "d = mean_S (y_i - x)", "m <- beta1 m + (1 - beta1) d", rules[rule], f"x <- x + {step}"]

    program = adaptive.fedopt
    yield Case(
        "fedadam", "fedopt", program, parameters, source, "equal weights, v starts at tau^2, no bias correction", update("adam")
    )
    yield Case(
        "fedadam-rows",
        "fedopt",
        program,
        parameters,
        source,
        "weights by rows, v starts at tau^2, no bias correction",
        update("adam"),
        "open",
        "rows",
    )
    yield Case(
        "fedadam-rows-v0",
        "fedopt",
        program,
        parameters | {"v_start": "0"},
        source,
        "weights by rows, v starts at 0, no bias correction",
        update("adam", "m = 0 and v = 0 at first"),
        "deviation",
        "rows",
    )
    step = "(server_lr sqrt(1 - beta2^r) / (1 - beta1^r)) m / (sqrt(v) + tau) in round r = 1, 2, ..."
    yield Case(
        "fedadam-rows-v0-corrected",
        "fedopt",
        program,
        parameters | {"v_start": "0", "corrected": 0},
        source,
        "weights by rows, v starts at 0, bias correction as in Adam",
        update("adam", "m = 0 and v = 0 at first", step),
        "deviation",
        "rows",
    )
    yield Case(
        "fedadam-rows-corrected",
        "fedopt",
        program,
        parameters | {"corrected": 0},
        source,
        "weights by rows, v starts at tau^2, bias correction as in Adam",
        update("adam", step=step),
        "deviation",
        "rows",
    )
    step = step.replace("^r)", "^(r + 1))")
    yield Case(
        "fedadam-rows-v0-corrected-late",
        "fedopt",
        program,
        parameters | {"v_start": "0", "corrected": 1},
        source,
        "weights by rows, v starts at 0, bias correction as in Adam, but one round late",
        update("adam", "m = 0 and v = 0 at first", step),
        "deviation",
        "rows",
    )
    step = "server_lr (m / (1 - beta1^r)) / (sqrt(v / (1 - beta2^r)) + tau) in round r = 1, 2, ..."
    for name, weights in (("fedadam-v0-adam", "equal"), ("fedadam-rows-v0-adam", "rows")):
        yield Case(
            name,
            "fedopt",
            program,
            parameters | {"v_start": "0", "rule": "torch adam"},
            source,
            f"{'equal weights' if weights == 'equal' else 'weights by rows'}, Adam of Kingma and Ba, tau for epsilon",
            update("adam", "m = 0 and v = 0 at first", step),
            "deviation",
            weights,
        )
    yield Case(
        "fedadam-v0",
        "fedopt",
        program,
        parameters | {"v_start": "0"},
        source,
        "equal weights, v starts at 0, no bias correction",
        update("adam", "m = 0 and v = 0 at first"),
        "deviation",
    )
    for rule in ("yogi", "adagrad"):
        # The paper's experiments have no momentum in FedAdagrad.
        chosen = parameters | {"rule": rule} | ({"beta1": 0.0} if rule == "adagrad" else {})
        yield Case(f"fed{rule}", "fedopt", program, chosen, source, "equal weights, v starts at tau^2", update(rule))
        yield Case(
            f"fed{rule}-rows",
            "fedopt",
            program,
            chosen,
            source,
            "weights by rows, v starts at tau^2",
            update(rule),
            "open",
            "rows",
        )
        yield Case(
            f"fed{rule}-v0",
            "fedopt",
            program,
            chosen | {"v_start": "0"},
            source,
            "equal weights, v starts at 0",
            update(rule, "m = 0 and v = 0 at first"),
            "deviation",
        )
        yield Case(
            f"fed{rule}-rows-v0",
            "fedopt",
            program,
            chosen | {"v_start": "0"},
            source,
            "weights by rows, v starts at 0",
            update(rule, "m = 0 and v = 0 at first"),
            "deviation",
            "rows",
        )
    source, program = "Hsu, Qi and Brown, 2019, section 4.2", adaptive.fedavgm
    parameters = ROUND | {"server_lr": 1.0, "beta": 0.6, "nesterov": False}
    mean = "d = sum_S lambda_i (y_i - x) / sum_S lambda_i"
    momentum = "v <- beta v + d, which is -v of the paper"
    yield Case(
        "fedavgm",
        "fedopt",
        program,
        parameters,
        source,
        "weights by rows, v starts at 0, v is not dampened",
        [LOCAL, mean, momentum, "x <- x + server_lr v"],
        weights="rows",
    )
    yield Case(
        "fedavgm-rate",
        "fedopt",
        program,
        parameters | {"server_lr": 0.8},
        source,
        "weights by rows, v starts at 0, v is not dampened, a step size of the server",
        [LOCAL, mean, momentum, "x <- x + server_lr v"],
        "open",
        "rows",
    )
    yield Case(
        "fedavgm-nesterov",
        "fedopt",
        program,
        parameters | {"nesterov": True},
        source,
        "weights by rows, Nesterov's momentum",
        [LOCAL, mean, momentum, "x <- x + server_lr (d + beta v)"],
        "open",
        "rows",
    )
    yield Case(
        "fedavgm-equal",
        "fedopt",
        program,
        parameters,
        source,
        "equal weights, v starts at 0, v is not dampened",
        [LOCAL, mean, momentum, "x <- x + server_lr v"],
        "open",
    )
    yield Case(
        "fedavgm-dampened",
        "fedopt",
        program,
        parameters | {"dampening": 0.6},
        source,
        "weights by rows, v is dampened",
        [LOCAL, mean, "v <- beta v + (1 - beta) d, which is -v of the paper", "x <- x + server_lr v"],
        "deviation",
        "rows",
    )
