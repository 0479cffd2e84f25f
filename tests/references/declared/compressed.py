"""Algorithms with an unbiased codec: rand-k, which keeps two of three numbers and multiplies them by 3/2."""

from tests.references import compressed, drawn_steps
from tests.references.declared.case import COHORTS, EVERYONE, Case
from tests.references.declared.drawn import COINS, COMMON, MOVES, OWN, PAIRS, PLACES, ROWS, SHARES

CODEC = "rand-k with `kept` of the d = 3 numbers times d / kept, so that omega = d / kept - 1"
OF_COHORT = [{str(i): drawn[str(i)] for i in cohort} for cohort, drawn in zip(COHORTS, PLACES, strict=True)]
TRIPLES = [[0, 2, 3], [0, 1, 2], [0, 1, 3]]
WHOLE = {"cohorts": EVERYONE, "given": {"places": PLACES}}
PART = {"given": {"places": OF_COHORT}}
RAND_K = {"lr": 0.2, "kept": 2}


def cases():
    def case(name, kind, program, parameters, source, variant, *update, **further):
        return Case(name, kind, program, parameters, source, f"equal weights, {variant}", [*update], **further)

    learned, every, some = compressed.learned_gradient, f"all clients, {CODEC}", f"cohorts, {CODEC}"
    reply = "m_i = C(grad f_i(x) - h_i) for i in S, h_i = 0 at first, h = mean_i h_i"
    step = "x <- x - lr (h + (1 / |S|) sum_S m_i), then h_i <- h_i + m_i / (1 + omega) for i in S"
    source = "Mishchenko et al., 2019"
    yield case("diana", "diana", learned, RAND_K, source, every, reply, step, **WHOLE)
    yield case("diana-cohort", "diana", learned, RAND_K, source, some, reply, step, status="open", **PART)

    source, rates = "Condat, Yi and Richtarik, 2022, Algorithm 1", RAND_K | {"rate": 0.4, "nu": 0.7}
    step = "x <- x - lr (h + (nu / |S|) sum_S m_i), then h_i <- h_i + rate m_i for i in S"
    yield case("ef-bv", "ef-bv", learned, rates, source, every, reply, step, **WHOLE)
    yield case("ef-bv-cohort", "ef-bv", learned, rates, source, some, reply, step, status="open", **PART)

    source, coin = "Gorbunov et al., 2021", RAND_K | {"probability": 0.5}
    update = (
        "x' = x - lr g; where `draws` says `passed`: g <- mean_i grad f_i(x')",
        "elsewhere: g <- g + (1 / |S|) sum_S C(grad f_i(x') - grad f_i(x))",
        "x <- x'; g = mean_i grad f_i(x) at first",
    )
    passes = {"passes": [False, True, False]}
    yield case(
        "marina", "marina", compressed.marina, coin, source, every, *update, cohorts=EVERYONE, given=passes | {"places": PLACES}
    )
    yield case("marina-pp", "marina", compressed.marina, coin, source, some, *update, status="open", given=passes | PART["given"])

    yield case(
        "adiana",
        "adiana",
        compressed.adiana,
        coin | {"mu": 0.1},
        "Li, Kovalev, Qian and Richtarik, 2020, Algorithm 3",
        f"{every}; `places` has two lists for each client, of m_i and of n_i",
        "theta = min {1/4, sqrt(lr mu / probability)}, gamma = lr / (2 (theta + lr mu)); y = z = w and h_i = 0 at first",
        "x = theta z + w / 2 + (1/2 - theta) y, m_i = C(grad f_i(x) - h_i), n_i = C(grad f_i(w) - h_i), g = mean_i (h_i + m_i)",
        "h_i <- h_i + n_i / (1 + omega); where `draws` says `moved`: w <- y, the old y",
        "y <- x - lr g, z <- (1 - gamma mu) z + gamma mu x - gamma g",
        cohorts=EVERYONE,
        given={"moves": [False, True, False], "places": PAIRS},
    )

    source = "Tyurin and Richtarik, 2022"
    start = "h_i = g_i = g = 0 at first"
    yield case(
        "dasha",
        "dasha",
        compressed.dasha,
        RAND_K,
        source,
        every,
        "x' = x - lr g, k_i = grad f_i(x') - h_i, m_i = C(k_i - (g_i - h_i) / (2 omega + 1)); " + start,
        "h_i <- h_i + k_i, g_i <- g_i + m_i, g <- g + mean_i m_i, x <- x'",
        **WHOLE,
    )
    yield case(
        "dasha-pp",
        "dasha",
        compressed.dasha,
        RAND_K,
        "Tyurin and Richtarik, 2023",
        f"{some}; p = |S| / n",
        "x' = x - lr g, k_i = grad f_i(x') - grad f_i(x) - b (h_i - grad f_i(x)) for i in S, b = p / (2 - p); " + start,
        "m_i = C(k_i / p - (a / p) (g_i - h_i)), a = p / (2 omega + 1)",
        "h_i <- h_i + k_i / p, g_i <- g_i + m_i for i in S, g <- g + (1 / n) sum_S m_i, x <- x'",
        **PART,
    )

    yield case(
        "randprox",
        "randprox",
        compressed.randprox,
        {"gamma": 0.4, "beta": 0.6, "mu": 0.1, "kept": 2},
        "Condat and Richtarik, 2023, Algorithm 2",
        f"{some}, exact minimisers; f is (mu / 2) |x|^2, h the mean of the f_i - f, and R takes C of the cohort's vectors",
        "z = (1 - gamma mu) x - gamma v, v = mean_i h_i; h_i = 0 at first",
        "y_i = argmin_y f_i(y) - (mu / 2) |y|^2 - <y, h_i> + |y - z|^2 / (2 beta) for i in S, D_i = C((z - y_i) / beta)",
        "x <- z - gamma (1 / |S|) sum_S D_i, h_i <- h_i + D_i / (1 + omega) for i in S",
        **PART,
    )

    steps = {"local_steps": [1, 3, 1]}
    yield case(
        "locodl",
        "locodl",
        compressed.locodl,
        RAND_K | {"probability": 0.5, "split": 0.05},
        "Condat, Maranjyan and Richtarik, 2025",
        f"{every}, g(x) = (split / 2) |x|^2 out of each f_i; the numbers of local steps are in `draws`",
        "chi = 1 / (1 + omega / n), c = probability chi / (lr (1 + 2 omega)); x_i = y, u_i = v = 0 at first",
        "repeat local_steps times: x_i <- x_i - lr (grad f_i(x_i) - split x_i - u_i), y <- y - lr (split y - v)",
        "d_i = C(x_i - y), d = mean_i d_i / 2; u_i <- u_i + c (d - d_i), v <- v + c d",
        "x_i <- (1 - chi) x_i + chi (y + d), y <- y + chi d with the same old y",
        cohorts=EVERYONE,
        given=steps | {"places": PLACES},
    )
    yield case(
        "tamuna",
        "tamuna",
        compressed.tamuna,
        {"lr": 0.2, "copies": 2, "probability": 0.5},
        "Condat et al., 2023",
        "cohorts, each number from s = `copies` clients; the numbers of local steps and who sends which are in `draws`",
        "for i in S: z_i = x; repeat local_steps times: z_i <- z_i - lr (grad f_i(z_i) - h_i); h_i = 0 at first",
        "of each number k, for the s clients that send it: x_k <- mean of their z_ik",
        "for them h_ik <- h_ik + (probability chi / lr) (x_k - z_ik), chi = n (s - 1) / (s (n - 1))",
        cohorts=TRIPLES,
        given=steps | {"places": SHARES},
    )

    steps = {"local_steps": [2, 4, 2]}
    coin, drawn = {"lr": 0.2, "probability": 0.4}, "all clients; the numbers of local steps are in `draws`"
    yield case(
        "gradskip",
        "gradskip",
        drawn_steps.gradskip,
        coin | {"going": [0.3, 0.5, 0.7, 0.9]},
        "Maranjyan, Safaryan and Richtarik, 2022, Algorithm 1",
        f"{drawn}, and each client's coins up to its first 0; the paper's reply lacks (lr / p) h_i, the mean of which is 0",
        "z_i = x, g_i = h_i; for each coin: 1: z_i <- z_i - lr (grad f_i(z_i) - h_i); 0: g_i = grad f_i(z_i) and no more steps",
        "reply z_i - (lr / p) (g_i - h_i), x <- mean_i of the replies, p = probability",
        "h_i <- g_i + (p / lr) (x - z_i); h_i = 0 at first",
        cohorts=EVERYONE,
        given=steps | {"coins": COINS},
    )
    yield case(
        "gradskip-plus",
        "gradskip-plus",
        drawn_steps.gradskip_plus,
        {"lr": 0.1, "probability": 0.4, "kept": 2, "own_kept": 2},
        "Maranjyan, Safaryan and Richtarik, 2022, Algorithm 2",
        f"{drawn}; C keeps the `places` of the round at all clients, C_own those of `own_places` in each local step",
        "repeat local_steps times: c_i = C_own(grad f_i(x_i) - h_i) / (1 + W), h_i <- grad f_i(x_i) - c_i, x_i <- x_i - lr c_i",
        "reply C(x_i - (lr / s) h_i), s = probability / (1 + omega), C(v) = the mean of the replies",
        "d_i = (C(x_i) - C(v)) / (1 + omega), x_i <- x_i - d_i, h_i <- h_i - (s / lr) d_i; h_i = 0 and x_i = x at first",
        "omega = 3 / kept - 1 and W = 3 / own_kept - 1; x has at the `places` the numbers of v",
        cohorts=EVERYONE,
        given=steps | {"places": COMMON, "own_places": OWN},
    )
    yield case(
        "proxskip-vr",
        "proxskip-vr",
        drawn_steps.proxskip_vr,
        coin | {"batch": 2, "refresh": 0.4},
        "Malinovsky, Yi and Richtarik, 2022",
        f"{drawn}, as are the batches of rows, drawn with replacement, and when w_i moves",
        "z_i = x; repeat local_steps times: g_i = grad f_B(z_i) - grad f_B(w_i) + grad f_i(w_i), B the rows of the batch;",
        "where `moved`: w_i <- z_i; z_i <- z_i - lr (g_i - h_i)",
        "x <- mean_i z_i, h_i <- h_i + (probability / lr) (x - z_i); w_i = x and h_i = 0 at first",
        cohorts=EVERYONE,
        given=steps | {"batches": ROWS, "moves": MOVES},
    )
