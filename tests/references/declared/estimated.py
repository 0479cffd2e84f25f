"""Algorithms that move along an estimate of the gradient, and steps along replies that come one at a time."""

from tests.references import asynchronous, estimated
from tests.references.declared.case import Case
from tests.references.declared.drawn import ARRIVALS, SECONDS

LATER = [[2, 3], [1, 3], [1, 2]]
"""Cohorts of the second exchange of a round, where the first has one client."""

FOURS = [
    [[2, 3], [2, 3], [0, 3], [0, 2]],
    [[0, 2], [2, 3], [1, 3], [0, 1]],
    [[1, 3], [1, 2], [0, 3], [0, 2]],
]
INNER = [[[2, 3], [0, 2]], [[2, 3], [1, 3]], [[1, 2], [0, 3]]]
ONES = [2, 0, 1]


def case(name, kind, program, parameters, source, variant, *update, **further):
    return Case(name, kind, program, parameters, source, f"equal weights, {variant}", [*update], **further)


def sarah(v):
    """The update of an estimate by SARAH or PAGE, x' being the old x."""
    return f"where `draws` says `passed`: {v} <- mean_i grad f_i(x); elsewhere {v} <- {v} + mean_S' (grad f_i(x) - grad f_i(x'))"


def cases():
    yield from icgm()
    yield from by_one_client()
    yield case(
        "fedpage",
        "fedpage",
        estimated.fedpage,
        {"lr": 0.2, "local_steps": 3, "server_lr": 0.8, "probability": 0.5},
        "Zhao, Li and Richtarik, 2021",
        "all rows; a round begins with steps of its cohort S and ends with g, by another cohort S' or by all",
        "y_i = x' = x, u = g; repeat local_steps times: y_i <- y_i - lr u, u <- u + the change of grad f_i(y_i) in this step",
        "x <- x' + server_lr mean_S (y_i - x'); g = mean_i grad f_i(x) at first",
        sarah("g"),
        given={"others": [[0, 1], [0, 1], [1, 2]], "passes": [True, True, False]},
    )
    yield case(
        "catalyzed-svrp",
        "catalyzed-svrp",
        estimated.catalyzed_svrp,
        {"gamma": 0.5, "kappa": 1.0, "mu": 0.1, "inner": 2, "probability": 0.5},
        "Khaled and Jin, 2022; Lin et al., 2015",
        "exact minimisers, a cohort S in each of the inner iterations; `draws` says after which w is renewed",
        "z = w = x and grad f(w) by a pass over all clients; inner times: c = z - gamma mean_i grad f_i(w),",
        "z <- mean_S argmin_u f_i(u) - <grad f_i(w), u> + |u - c|^2 / (2 gamma) + (kappa / 2) |u - y|^2, maybe w <- z by a pass",
        "y <- z + (1 - sqrt q) / (1 + sqrt q) (z - x), q = mu / (mu + kappa), and x <- z; y = x at first",
        "the message's `centre` is (c / gamma + kappa y) / (1 / gamma + kappa)",
        cohorts=[first for first, _ in INNER],
        given={"samples": INNER, "renewed": [[True, False], [False, True], [False, False]]},
    )
    yield from one_at_a_time()


def icgm():
    source = "Cost-aware client selection, sections 3 to 6"
    parameters = {"delegate": 2, "lam": 2.0, "smoothness": 3.0, "probability": 0.5, "beta": 0.5}
    steps = {"local_steps": [3, 1, 3]}
    moves = (
        "d, the delegate, makes local_steps steps from y = x' = x, the number of which is in `draws`: y <- "
        "(smoothness y + lam x' + grad f_d(x') - g - grad f_d(y)) / (lam + smoothness); x <- y"
    )
    step = "g <- (1 - beta) g + beta G + mean_S (grad f_i(x) - grad f_i(x')); g = mean_i grad f_i(x) at first"
    yield case(
        "icgm-rg-saga",
        "icgm",
        estimated.icgm,
        parameters | {"estimator": "rg-saga"},
        source,
        "CGM_rand with RG-SAGA, all b_i are gradients at the first two x",
        moves,
        "where `draws` says `renewed`, in round 2: all b_i <- grad f_i(x'); b_i = grad f_i(x) at first",
        "G = mean_i b_i + mean_S (grad f_i(x') - b_i), then b_i <- grad f_i(x') for i in S",
        step,
        cohorts=LATER,
        given=steps | {"renewed": [False, True, False]},
    )
    yield case(
        "icgm-rg-svrg",
        "icgm",
        estimated.icgm,
        parameters | {"estimator": "rg-svrg", "anchor": 0.5},
        source,
        "CGM_rand with RG-SVRG; `draws` says when w is renewed, with the probability `anchor` from round 2",
        moves,
        "where `draws` says `renewed`: w <- x'; w = x at first",
        "G = mean_i grad f_i(w) + mean_S (grad f_i(x') - grad f_i(w))",
        step,
        cohorts=LATER,
        given=steps | {"renewed": [False, True, False]},
    )


def by_one_client():
    """SABER and CE-LGD, in which one client moves x; its number is that of the first exchange."""
    yield case(
        "saber-full",
        "saber-full",
        estimated.saber_full,
        {"lam": 2.0, "probability": 0.5},
        "Mishchenko et al., 2024, Algorithm 1",
        "exact minimisers; client j of the first exchange moves x, and a round ends with v, by a cohort S' or by all",
        "x' = x, x <- argmin_w f_j(w) + <v - grad f_j(x'), w> + (lam / 2) |w - x'|^2; v = mean_i grad f_i(x) at first",
        sarah("v"),
        cohorts=LATER,
        given={"ones": ONES, "passes": [True, True, False]},
    )
    yield case(
        "saber-partial",
        "saber-partial",
        estimated.saber_partial,
        {"lam": 2.0, "repeats": 2},
        "Mishchenko et al., 2024, Algorithm 2 with p = 1",
        "exact minimisers; `repeats` cohorts move x and as many others make v, with which a round ends",
        "x <- x + mean_S (x_i - x), x_i = argmin_w f_i(w) + <v - grad f_i(x), w> + (lam / 2) |w - x|^2, the mean over all S",
        "v <- mean_S' grad f_i(x), the mean over all S'; v = mean_i grad f_i(x) at first",
        cohorts=[fours[0] for fours in FOURS],
        given={"samples": FOURS},
    )
    yield case(
        "ce-lgd",
        "ce-lgd",
        estimated.ce_lgd,
        {"lr": 0.2, "local_steps": 3, "rho": 0.3, "first_cohort": [0, 1]},
        "Patel et al., 2022",
        "client j of the first exchange moves x, and a round ends with v, by a cohort S",
        "x' = x, u = v; repeat local_steps times: x <- x - lr u, u <- u + the change of grad f_j(x) in this step",
        "v <- mean_S (grad f_i(x) - (1 - rho) grad f_i(x')) + (1 - rho) v; v = mean grad f_i(x) of `first_cohort` at first",
        cohorts=[[2, 3], [2, 3], [1, 2]],
        given={"ones": ONES},
    )


def one_at_a_time():
    """Replies in the order of clients that work for 1.5, 4.6, 5 and 3.4 seconds."""
    slow = "all clients at work, one local step, one reply in each round"
    first = "client i got x_i in round `sent`: d_i = -lr grad f_i(x_i)"
    source = "Mahran, Maranjyan and Richtarik, 2026"
    yield case(
        "rescaled-asgd",
        "rescaled-asgd",
        asynchronous.rescaled_asgd,
        {"lr": 0.05, "seconds": SECONDS},
        source,
        f"{slow}; given seconds",
        first,
        "x <- x + lambda_i seconds_i sum_j (1 / seconds_j) d_i",
        cohorts=ARRIVALS,
    )
    yield case(
        "rescaled-asgd-measured",
        "rescaled-asgd",
        asynchronous.rescaled_asgd,
        {"lr": 0.05},
        source,
        f"{slow}; seconds are measured in steps of the server",
        first,
        "x <- x + lambda_i t_i d_i, t_i = this round - max {sent, 1} + 1",
        status="open",
        cohorts=ARRIVALS,
    )
    yield case(
        "ringleader",
        "ringleader",
        asynchronous.ringleader,
        {"lr": 0.2},
        "Maranjyan and Richtarik, 2025, Algorithm 1",
        f"{slow}; twelve rounds",
        f"{first}; it joins i's updates in the table, or in the later table where some steps are due and i's is not",
        "where the table has updates of all clients and d_i joined it: x <- x + mean_j of the means of the updates of each j",
        "the first such step makes a step due at the next reply of each client but i, and later ones are those; after the last "
        "of them the later table takes the place of the table",
        "the state has sums of lambda_i d_i and counts of both tables, and 1 in `due` where a step is due",
        cohorts=ARRIVALS,
    )
