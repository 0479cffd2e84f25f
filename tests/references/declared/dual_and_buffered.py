"""FedDyn, Scaffnew and FedBuff."""

from tests.references import asynchronous, corrected, proximal
from tests.references.declared.case import ARRIVALS, EVERYONE, ROUND, Case


def cases():
    dyn = ["h <- h - alpha sum_S lambda_i (y_i - x); g_i <- g_i - alpha (y_i - x)", "x <- mean_S y_i - h / alpha"]
    source = "Acar et al., 2021, Algorithm 1"
    yield Case(
        "feddyn",
        "feddyn",
        proximal.feddyn,
        {"alpha": 2.0},
        source,
        "equal weights, exact minimisers, g_i and h start at 0",
        ["for i in S: y_i = argmin_w f_i(w) - <g_i, w> + (alpha / 2) |w - x|^2", *dyn],
    )
    steps = "for i in S: y_i = x; repeat local_steps times: y_i <- y_i - lr (grad f_i(y_i) - g_i + alpha (y_i - x))"
    for name, weights in (("feddyn-steps", "equal"), ("feddyn-steps-rows", "rows")):
        yield Case(
            name,
            "feddyn",
            proximal.feddyn,
            ROUND | {"alpha": 2.0},
            source,
            f"{'equal weights' if weights == 'equal' else 'weights by rows'}, two gradient steps, g_i and h start at 0",
            [steps, *dyn],
            "open",
            weights,
        )
    yield Case(
        "scaffnew",
        "scaffnew",
        corrected.scaffnew,
        {"lr": 0.2, "probability": 0.5},
        "Mishchenko et al., 2022, Algorithm 2",
        "equal weights, all clients, the numbers of local steps are in `draws`",
        [
            "z_i = x; repeat local_steps times: z_i <- z_i - lr (grad f_i(z_i) - h_i)",
            "x <- sum_i lambda_i z_i",
            "h_i <- h_i + (probability / lr) (x - z_i); h_i = 0 at first",
        ],
        cohorts=EVERYONE,
        given={"local_steps": [1, 3, 1]},
    )
    source = "Nguyen et al., 2022, Algorithm 1"
    update = ["client i got x_i in round `sent`: y_i = x_i; repeat local_steps times: y_i <- y_i - lr grad f_i(y_i)"]
    for name, power, variant, factor in (
        ("fedbuff", 0.0, "a buffer of two replies, equal weights", ""),
        ("fedbuff-staleness", 0.5, "a buffer of two replies, weights (1 + tau_i)^-1/2", "(1 + tau_i)^-power "),
    ):
        yield Case(
            name,
            "fedbuff",
            asynchronous.fedbuff,
            ROUND | {"server_lr": 0.8, "power": power},
            source,
            variant,
            [
                *update,
                "tau_i: steps that the server made since it sent x_i; what was sent in 0 and 1 has x of the start",
                f"x <- x + server_lr (1 / 2) sum over the buffer of {factor}(y_i - x_i)",
            ],
            "paper" if power == 0 else "open",
            cohorts=ARRIVALS,
        )
