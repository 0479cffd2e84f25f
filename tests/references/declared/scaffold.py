"""SCAFFOLD."""

from tests.references import corrected
from tests.references.declared.case import ROUND, Case


def cases():
    source, program = "Karimireddy et al., 2020, Algorithm 1", corrected.scaffold
    parameters = ROUND | {"server_lr": 0.8}
    local = "for i in S: y_i = x; repeat local_steps times: y_i <- y_i - lr (grad f_i(y_i) - c_i + c)"
    options = {"I": "c_i+ = grad f_i(x)", "II": "c_i+ = c_i - c + (x - y_i) / (local_steps lr)"}
    move, add = "x <- x + server_lr mean_S (y_i - x)", "c <- c + (|S| / N) mean_S (c_i+ - c_i); c_i <- c_i+"
    for name, option in (("scaffold-1", "I"), ("scaffold-2", "II")):
        yield Case(
            name,
            "scaffold",
            program,
            parameters | {"option": option},
            source,
            f"option {option}, variates start at 0",
            [local, options[option], move, add],
        )
    second = parameters | {"option": "II"}
    yield Case(
        "scaffold-2-rows",
        "scaffold",
        program,
        second,
        source,
        "option II, lambda_i = n_i / n in the place of 1 / N, variates start at 0",
        [
            local,
            options["II"],
            "x <- x + server_lr sum_S lambda_i (y_i - x) / sum_S lambda_i",
            "c <- c + sum_S lambda_i (c_i+ - c_i); c_i <- c_i+",
        ],
        "open",
        "rows",
    )
    one = second | {"server_lr": 1.0}
    yield Case(
        "scaffold-2-rate-1",
        "scaffold",
        program,
        one,
        source,
        "option II, variates start at 0, server_lr = 1",
        [local, options["II"], move, add],
        "open",
    )
    yield Case(
        "scaffold-2-rate-1-no-fraction",
        "scaffold",
        program,
        one | {"fraction": False},
        source,
        "option II, variates start at 0, server_lr = 1, c without the factor |S| / N",
        [local, options["II"], move, "c <- c + mean_S (c_i+ - c_i), without |S| / N; c_i <- c_i+"],
        "deviation",
    )
    yield Case(
        "scaffold-2-start-gradients",
        "scaffold",
        program,
        second | {"starts": "gradients"},
        source,
        "option II, variates start at grad f_i(x) and c at their mean",
        [local, options["II"], move, add],
        "open",
    )
    without = "c <- c + mean_S (c_i+ - c_i), without |S| / N; c_i <- c_i+"
    for name, option in (("scaffold-1-no-fraction", "I"), ("scaffold-2-no-fraction", "II")):
        yield Case(
            name,
            "scaffold",
            program,
            parameters | {"option": option, "fraction": False},
            source,
            f"option {option}, variates start at 0, c without the factor |S| / N",
            [local, options[option], move, without],
            "deviation",
        )
    yield Case(
        "scaffold-2-rows-no-fraction",
        "scaffold",
        program,
        second | {"fraction": False},
        source,
        "option II, lambda_i = n_i / n, c without the share of the cohort",
        [
            local,
            options["II"],
            "x <- x + server_lr sum_S lambda_i (y_i - x) / sum_S lambda_i",
            "c <- c + sum_S lambda_i (c_i+ - c_i) / sum_S lambda_i; c_i <- c_i+",
        ],
        "deviation",
        "rows",
    )
