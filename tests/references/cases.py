"""The test vectors: for each the program, its parameters, and what the file says about it."""

import re
from collections.abc import Callable
from typing import NamedTuple

from tests.references import adaptive, asynchronous, averaging, corrected, personal, proximal
from tests.references.tiny import Log, Tiny

COHORTS = [[2, 3], [0, 2], [1, 3]]
EVERYONE = [[0, 1, 2, 3]] * 3
ARRIVALS = [[[0, 0], [2, 1]], [[3, 1], [0, 2]], [[2, 2], [1, 3]]]
ONE_BY_ONE = [[[0, 0]], [[1, 0]], [[2, 1]]]
BATCHES = [
    {"2": [[0], [0]], "3": [[1, 3], [2, 0]]},
    {"0": [[1], [0]], "2": [[0], [0]]},
    {"1": [[0, 2], [1]], "3": [[2, 1], [0, 3]]},
]
"""Rows of each client's local steps, by round."""


L2GD = {"local_steps": [1, 2, 1], "pulls": [0, 1, 3]}
"""Numbers of steps of each kind."""


class Case(NamedTuple):
    """One test vector.

    `status` is "paper" (what the paper's algorithm says), "open" (one of the choices that the paper leaves open or that
    practice makes) or "deviation" (what some programs do and the paper does not).
    """

    name: str
    kind: str
    program: Callable
    parameters: dict
    source: str
    variant: str
    update: list[str]
    status: str = "paper"
    weights: str = "equal"
    loss: str = "squared"
    cohorts: list = COHORTS
    given: dict = {}


LOCAL = "for i in S: y_i = x; repeat local_steps times: y_i <- y_i - lr grad f_i(y_i)"
ROUND = {"lr": 0.2, "local_steps": 2}


def _averaging():
    source = "McMahan et al., 2017, Algorithm 1"
    mean = "x <- x + sum_S lambda_i (y_i - x) / sum_S lambda_i"
    yield Case("fedavg", "fedavg", averaging.fedavg, ROUND, source, "weights by rows, lambda_i = n_i / n", [LOCAL, mean], weights="rows")
    yield Case("fedavg-equal", "fedavg", averaging.fedavg, ROUND, source, "equal weights", [LOCAL, mean], "open")
    yield Case("fedavg-logistic", "fedavg", averaging.fedavg, ROUND, source, "weights by rows, logistic loss", [LOCAL, mean],
               weights="rows", loss="logistic")  # fmt: skip
    yield Case("fedavg-batches", "fedavg", averaging.fedavg, ROUND, source,
               "weights by rows, batches of two rows: the steps of a client take the rows that `draws.batches` lists",
               [LOCAL.replace("grad f_i(y_i)", "the gradient on the rows of the step"), mean], weights="rows",
               given={"batches": BATCHES})  # fmt: skip
    yield Case("fedavg-local-momentum", "fedavg", adaptive.local_momentum, ROUND | {"momentum": 0.5}, source,
               "weights by rows, momentum in local steps from 0 in each round",
               ["for i in S: y_i = x, m = 0; repeat local_steps times: m <- momentum m + grad f_i(y_i); y_i <- y_i - lr m", mean],
               "open", weights="rows")  # fmt: skip
    yield Case("fedavg-all-clients", "fedavg", averaging.unbiased, ROUND, source,
               "weights by rows, cohort weights lambda_i / p_i, p_i = |S| / N: unbiased for full participation",
               [LOCAL, "x <- x + sum_S (lambda_i / p_i) (y_i - x)"], "open", weights="rows")  # fmt: skip
    prox = "for i in S: y_i = x; repeat local_steps times: y_i <- y_i - lr (grad f_i(y_i) + mu (y_i - x))"
    source = "Li et al., 2020 (MLSys), Algorithm 2"
    for name, weights, variant, status in (
        ("fedprox", "equal", "equal weights, two gradient steps on the proximal objective", "paper"),
        ("fedprox-rows", "rows", "weights by rows, two gradient steps on the proximal objective", "open"),
    ):
        yield Case(name, "fedprox", averaging.fedavg, ROUND | {"mu": 0.5}, source, variant, [prox, mean], status, weights)
    yield Case("fedprox-half-weight", "fedprox", averaging.fedavg, ROUND | {"mu": 0.25}, source,
               "weights by rows, proximal term mu |y - x|^2 / 4, half of the paper's: `mu` is the paper's halved", [prox, mean],
               "deviation", "rows")  # fmt: skip
    yield Case("fedprox-double-weight", "fedprox", averaging.fedavg, ROUND | {"mu": 1.0}, source,
               "weights by rows, proximal term mu |y - x|^2, twice the paper's: `mu` is the paper's doubled", [prox, mean],
               "deviation", "rows")  # fmt: skip


def _scaffold():
    source, program = "Karimireddy et al., 2020, Algorithm 1", corrected.scaffold
    parameters = ROUND | {"server_lr": 0.8}
    local = "for i in S: y_i = x; repeat local_steps times: y_i <- y_i - lr (grad f_i(y_i) - c_i + c)"
    options = {"I": "c_i+ = grad f_i(x)", "II": "c_i+ = c_i - c + (x - y_i) / (local_steps lr)"}
    move, add = "x <- x + server_lr mean_S (y_i - x)", "c <- c + (|S| / N) mean_S (c_i+ - c_i); c_i <- c_i+"
    for name, option in (("scaffold-1", "I"), ("scaffold-2", "II")):
        yield Case(name, "scaffold", program, parameters | {"option": option}, source,
                   f"option {option}, variates start at 0", [local, options[option], move, add])  # fmt: skip
    second = parameters | {"option": "II"}
    yield Case("scaffold-2-rows", "scaffold", program, second, source,
               "option II, lambda_i = n_i / n in the place of 1 / N, variates start at 0",
               [local, options["II"], "x <- x + server_lr sum_S lambda_i (y_i - x) / sum_S lambda_i",
                "c <- c + sum_S lambda_i (c_i+ - c_i); c_i <- c_i+"], "open", "rows")  # fmt: skip
    one = second | {"server_lr": 1.0}
    yield Case("scaffold-2-rate-1", "scaffold", program, one, source, "option II, variates start at 0, server_lr = 1",
               [local, options["II"], move, add], "open")  # fmt: skip
    yield Case("scaffold-2-rate-1-no-fraction", "scaffold", program, one | {"fraction": False}, source,
               "option II, variates start at 0, server_lr = 1, c without the factor |S| / N",
               [local, options["II"], move, "c <- c + mean_S (c_i+ - c_i), without |S| / N; c_i <- c_i+"], "deviation")  # fmt: skip
    yield Case("scaffold-2-start-gradients", "scaffold", program, second | {"starts": "gradients"}, source,
               "option II, variates start at grad f_i(x) and c at their mean", [local, options["II"], move, add], "open")  # fmt: skip
    without = "c <- c + mean_S (c_i+ - c_i), without |S| / N; c_i <- c_i+"
    for name, option in (("scaffold-1-no-fraction", "I"), ("scaffold-2-no-fraction", "II")):
        yield Case(name, "scaffold", program, parameters | {"option": option, "fraction": False}, source,
                   f"option {option}, variates start at 0, c without the factor |S| / N", [local, options[option], move, without],
                   "deviation")  # fmt: skip
    yield Case("scaffold-2-rows-no-fraction", "scaffold", program, second | {"fraction": False}, source,
               "option II, lambda_i = n_i / n, c without the share of the cohort",
               [local, options["II"], "x <- x + server_lr sum_S lambda_i (y_i - x) / sum_S lambda_i",
                "c <- c + sum_S lambda_i (c_i+ - c_i) / sum_S lambda_i; c_i <- c_i+"], "deviation", "rows")  # fmt: skip


def _fednova():
    source, program, parameters = "Wang et al., 2020 (NeurIPS), section 5", averaging.fednova, {"lr": 0.2, "local_steps": [2, 1, 3, 2]}
    local = (
        "for i in S: y_i = x, m = 0, a_i = 0, k = 0; repeat local_steps[i] times: m <- momentum m + grad f_i(y_i); "
        "y_i <- y_i - lr (m + mu (y_i - x)); k <- momentum k + 1; a_i <- (1 - lr mu) a_i + k"
    )
    plain = "for i in S: y_i = x; repeat local_steps[i] times: y_i <- y_i - lr grad f_i(y_i); a_i = local_steps[i]"
    everyone = "x <- x + (sum_i lambda_i a_i) sum_i lambda_i (y_i - x) / a_i"
    yield Case("fednova", "fednova", program, parameters, source, "weights by rows, all clients, plain local steps",
               [plain, everyone], weights="rows", cohorts=EVERYONE)  # fmt: skip
    yield Case("fednova-momentum", "fednova", program, parameters | {"momentum": 0.5}, source,
               "weights by rows, all clients, momentum in local steps from 0 in each round", [local, everyone], weights="rows",
               cohorts=EVERYONE)  # fmt: skip
    yield Case("fednova-proximal", "fednova", program, parameters | {"mu": 0.5}, source,
               "weights by rows, all clients, proximal local steps", [local, everyone], weights="rows", cohorts=EVERYONE)  # fmt: skip
    work = "t = sum_S lambda_i a_i / sum_S lambda_i"
    yield Case("fednova-cohort", "fednova", program, parameters, source,
               "weights by rows, cohorts, lambda_i / p_i for the changes and the cohort's mean for the work",
               [plain, work, "x <- x + t sum_S (lambda_i / p_i) (y_i - x) / a_i"], "open", "rows")  # fmt: skip
    yield Case("fednova-even", "fednova", program, {"lr": 0.2, "local_steps": [2, 2, 2, 2], "shared": "mean"}, source,
               "equal weights, cohorts, two steps of each client, which is FedAvg", [plain, work,
               "x <- x + t mean_S (y_i - x) / a_i"], "open")  # fmt: skip
    yield Case("fednova-even-scaled", "fednova", program, {"lr": 0.2, "local_steps": [2, 2, 2, 2], "scale": 2.0, "shared": "mean"},
               source, "equal weights, cohorts, two steps of each client, changes scaled by N / |S| although weights add up to 1",
               [plain, work, "x <- x + t (N / |S|) mean_S (y_i - x) / a_i"], "deviation")  # fmt: skip
    yield Case("fednova-cohort-mean", "fednova", program, parameters | {"shared": "mean"}, source,
               "weights by rows, cohorts, both sums with weights that add up to 1 in the cohort",
               [plain, work, "x <- x + t sum_S lambda_i (y_i - x) / a_i / sum_S lambda_i"], "open", "rows")  # fmt: skip


def _servers():
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
    yield Case("fedadam", "fedopt", program, parameters, source, "equal weights, v starts at tau^2, no bias correction", update("adam"))
    yield Case("fedadam-rows", "fedopt", program, parameters, source, "weights by rows, v starts at tau^2, no bias correction",
               update("adam"), "open", "rows")  # fmt: skip
    yield Case("fedadam-rows-v0", "fedopt", program, parameters | {"v_start": "0"}, source,
               "weights by rows, v starts at 0, no bias correction", update("adam", "m = 0 and v = 0 at first"), "deviation",
               "rows")  # fmt: skip
    step = "(server_lr sqrt(1 - beta2^r) / (1 - beta1^r)) m / (sqrt(v) + tau) in round r = 1, 2, ..."
    yield Case("fedadam-rows-v0-corrected", "fedopt", program, parameters | {"v_start": "0", "corrected": 0}, source,
               "weights by rows, v starts at 0, bias correction as in Adam", update("adam", "m = 0 and v = 0 at first", step),
               "deviation", "rows")  # fmt: skip
    yield Case("fedadam-rows-corrected", "fedopt", program, parameters | {"corrected": 0}, source,
               "weights by rows, v starts at tau^2, bias correction as in Adam", update("adam", step=step), "deviation", "rows")  # fmt: skip
    step = step.replace("^r)", "^(r + 1))")
    yield Case("fedadam-rows-v0-corrected-late", "fedopt", program, parameters | {"v_start": "0", "corrected": 1}, source,
               "weights by rows, v starts at 0, bias correction as in Adam, but one round late",
               update("adam", "m = 0 and v = 0 at first", step), "deviation", "rows")  # fmt: skip
    step = "server_lr (m / (1 - beta1^r)) / (sqrt(v / (1 - beta2^r)) + tau) in round r = 1, 2, ..."
    for name, weights in (("fedadam-v0-adam", "equal"), ("fedadam-rows-v0-adam", "rows")):
        yield Case(name, "fedopt", program, parameters | {"v_start": "0", "rule": "torch adam"}, source,
                   f"{'equal weights' if weights == 'equal' else 'weights by rows'}, the optimiser Adam of Kingma and Ba, tau for epsilon",
                   update("adam", "m = 0 and v = 0 at first", step), "deviation", weights)  # fmt: skip
    yield Case("fedadam-v0", "fedopt", program, parameters | {"v_start": "0"}, source,
               "equal weights, v starts at 0, no bias correction", update("adam", "m = 0 and v = 0 at first"), "deviation")  # fmt: skip
    for rule in ("yogi", "adagrad"):
        # The paper's experiments have no momentum in FedAdagrad.
        chosen = parameters | {"rule": rule} | ({"beta1": 0.0} if rule == "adagrad" else {})
        yield Case(f"fed{rule}", "fedopt", program, chosen, source, "equal weights, v starts at tau^2", update(rule))
        yield Case(f"fed{rule}-rows", "fedopt", program, chosen, source, "weights by rows, v starts at tau^2", update(rule), "open",
                   "rows")  # fmt: skip
        yield Case(f"fed{rule}-v0", "fedopt", program, chosen | {"v_start": "0"}, source, "equal weights, v starts at 0",
                   update(rule, "m = 0 and v = 0 at first"), "deviation")  # fmt: skip
        yield Case(f"fed{rule}-rows-v0", "fedopt", program, chosen | {"v_start": "0"}, source, "weights by rows, v starts at 0",
                   update(rule, "m = 0 and v = 0 at first"), "deviation", "rows")  # fmt: skip
    source, program = "Hsu, Qi and Brown, 2019, section 4.2", adaptive.fedavgm
    parameters = ROUND | {"server_lr": 1.0, "beta": 0.6, "nesterov": False}
    mean = "d = sum_S lambda_i (y_i - x) / sum_S lambda_i"
    yield Case("fedavgm", "fedopt", program, parameters, source, "weights by rows, v starts at 0, v is not dampened",
               [LOCAL, mean, "v <- beta v + d", "x <- x + server_lr v"], weights="rows")  # fmt: skip
    yield Case("fedavgm-rate", "fedopt", program, parameters | {"server_lr": 0.8}, source,
               "weights by rows, v starts at 0, v is not dampened, a step size of the server",
               [LOCAL, mean, "v <- beta v + d", "x <- x + server_lr v"], "open", "rows")  # fmt: skip
    yield Case("fedavgm-nesterov", "fedopt", program, parameters | {"nesterov": True}, source,
               "weights by rows, Nesterov's momentum", [LOCAL, mean, "v <- beta v + d", "x <- x + server_lr (d + beta v)"],
               "open", "rows")  # fmt: skip
    yield Case("fedavgm-equal", "fedopt", program, parameters, source, "equal weights, v starts at 0, v is not dampened",
               [LOCAL, mean, "v <- beta v + d", "x <- x + server_lr v"], "open")  # fmt: skip
    yield Case("fedavgm-dampened", "fedopt", program, parameters | {"dampening": 0.6}, source,
               "weights by rows, v is dampened", [LOCAL, mean, "v <- beta v + (1 - beta) d", "x <- x + server_lr v"], "deviation",
               "rows")  # fmt: skip


def _others():
    dyn = ["h <- h - alpha sum_S lambda_i (y_i - x); g_i <- g_i - alpha (y_i - x)", "x <- mean_S y_i - h / alpha"]
    source = "Acar et al., 2021, Algorithm 1"
    yield Case("feddyn", "feddyn", proximal.feddyn, {"alpha": 2.0}, source, "equal weights, exact minimisers, g_i and h start at 0",
               ["for i in S: y_i = argmin_w f_i(w) - <g_i, w> + (alpha / 2) |w - x|^2", *dyn])  # fmt: skip
    steps = "for i in S: y_i = x; repeat local_steps times: y_i <- y_i - lr (grad f_i(y_i) - g_i + alpha (y_i - x))"
    for name, weights in (("feddyn-steps", "equal"), ("feddyn-steps-rows", "rows")):
        yield Case(name, "feddyn", proximal.feddyn, ROUND | {"alpha": 2.0}, source,
                   f"{'equal weights' if weights == 'equal' else 'weights by rows'}, two gradient steps, g_i and h start at 0",
                   [steps, *dyn], "open", weights)  # fmt: skip
    yield Case("scaffnew", "scaffnew", corrected.scaffnew, {"lr": 0.2, "probability": 0.5}, "Mishchenko et al., 2022, Algorithm 2",
               "equal weights, all clients, the numbers of local steps are in `draws`",
               ["z_i = x; repeat local_steps times: z_i <- z_i - lr (grad f_i(z_i) - h_i)", "x <- sum_i lambda_i z_i",
                "h_i <- h_i + (probability / lr) (x - z_i); h_i = 0 at first"], cohorts=EVERYONE,
               given={"local_steps": [1, 3, 1]})  # fmt: skip
    source = "Nguyen et al., 2022, Algorithm 1"
    update = ["client i got x_i in round `sent`: y_i = x_i; repeat local_steps times: y_i <- y_i - lr grad f_i(y_i)"]
    for name, power, variant, factor in (
        ("fedbuff", 0.0, "a buffer of two replies, equal weights", ""),
        ("fedbuff-staleness", 0.5, "a buffer of two replies, weights (1 + tau_i)^-1/2", "(1 + tau_i)^-power "),
    ):
        yield Case(name, "fedbuff", asynchronous.fedbuff, ROUND | {"server_lr": 0.8, "power": power}, source, variant,
                   [*update, "tau_i: steps that the server made since it sent x_i; what was sent in 0 and 1 has x of the start",
                    f"x <- x + server_lr (1 / 2) sum over the buffer of {factor}(y_i - x_i)"],
                   "paper" if power == 0 else "open", cohorts=ARRIVALS)  # fmt: skip


def _further():
    yield Case("mblocalgd", "mblocalgd", averaging.unbiased, ROUND, "McMahan et al., 2017, with unbiased weights",
               "weights by rows, lambda_i / p_i", [LOCAL, "x <- x + sum_S (lambda_i / p_i) (y_i - x)"], "open", "rows")  # fmt: skip
    yield Case("mbgd", "mbgd", averaging.mbgd, {"lr": 0.2}, "Minibatch gradient descent", "weights by rows, lambda_i / p_i",
               ["x <- x - lr sum_S (lambda_i / p_i) grad f_i(x)"], weights="rows")  # fmt: skip
    yield Case("gd", "gd", averaging.gd, {"lr": 0.2}, "Gradient descent", "weights by rows, all clients",
               ["x <- x - lr sum_i lambda_i grad f_i(x)"], weights="rows", cohorts=EVERYONE)  # fmt: skip
    yield Case("fedexp", "fedexp", averaging.fedexp, ROUND | {"epsilon": 0.0001}, "Jhunjhunwala, Wang and Joshi, 2023, Algorithm 1",
               "equal weights", [LOCAL, "d_i = y_i - x", "x <- x + max(1, mean |d_i|^2 / (2 (|mean d_i|^2 + epsilon))) mean d_i"])  # fmt: skip
    yield Case("fedsam", "fedsam", averaging.fedsam, ROUND | {"radius": 0.1}, "Qu et al., 2022, Algorithm 1", "weights by rows",
               ["for i in S: y_i = x; repeat: g = grad f_i(y_i), y_i <- y_i - lr grad f_i(y_i + radius g / |g|)",
                "x <- x + sum_S lambda_i (y_i - x) / sum_S lambda_i"], weights="rows")  # fmt: skip
    yield Case("q-fedavg", "q-fedavg", averaging.q_fedavg, ROUND | {"q": 1.5}, "Li et al., 2020 (ICLR), Algorithm 2",
               "equal weights", [LOCAL, "g_i = (x - y_i) / lr, h_i = q f_i(x)^(q - 1) |g_i|^2 + f_i(x)^q / lr",
                                 "x <- x - sum_S f_i(x)^q g_i / sum_S h_i"])  # fmt: skip
    for variant in ("I", "II"):
        yield Case(f"fedac-{len(variant)}", "fedac", averaging.fedac, {"lr": 0.1, "local_steps": 2, "mu": 0.1, "interval": 2.0,
                   "variant": variant}, "Yuan and Ma, 2020, Algorithm 1", f"FedAc-{variant}, equal weights",
                   ["gamma = max(sqrt(lr / (mu interval)), lr)",
                    "alpha = 1 / (gamma mu), beta = alpha + 1" if variant == "I"
                    else "alpha = 3 / (2 gamma mu) - 1 / 2, beta = (2 alpha^2 - 1) / (alpha - 1)",
                    "for i in S from w, v: repeat: u = w / beta + (1 - 1 / beta) v, v <- u - lr grad f_i(u), "
                    "w <- (1 - 1 / alpha) w + u / alpha - gamma grad f_i(u)", "w <- mean_S w_i, v <- mean_S v_i"])  # fmt: skip
    yield Case("fedvarp", "fedvarp", corrected.fedvarp, ROUND, "Jhunjhunwala et al., 2022, Algorithm 1", "equal weights, h_i start at 0",
               [LOCAL, "d_i = y_i - x", "x <- x + mean_i h_i + mean_S (d_i - h_i), then h_i <- d_i for i in S"])  # fmt: skip
    momentum = ROUND | {"alpha": 0.3, "server_lr": 0.4}
    yield Case("fedcm", "fedcm", corrected.fedcm, momentum, "Xu et al., 2021, Algorithm 2", "equal weights, d starts at 0",
               ["for i in S: y_i = x; repeat: y_i <- y_i - lr (alpha grad f_i(y_i) + (1 - alpha) d); g_i: the mean of these gradients",
                "d <- alpha mean_S g_i + (1 - alpha) d, x <- x - server_lr d"])  # fmt: skip
    yield Case("scaffold-m", "scaffold-m", corrected.scaffold_m, momentum, "Cheng et al., 2024, Algorithm 2",
               "equal weights, d, c and c_i start at 0",
               ["for i in S: y_i = x; repeat: y_i <- y_i - lr (alpha (grad f_i(y_i) - c_i + c) + (1 - alpha) d); g_i as in fedcm",
                "d <- alpha (c + mean_S (g_i - c_i)) + (1 - alpha) d, x <- x - server_lr d",
                "c <- c + (1 / N) sum_S (g_i - c_i), c_i <- g_i"])  # fmt: skip
    yield Case("fedlin", "fedlin", corrected.fedlin, {"lr": 0.4, "local_steps": [2, 1, 3, 2]}, "Mitra et al., 2021, Algorithm 1",
               "equal weights, all clients", ["g = mean_i grad f_i(x)", "y_i = x; repeat local_steps[i] times: "
               "y_i <- y_i - (lr / local_steps[i]) (grad f_i(y_i) - grad f_i(x) + g)", "x <- mean_i y_i"], cohorts=EVERYONE)  # fmt: skip
    local = "for i in S: y_i = x; repeat: y_i <- y_i - lr (grad f_i(y_i) - grad f_i(x) + v)"
    source = "Karimireddy et al., 2021 (Mime), section 5"
    yield Case("mimemvr", "mimemvr", corrected.mimemvr, ROUND, source, "equal weights, no momentum",
               ["v = mean_S grad f_i(x)", local, "x <- mean_S y_i"])  # fmt: skip
    yield Case("mimemvr-momentum", "mimemvr", corrected.mimemvr, ROUND | {"momentum": 0.4}, source, "equal weights, momentum a",
               ["v <- mean_S grad f_i(x) + (1 - momentum) (v - mean_S grad f_i(x of the round before)); no old v at first", local,
                "x <- mean_S y_i"])  # fmt: skip
    source = "Karimireddy et al., 2021, Algorithm 1"
    yield Case("mime", "mime", corrected.mime, ROUND | {"beta": 0.6, "lite": False}, source, "equal weights, heavy-ball momentum",
               ["c = mean_S grad f_i(x)", "for i in S: y_i = x; repeat: y_i <- y_i - lr (beta m + grad f_i(y_i) - grad f_i(x) + c)",
                "x <- mean_S y_i, m <- beta m + c"])  # fmt: skip
    yield Case("mimelite", "mimelite", corrected.mime, ROUND | {"beta": 0.6, "lite": True}, source,
               "equal weights, heavy-ball momentum",
               ["for i in S: y_i = x; repeat: y_i <- y_i - lr (beta m + grad f_i(y_i))",
                "x <- mean_S y_i, m <- beta m + mean_S grad f_i(x), at the old x"])  # fmt: skip


def _rest():
    def case(name, kind, program, parameters, source, variant, *update, **further):
        return Case(name, kind, program, parameters, source, variant, [*update], **further)

    mean = "x <- x + mean_S (y_i - x)"
    yield case("diloco", "diloco", adaptive.diloco, {"lr": 0.1, "local_steps": 2, "weight_decay": 0.1, "server_lr": 0.7, "beta": 0.9},
               "Douillard et al., 2023, Algorithm 1", "equal weights, cohorts, AdamW at the clients with its usual betas and epsilon 1e-8",
               "for i in S: y_i = x; repeat local_steps times: a step of AdamW from the state that the client has kept",
               "d = mean_S (y_i - x), v <- beta v + d, x <- x + server_lr (d + beta v)")  # fmt: skip
    yield case("fedlamb", "fedlamb", adaptive.fedlamb, {"lr": 0.1, "local_steps": 2, "beta1": 0.9, "beta2": 0.999, "epsilon": 0.01},
               "Karimi et al., 2023, Algorithm 2", "equal weights, one layer, no weight decay",
               "m_i <- beta1 m_i + (1 - beta1) g, v_i <- beta2 v_i + (1 - beta2) g^2, p = m_i / (sqrt(v) + epsilon), "
               "y_i <- y_i - lr |y_i| p / |p|", "x <- mean_S y_i, v <- max(v, mean_S v_i)")  # fmt: skip
    yield case("fedspeed", "fedspeed", corrected.fedspeed, ROUND | {"gamma": 2.0, "radius": 0.1, "alpha": 0.7},
               "Sun et al., 2023, Algorithm 1", "equal weights, h_i start at 0, a perturbation of fixed length",
               "y_i <- y_i - lr ((1 - alpha) g + alpha grad f_i(y_i + radius g / |g|) - h_i + (y_i - x) / gamma), g = grad f_i(y_i)",
               "h_i <- h_i - (y_i - x) / gamma, x <- mean_S (y_i - gamma h_i)")  # fmt: skip
    yield case("scaffold-sag", "scaffold-sag", corrected.scaffold_sag, ROUND, "Cost-aware client selection, appendix A",
               "equal weights, b_i start at grad f_i(x)", "b_i <- grad f_i(x) for i in S, b = mean_i b_i",
               "for i in S: y_i = x; repeat: y_i <- y_i - lr (grad f_i(y_i) - grad f_i(x) + b)", mean)  # fmt: skip
    yield case("ef21", "ef21", corrected.ef21, {"lr": 0.2, "kept": 2}, "Richtarik et al., 2021; Fatkhullin et al., 2021",
               "equal weights, cohorts, C keeps the two largest entries, g_i start at 0",
               "g_i <- g_i + C(grad f_i(x) - g_i) for i in S, then x <- x - lr mean_i g_i")  # fmt: skip
    for name, rule, alpha in (("fedexprox-1", None, 1.5), ("fedexprox-2", "grads", None)):
        yield case(name, "fedexprox", proximal.fedexprox, {"gamma": 0.5, "rule": rule, "alpha": alpha},
                   "Li, Acharya and Richtarik, 2024, Algorithm 1", f"equal weights, {'a constant alpha' if alpha else 'gradient diversity'}",
                   "x_i = argmin_y f_i(y) + |y - x|^2 / (2 gamma) for i in S, x <- x + alpha mean_S (x_i - x)",
                   *([] if alpha else ["alpha = mean_S |x_i - x|^2 / |mean_S (x_i - x)|^2"]))  # fmt: skip
    yield case("point-saga", "point-saga", proximal.point_saga, {"gamma": 0.5}, "Defazio, 2016, Algorithm 1", "cohorts, equal weights",
               "z = x - gamma mean_i y_i, w_i = argmin_w f_i(w) - <w, y_i> + |w - z|^2 / (2 gamma) for i in S",
               "x <- mean_S w_i, y_i <- y_i - (w_i - z) / gamma; y_i = 0 at first")  # fmt: skip
    yield case("5gcs", "5gcs", proximal.five_gcs, {"gamma": 0.5, "mu": 0.1},
               "Grudzien, Malinovsky and Richtarik, 2022, Algorithm 1", "equal weights, exact minimisers, h_i and v start at 0",
               "z = (x - gamma v) / (1 + gamma mu), y_i = argmin_y f_i(y) - (mu / 2) |y|^2 - <y, h_i> + |y - z|^2 / (2 gamma)",
               "h_i <- grad f_i(y_i) - mu y_i for i in S, x <- z - gamma mean_S (change of h_i), v = mean_i h_i")  # fmt: skip
    yield case("s-dane", "s-dane", proximal.s_dane, {"lam": 2.0, "mu": 0.1}, "Jiang, Rodomanov and Stich, 2024, Algorithm 1",
               "equal weights, exact minimisers, v starts at x", "g = mean_S grad f_i(v)",
               "x_i = argmin_y f_i(y) + <g - grad f_i(v), y> + (lam / 2) |y - v|^2 for i in S, x <- mean_S x_i",
               "v <- (lam v + mu x - mean_S grad f_i(x_i)) / (lam + mu)")  # fmt: skip
    yield case("dane", "dane", proximal.dane, {"lam": 0.5, "lr": 0.8}, "Shamir, Srebro and Zhang, 2014, figure 1",
               "equal weights, all clients, exact minimisers", "g = mean_i grad f_i(x)",
               "y_i = argmin_y f_i(y) - <grad f_i(x) - lr g, y> + (lam / 2) |y - x|^2, x <- mean_i y_i", cohorts=EVERYONE)  # fmt: skip
    yield case("feddcd", "feddcd", proximal.feddcd, {"lr": 0.8, "convexity": 0.5}, "FedDCD, Algorithm 1",
               "equal weights, exact minimisers, y_i start at 0", "w_i = argmin_w f_i(w) - <w, y_i> for i in S, x <- mean_S w_i",
               "y_i <- y_i - lr convexity (w_i - x) for i in S")  # fmt: skip
    yield case("pfedme", "pfedme", proximal.pfedme, {"lr": 0.1, "local_steps": 2, "lam": 3.0, "server_lr": 0.8},
               "T. Dinh et al., 2020, Algorithm 1", "equal weights, exact minimisers; only the cohort computes",
               "w_i = x; repeat local_steps times: theta_i = argmin_v f_i(v) + (lam / 2) |v - w_i|^2, w_i <- w_i - lr lam (w_i - theta_i)",
               "x <- x + server_lr mean_S (w_i - x)")  # fmt: skip
    yield case("ditto", "ditto", personal.ditto, ROUND | {"lam": 0.7, "own_lr": 0.1, "own_steps": 2}, "Li et al., 2021, Algorithm 1",
               "weights by rows, v_i start at x", LOCAL,
               "for i in S: repeat own_steps times: v_i <- v_i - own_lr (grad f_i(v_i) + lam (v_i - x)), with the x that was sent",
               "x <- x + sum_S lambda_i (y_i - x) / sum_S lambda_i", weights="rows")  # fmt: skip
    yield case("apfl", "apfl", personal.apfl, ROUND | {"alpha": 0.3}, "Deng et al., 2020, Algorithm 1",
               "weights by rows, one fixed alpha, v_i start at x",
               "w_i = x; repeat: v_i <- v_i - lr alpha grad f_i(alpha v_i + (1 - alpha) w_i) and w_i <- w_i - lr grad f_i(w_i), "
               "both from the old ones", "x <- x + sum_S lambda_i (w_i - x) / sum_S lambda_i", weights="rows")  # fmt: skip
    yield case("flix", "flix", personal.flix, {"lr": 0.2, "alpha": 0.6}, "Gasanov et al., 2022, Algorithm 1",
               "equal weights, cohorts, exact x_i*", "x <- x - lr mean_S alpha grad f_i(alpha x + (1 - alpha) x_i*), x_i* = argmin f_i")  # fmt: skip
    yield case("agnostic-fl", "agnostic-fl", personal.agnostic, {"lr": 0.1, "weights_lr": 0.2},
               "Mohri, Sivek and Suresh, 2019, Algorithm 1", "cohorts; `mean` is the output, w starts at 1 / N",
               "mean: that of all x before this round's step", "x <- x - lr (N / |S|) sum_S w_i grad f_i(x)",
               "w <- projection onto the simplex of w + weights_lr v, v_i = (N / |S|) f_i(x) for i in S and 0 else, at the old x")  # fmt: skip
    yield case("l2gd", "l2gd", personal.l2gd, {"lr": 0.1, "probability": 0.5, "lam": 0.8}, "Hanzely and Richtarik, 2020, Algorithm 1",
               "equal weights, all clients; `draws` has the numbers of steps of both kinds",
               "repeat pulls times: x_i <- x_i - (lr lam / probability) (x_i - x); "
               "repeat local_steps times: x_i <- x_i - lr / (1 - probability) grad f_i(x_i); then x = mean_i x_i", cohorts=EVERYONE,
               given=L2GD)  # fmt: skip
    source = "Cohort Squeeze, Algorithm"
    yield case("fedprox-sppm", "fedprox-sppm", proximal.proximal_means, {"gamma": 0.5, "inner": 2}, f"{source} 2", "equal weights, exact "
               "minimisers", "inner times with one cohort: x <- mean_S argmin_w f_i(w) + |w - x|^2 / (2 gamma)")  # fmt: skip
    yield case("fedavg-sppm", "fedavg-sppm", proximal.proximal_means, {"gamma": 0.5, "alpha": 0.8, "inner": 2}, f"{source} 3",
               "equal weights, exact minimisers", "y = x; inner times with one cohort: c = (alpha x + gamma y) / (alpha + gamma), "
               "y <- mean_S argmin_w f_i(w) + (1 / gamma + 1 / alpha) |w - c|^2 / 2", "x <- y")  # fmt: skip
    yield case("acc-s-dane", "acc-s-dane", proximal.acc_s_dane, {"lam": 2.0, "mu": 0.1}, "Jiang, Rodomanov and Stich, 2024, Algorithm 2",
               "equal weights, exact minimisers; total is A, 0 at first", "B = 1 + mu A, a > 0 with lam a^2 = (A + a) B, y = (A x + a v) / (A + a)",
               "g = mean_S grad f_i(y), x_i = argmin_w f_i(w) + <g - grad f_i(y), w> + (lam / 2) |w - y|^2 for i in S, x <- mean_S x_i",
               "v <- (B v + a mu x - a mean_S grad f_i(x_i)) / (B + a mu), A <- A + a")  # fmt: skip
    yield case("aide", "aide", proximal.aide, {"lam": 0.5, "lr": 1.0, "kappa": 1.0, "mu": 0.1, "inner": 2},
               "Reddi et al., 2016 (AIDE), Algorithm 2", "equal weights, all clients, exact minimisers",
               "z = x; inner times a step of DANE from z for h_i(w) = f_i(w) + (kappa / 2) |w - y|^2, as in `dane`",
               "y <- z + (1 - sqrt q) / (1 + sqrt q) (z - x), q = mu / (mu + kappa), and x <- z", cohorts=EVERYONE)  # fmt: skip
    yield case("fednl-zero", "fednl", proximal.newton_zero, {}, "Safaryan et al., 2022, Newton-Zero", "equal weights, all clients, logistic loss",
               "x <- x - H^-1 mean_i grad f_i(x), H = mean_i of the Hessians at the start", cohorts=EVERYONE, loss="logistic")  # fmt: skip
    yield case("lazy-dane", "lazy-dane", proximal.lazy_dane, {"lam": 2.0, "momentum": 0.3}, "turnout, LazyDane", "equal weights, a given lam",
               "b, z: the means of the b_i and x_i of the clients that were heard; before that 0 and x, and no tilt",
               "y_i = argmin_w f_i(w) + <b - grad f_i(z), w> + (lam / 2) |w - x|^2 for i in S",
               "x <- x + mean_S (y_i - x) + momentum (x - last x), b_i <- grad f_i(x) and x_i <- x at the old x")  # fmt: skip
    one = "client i got x_i in round `sent`: y_i = x_i; repeat local_steps times: y_i <- y_i - lr grad f_i(y_i)"
    program = asynchronous.one_at_a_time
    yield case("fedasync", "fedasync", program, ROUND | {"rule": "fedasync", "alpha": 0.6, "power": 0.5},
               "Xie, Koyejo and Gupta, 2019, Algorithm 1", "polynomial staleness, one reply in each round; the change is of x_i, which "
               "was sent, and x moves by alpha (1 + tau)^-power (y_i - x)", one, cohorts=ONE_BY_ONE)  # fmt: skip
    yield case("mifa", "mifa", program, ROUND | {"rule": "mifa"}, "Gu et al., 2021, Algorithm 1",
               "one reply in each round, G_i = 0 before the first", one, "G_i <- y_i - x_i, x <- x + mean_i G_i", cohorts=ONE_BY_ONE)  # fmt: skip
    yield case("ringmaster", "ringmaster", program, ROUND | {"rule": "ringmaster", "threshold": 2},
               "Maranjyan, Tyurin and Richtarik, 2025", "one reply in each round; the third is too old", one,
               "x <- x + y_i - x_i where the server made fewer than threshold steps since it sent x_i", cohorts=ONE_BY_ONE)  # fmt: skip


CASES = {case.name: case for make in (_averaging, _scaffold, _fednova, _servers, _others, _further, _rest) for case in make()}
"""All test vectors by name."""

TEN = ("fedavg", "fedprox", "scaffold", "fednova", "fedopt", "feddyn", "scaffnew", "fedbuff")
"""Kinds of the ten algorithms that have a second reference; SCAFFOLD is two, and "fedopt" is FedAdam and FedAvgM."""


def family(case: Case) -> str:
    """Algorithm and option: the vectors of a family differ in what papers leave open, or in what programs do otherwise."""
    if case.kind in ("fedopt", "scaffold", "fedac"):
        return re.match(r"fedavgm|[a-z]+(-[12])?", case.name).group()
    return case.kind


def played(case: Case) -> Log:
    """Run the program of a case."""
    log = Log()
    case.program(Tiny(case.loss, case.weights), log, case.cohorts, **case.parameters, **case.given)
    return log


def document(case: Case) -> dict:
    """The content of the file."""
    log = played(case)
    return {
        "format": 1,
        "name": case.name,
        "family": family(case),
        "algorithm": case.kind,
        "variant": case.variant,
        "status": case.status,
        "source": case.source,
        "license": "CC0-1.0",
        "update": case.update,
        "problem": Tiny(case.loss, case.weights).described(),
        "parameters": case.parameters,
        "tolerance": 1e-10,
        "start": log.first,
        "rounds": log.rounds,
    }
