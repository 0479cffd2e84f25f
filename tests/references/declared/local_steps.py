"""Further algorithms of local gradient steps."""

from tests.references import averaging, corrected
from tests.references.declared.case import EVERYONE, LOCAL, ROUND, Case


def cases():
    yield Case(
        "mblocalgd",
        "mblocalgd",
        averaging.unbiased,
        ROUND,
        "McMahan et al., 2017, with unbiased weights",
        "weights by rows, lambda_i / p_i",
        [LOCAL, "x <- x + sum_S (lambda_i / p_i) (y_i - x)"],
        "open",
        "rows",
    )
    yield Case(
        "mbgd",
        "mbgd",
        averaging.mbgd,
        {"lr": 0.2},
        "Minibatch gradient descent",
        "weights by rows, lambda_i / p_i",
        ["x <- x - lr sum_S (lambda_i / p_i) grad f_i(x)"],
        weights="rows",
    )
    yield Case(
        "gd",
        "gd",
        averaging.gd,
        {"lr": 0.2},
        "Gradient descent",
        "weights by rows, all clients",
        ["x <- x - lr sum_i lambda_i grad f_i(x)"],
        weights="rows",
        cohorts=EVERYONE,
    )
    yield Case(
        "fedexp",
        "fedexp",
        averaging.fedexp,
        ROUND | {"epsilon": 0.0001},
        "Jhunjhunwala, Wang and Joshi, 2023, Algorithm 1",
        "equal weights",
        [LOCAL, "d_i = y_i - x", "x <- x + max(1, mean |d_i|^2 / (2 (|mean d_i|^2 + epsilon))) mean d_i"],
    )
    yield Case(
        "fedsam",
        "fedsam",
        averaging.fedsam,
        ROUND | {"radius": 0.1},
        "Qu et al., 2022, Algorithm 1",
        "weights by rows",
        [
            "for i in S: y_i = x; repeat: g = grad f_i(y_i), y_i <- y_i - lr grad f_i(y_i + radius g / |g|)",
            "x <- x + sum_S lambda_i (y_i - x) / sum_S lambda_i",
        ],
        weights="rows",
    )
    yield Case(
        "q-fedavg",
        "q-fedavg",
        averaging.q_fedavg,
        ROUND | {"q": 1.5},
        "Li et al., 2020 (ICLR), Algorithm 2",
        "equal weights",
        [
            LOCAL,
            "g_i = (x - y_i) / lr, h_i = q f_i(x)^(q - 1) |g_i|^2 + f_i(x)^q / lr",
            "x <- x - sum_S f_i(x)^q g_i / sum_S h_i",
        ],
    )
    yield Case(
        "adacomm",
        "adacomm",
        averaging.adacomm,
        {"lr": 0.1, "local_steps": 6, "interval": 1},
        "Wang and Joshi, 2019, section 4",
        "equal weights, the loss of the cohort, measured every `interval` rounds; b starts at local_steps",
        [
            "F = mean_S f_i(x) if the loss is measured; F_0: the first",
            "for i in S: y_i = x; repeat ceil(b) times: y_i <- y_i - lr grad f_i(y_i)",
            "x <- mean_S y_i",
            "after each measured round but the first: r = max(sqrt(F / F_0) local_steps, 1), "
            "b <- r if ceil(r) < ceil(b), else max(b / 2, 1)",
        ],
        "open",
    )
    yield Case(
        "easgd",
        "easgd",
        averaging.easgd,
        ROUND | {"alpha": 0.3, "beta": 0.6},
        "Zhang, Choromanska and LeCun, 2015, section 3 and Algorithm 1",
        "equal weights, cohorts, x_i start at x; the paper's beta = 2 alpha for cohorts of two",
        [
            "for i in S: d_i = x_i - x, x_i <- x_i - lr grad f_i(x_i) - alpha d_i",
            "then local_steps - 1 times: x_i <- x_i - lr grad f_i(x_i)",
            "x <- x + beta mean_S d_i",
        ],
        "open",
    )
    for variant in ("I", "II"):
        yield Case(
            f"fedac-{len(variant)}",
            "fedac",
            averaging.fedac,
            {"lr": 0.1, "local_steps": 2, "mu": 0.1, "interval": 2.0, "variant": variant},
            "Yuan and Ma, 2020, Algorithm 1",
            f"FedAc-{variant}, equal weights",
            [
                "gamma = max(sqrt(lr / (mu interval)), lr)",
                "alpha = 1 / (gamma mu), beta = alpha + 1"
                if variant == "I"
                else "alpha = 3 / (2 gamma mu) - 1 / 2, beta = (2 alpha^2 - 1) / (alpha - 1)",
                "for i in S from w, v: repeat: u = w / beta + (1 - 1 / beta) v, v <- u - lr grad f_i(u), "
                "w <- (1 - 1 / alpha) w + u / alpha - gamma grad f_i(u)",
                "w <- mean_S w_i, v <- mean_S v_i",
            ],
        )
    yield Case(
        "fedvarp",
        "fedvarp",
        corrected.fedvarp,
        ROUND,
        "Jhunjhunwala et al., 2022, Algorithm 1",
        "equal weights, h_i start at 0",
        [LOCAL, "d_i = y_i - x", "x <- x + mean_i h_i + mean_S (d_i - h_i), then h_i <- d_i for i in S"],
    )
    momentum = ROUND | {"alpha": 0.3, "server_lr": 0.4}
    yield Case(
        "fedcm",
        "fedcm",
        corrected.fedcm,
        momentum,
        "Xu et al., 2021, Algorithm 2",
        "equal weights, d starts at 0",
        [
            "for i in S: y_i = x; repeat: y_i <- y_i - lr (alpha grad f_i(y_i) + (1 - alpha) d); g_i: the mean of the gradients",
            "d <- alpha mean_S g_i + (1 - alpha) d, x <- x - server_lr d",
        ],
    )
    yield Case(
        "scaffold-m",
        "scaffold-m",
        corrected.scaffold_m,
        momentum,
        "Cheng et al., 2024, Algorithm 2",
        "equal weights, d, c and c_i start at 0",
        [
            "for i in S: y_i = x; repeat: y_i <- y_i - lr (alpha (grad f_i(y_i) - c_i + c) + (1 - alpha) d); g_i as in fedcm",
            "d <- alpha (c + mean_S (g_i - c_i)) + (1 - alpha) d, x <- x - server_lr d",
            "c <- c + (1 / N) sum_S (g_i - c_i), c_i <- g_i",
        ],
    )
    yield Case(
        "fedlin",
        "fedlin",
        corrected.fedlin,
        {"lr": 0.4, "local_steps": [2, 1, 3, 2]},
        "Mitra et al., 2021, Algorithm 1",
        "equal weights, all clients",
        [
            "g = mean_i grad f_i(x)",
            "y_i = x; repeat local_steps[i] times: y_i <- y_i - (lr / local_steps[i]) (grad f_i(y_i) - grad f_i(x) + g)",
            "x <- mean_i y_i",
        ],
        cohorts=EVERYONE,
    )
    local = "for i in S: y_i = x; repeat: y_i <- y_i - lr (grad f_i(y_i) - grad f_i(x) + v)"
    source = "Karimireddy et al., 2021 (Mime), section 5"
    yield Case(
        "mimemvr",
        "mimemvr",
        corrected.mimemvr,
        ROUND,
        source,
        "equal weights, no momentum",
        ["v = mean_S grad f_i(x)", local, "x <- mean_S y_i"],
    )
    yield Case(
        "mimemvr-momentum",
        "mimemvr",
        corrected.mimemvr,
        ROUND | {"momentum": 0.4},
        source,
        "equal weights, momentum a",
        [
            "v <- mean_S grad f_i(x) + (1 - momentum) (v - mean_S grad f_i(x of the round before)); no old v at first",
            local,
            "x <- mean_S y_i",
        ],
    )
    source = "Karimireddy et al., 2021, Algorithm 1"
    yield Case(
        "mime",
        "mime",
        corrected.mime,
        ROUND | {"beta": 0.6, "lite": False},
        source,
        "equal weights, heavy-ball momentum",
        [
            "c = mean_S grad f_i(x)",
            "for i in S: y_i = x; repeat: y_i <- y_i - lr (beta m + grad f_i(y_i) - grad f_i(x) + c)",
            "x <- mean_S y_i, m <- beta m + c",
        ],
    )
    yield Case(
        "mimelite",
        "mimelite",
        corrected.mime,
        ROUND | {"beta": 0.6, "lite": True},
        source,
        "equal weights, heavy-ball momentum",
        [
            "for i in S: y_i = x; repeat: y_i <- y_i - lr (beta m + grad f_i(y_i))",
            "x <- mean_S y_i, m <- beta m + mean_S grad f_i(x), at the old x",
        ],
    )
