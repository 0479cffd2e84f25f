"""Proximal steps, models of the clients' own, replies one at a time, and what is left."""

from tests.references import adaptive, asynchronous, corrected, personal, proximal
from tests.references.declared.case import EVERYONE, L2GD, LOCAL, ONE_BY_ONE, ROUND, Case


def cases():
    def case(name, kind, program, parameters, source, variant, *update, **further):
        return Case(name, kind, program, parameters, source, variant, [*update], **further)

    mean = "x <- x + mean_S (y_i - x)"
    yield case(
        "diloco",
        "diloco",
        adaptive.diloco,
        {"lr": 0.1, "local_steps": 2, "weight_decay": 0.1, "server_lr": 0.7, "beta": 0.9},
        "Douillard et al., 2023, Algorithm 1",
        "equal weights, cohorts, AdamW at the clients with its usual betas and epsilon 1e-8",
        "for i in S: y_i = x; repeat local_steps times: a step of AdamW from the state that the client has kept",
        "d = mean_S (y_i - x), v <- beta v + d, x <- x + server_lr (d + beta v)",
    )
    yield case(
        "fedlamb",
        "fedlamb",
        adaptive.fedlamb,
        {"lr": 0.1, "local_steps": 2, "beta1": 0.9, "beta2": 0.999, "epsilon": 0.01},
        "Karimi et al., 2023, Algorithm 2",
        "equal weights, one layer, no weight decay",
        "m_i <- beta1 m_i + (1 - beta1) g, v_i <- beta2 v_i + (1 - beta2) g^2, p = m_i / (sqrt(v) + epsilon), "
        "y_i <- y_i - lr |y_i| p / |p|",
        "x <- mean_S y_i, v <- max(v, mean_S v_i)",
    )
    yield case(
        "fedspeed",
        "fedspeed",
        corrected.fedspeed,
        ROUND | {"gamma": 2.0, "radius": 0.1, "alpha": 0.7},
        "Sun et al., 2023, Algorithm 1",
        "equal weights, h_i start at 0, a perturbation of fixed length",
        "y_i <- y_i - lr ((1 - alpha) g + alpha grad f_i(y_i + radius g / |g|) - h_i + (y_i - x) / gamma), g = grad f_i(y_i)",
        "h_i <- h_i - (y_i - x) / gamma, x <- mean_S (y_i - gamma h_i)",
    )
    yield case(
        "scaffold-sag",
        "scaffold-sag",
        corrected.scaffold_sag,
        ROUND,
        "Cost-aware client selection, appendix A",
        "equal weights, b_i start at grad f_i(x)",
        "b_i <- grad f_i(x) for i in S, b = mean_i b_i",
        "for i in S: y_i = x; repeat: y_i <- y_i - lr (grad f_i(y_i) - grad f_i(x) + b)",
        mean,
    )
    yield case(
        "ef21",
        "ef21",
        corrected.ef21,
        {"lr": 0.2, "kept": 2},
        "Richtarik et al., 2021; Fatkhullin et al., 2021",
        "equal weights, cohorts, C keeps the two largest entries, g_i start at 0",
        "g_i <- g_i + C(grad f_i(x) - g_i) for i in S, then x <- x - lr mean_i g_i",
    )
    for name, rule, alpha in (("fedexprox-1", None, 1.5), ("fedexprox-2", "grads", None)):
        yield case(
            name,
            "fedexprox",
            proximal.fedexprox,
            {"gamma": 0.5, "rule": rule, "alpha": alpha},
            "Li, Acharya and Richtarik, 2024, Algorithm 1",
            f"equal weights, {'a constant alpha' if alpha else 'gradient diversity'}",
            "x_i = argmin_y f_i(y) + |y - x|^2 / (2 gamma) for i in S, x <- x + alpha mean_S (x_i - x)",
            *([] if alpha else ["alpha = mean_S |x_i - x|^2 / |mean_S (x_i - x)|^2"]),
        )
    yield case(
        "point-saga",
        "point-saga",
        proximal.point_saga,
        {"gamma": 0.5},
        "Defazio, 2016, Algorithm 1",
        "cohorts, equal weights",
        "z = x - gamma mean_i y_i, w_i = argmin_w f_i(w) - <w, y_i> + |w - z|^2 / (2 gamma) for i in S",
        "x <- mean_S w_i, y_i <- y_i - (w_i - z) / gamma; y_i = 0 at first",
    )
    yield case(
        "5gcs",
        "5gcs",
        proximal.five_gcs,
        {"gamma": 0.5, "mu": 0.1},
        "Grudzien, Malinovsky and Richtarik, 2022, Algorithm 1",
        "equal weights, exact minimisers, h_i and v start at 0",
        "z = (x - gamma v) / (1 + gamma mu), y_i = argmin_y f_i(y) - (mu / 2) |y|^2 - <y, h_i> + |y - z|^2 / (2 gamma)",
        "h_i <- grad f_i(y_i) - mu y_i for i in S, x <- z - gamma mean_S (change of h_i), v = mean_i h_i",
    )
    yield case(
        "s-dane",
        "s-dane",
        proximal.s_dane,
        {"lam": 2.0, "mu": 0.1},
        "Jiang, Rodomanov and Stich, 2024, Algorithm 1",
        "equal weights, exact minimisers, v starts at x",
        "g = mean_S grad f_i(v)",
        "x_i = argmin_y f_i(y) + <g - grad f_i(v), y> + (lam / 2) |y - v|^2 for i in S, x <- mean_S x_i",
        "v <- (lam v + mu x - mean_S grad f_i(x_i)) / (lam + mu)",
    )
    yield case(
        "dane",
        "dane",
        proximal.dane,
        {"lam": 0.5, "lr": 0.8},
        "Shamir, Srebro and Zhang, 2014, figure 1",
        "equal weights, all clients, exact minimisers",
        "g = mean_i grad f_i(x)",
        "y_i = argmin_y f_i(y) - <grad f_i(x) - lr g, y> + (lam / 2) |y - x|^2, x <- mean_i y_i",
        cohorts=EVERYONE,
    )
    yield case(
        "feddcd",
        "feddcd",
        proximal.feddcd,
        {"lr": 0.8, "convexity": 0.5},
        "FedDCD, Algorithm 1",
        "equal weights, exact minimisers, y_i start at 0",
        "w_i = argmin_w f_i(w) - <w, y_i> for i in S, x <- mean_S w_i",
        "y_i <- y_i - lr convexity (w_i - x) for i in S",
    )
    yield case(
        "pfedme",
        "pfedme",
        proximal.pfedme,
        {"lr": 0.1, "local_steps": 2, "lam": 3.0, "server_lr": 0.8},
        "T. Dinh et al., 2020, Algorithm 1",
        "equal weights, exact minimisers; only the cohort computes",
        "w_i = x; repeat local_steps times: t_i = argmin_v f_i(v) + (lam / 2) |v - w_i|^2, w_i <- w_i - lr lam (w_i - t_i)",
        "x <- x + server_lr mean_S (w_i - x)",
    )
    for name, start, late in (("ditto", "v_i start at x", False), ("ditto-late", "v_i starts at the first x that i gets", True)):
        yield case(
            name,
            "ditto",
            personal.ditto,
            ROUND | {"lam": 0.7, "own_lr": 0.2, "own_steps": 2},
            "Li et al., 2021, Algorithm 1",
            f"weights by rows, {start}",
            LOCAL,
            "for i in S: repeat own_steps times: v_i <- v_i - own_lr (grad f_i(v_i) + lam (v_i - x)), with the x that was sent",
            "x <- x + sum_S lambda_i (y_i - x) / sum_S lambda_i",
            weights="rows",
            given={"late": late},
            status="open" if late else "paper",
        )
    yield case(
        "apfl",
        "apfl",
        personal.apfl,
        ROUND | {"alpha": 0.3},
        "Deng et al., 2020, Algorithm 1",
        "weights by rows, one fixed alpha, v_i start at x",
        "w_i = x; repeat: v_i <- v_i - lr alpha grad f_i(alpha v_i + (1 - alpha) w_i) and w_i <- w_i - lr grad f_i(w_i), "
        "both from the old ones",
        "x <- x + sum_S lambda_i (w_i - x) / sum_S lambda_i",
        weights="rows",
    )
    yield case(
        "flix",
        "flix",
        personal.flix,
        {"lr": 0.2, "alpha": 0.6},
        "Gasanov et al., 2022, Algorithm 1",
        "equal weights, cohorts, exact x_i*",
        "x <- x - lr mean_S alpha grad f_i(alpha x + (1 - alpha) x_i*), x_i* = argmin f_i",
    )
    yield case(
        "agnostic-fl",
        "agnostic-fl",
        personal.agnostic,
        {"lr": 0.1, "weights_lr": 0.2},
        "Mohri, Sivek and Suresh, 2019, Algorithm 1",
        "cohorts; `mean` is the output, w starts at 1 / N",
        "mean: that of all x before this round's step",
        "x <- x - lr (N / |S|) sum_S w_i grad f_i(x)",
        "w <- projection onto the simplex of w + weights_lr v, v_i = (N / |S|) f_i(x) for i in S and 0 else, at the old x",
    )
    yield case(
        "l2gd",
        "l2gd",
        personal.l2gd,
        {"lr": 0.1, "probability": 0.5, "lam": 0.8},
        "Hanzely and Richtarik, 2020, Algorithm 1",
        "equal weights, all clients; `draws` has the numbers of steps of both kinds",
        "repeat pulls times: x_i <- x_i - (lr lam / probability) (x_i - x); "
        "repeat local_steps times: x_i <- x_i - lr / (1 - probability) grad f_i(x_i); then x = mean_i x_i",
        cohorts=EVERYONE,
        given=L2GD,
    )
    source = "Cohort Squeeze, Algorithm"
    yield case(
        "fedprox-sppm",
        "fedprox-sppm",
        proximal.proximal_means,
        {"gamma": 0.5, "inner": 2},
        f"{source} 2",
        "equal weights, exact minimisers",
        "inner times with one cohort: x <- mean_S argmin_w f_i(w) + |w - x|^2 / (2 gamma)",
    )
    yield case(
        "fedavg-sppm",
        "fedavg-sppm",
        proximal.proximal_means,
        {"gamma": 0.5, "alpha": 0.8, "inner": 2},
        f"{source} 3",
        "equal weights, exact minimisers",
        "y = x; inner times with one cohort: c = (alpha x + gamma y) / (alpha + gamma), "
        "y <- mean_S argmin_w f_i(w) + (1 / gamma + 1 / alpha) |w - c|^2 / 2",
        "x <- y",
    )
    yield case(
        "acc-s-dane",
        "acc-s-dane",
        proximal.acc_s_dane,
        {"lam": 2.0, "mu": 0.1},
        "Jiang, Rodomanov and Stich, 2024, Algorithm 2",
        "equal weights, exact minimisers; total is A, 0 at first",
        "B = 1 + mu A, a > 0 with lam a^2 = (A + a) B, y = (A x + a v) / (A + a)",
        "g = mean_S grad f_i(y), x_i = argmin_w f_i(w) + <g - grad f_i(y), w> + (lam / 2) |w - y|^2 for i in S, x <- mean_S x_i",
        "v <- (B v + a mu x - a mean_S grad f_i(x_i)) / (B + a mu), A <- A + a",
    )
    yield case(
        "aide",
        "aide",
        proximal.aide,
        {"lam": 0.5, "lr": 1.0, "kappa": 1.0, "mu": 0.1, "inner": 2},
        "Reddi et al., 2016 (AIDE), Algorithm 2",
        "equal weights, all clients, exact minimisers",
        "z = x; inner times a step of DANE from z for h_i(w) = f_i(w) + (kappa / 2) |w - y|^2, as in `dane`",
        "y <- z + (1 - sqrt q) / (1 + sqrt q) (z - x), q = mu / (mu + kappa), and x <- z",
        cohorts=EVERYONE,
    )
    yield case(
        "fednl-zero",
        "fednl",
        proximal.newton_zero,
        {},
        "Safaryan et al., 2022, Newton-Zero",
        "equal weights, all clients, logistic loss",
        "x <- x - H^-1 mean_i grad f_i(x), H = mean_i of the Hessians at the start",
        cohorts=EVERYONE,
        loss="logistic",
    )
    yield case(
        "lazy-dane",
        "lazy-dane",
        proximal.lazy_dane,
        {"lam": 2.0, "momentum": 0.3},
        "turnout, LazyDane",
        "equal weights, a given lam",
        "b, z: the means of the b_i and x_i of the clients that were heard; before that 0 and x, and no tilt",
        "y_i = argmin_w f_i(w) + <b - grad f_i(z), w> + (lam / 2) |w - x|^2 for i in S",
        "x <- x + mean_S (y_i - x) + momentum (x - last x), b_i <- grad f_i(x) and x_i <- x at the old x",
    )
    yield case(
        "svrp",
        "svrp",
        proximal.svrp,
        {"gamma": 0.5, "probability": 0.5},
        "Khaled and Jin, 2022",
        "equal weights, cohorts, exact minimisers, w starts at x; `draws` says when w is renewed",
        "c = x - gamma mean_i grad f_i(w), x <- mean_S argmin_y f_i(y) - <grad f_i(w), y> + |y - c|^2 / (2 gamma)",
        "where it is renewed: w <- x, by a pass over all clients",
        given={"renewed": [True, True, False]},
    )
    yield case(
        "fedred",
        "fedred",
        proximal.fedred,
        {"lam": 2.0, "smoothness": 2.0},
        "Jiang et al., 2024, FedRed-GD",
        "equal weights, all clients; client 0 is the delegate, and the number of its steps is in `draws`",
        "g = mean_i grad f_i(x), y = x; repeat local_steps times: "
        "y <- (smoothness y + lam x - grad f_0(y) - g + grad f_0(x)) / (smoothness + lam)",
        "x <- y",
        cohorts=EVERYONE,
        given={"local_steps": [1, 4, 1]},
    )
    yield case(
        "scafflix",
        "scafflix",
        proximal.scafflix,
        {"lr": 0.2, "alpha": 0.6, "probability": 0.5},
        "Yi, Condat and Richtarik, 2023, Algorithm 1",
        "equal weights, all clients, exact x_i*, one lr and one alpha; the numbers of local steps are in `draws`",
        "x_i = x; repeat local_steps times: x_i <- x_i - (lr / alpha) (grad f_i(alpha x_i + (1 - alpha) x_i*) - h_i)",
        "x <- mean_i x_i, h_i <- h_i + (probability alpha / lr) (x - x_i); h_i = 0 at first",
        cohorts=EVERYONE,
        given={"local_steps": [1, 3, 1]},
    )
    one = "client i got x_i in round `sent`: y_i = x_i; repeat local_steps times: y_i <- y_i - lr grad f_i(y_i)"
    program = asynchronous.one_at_a_time
    yield case(
        "fedasync",
        "fedasync",
        program,
        ROUND | {"rule": "fedasync", "alpha": 0.6, "power": 0.5},
        "Xie, Koyejo and Gupta, 2019, Algorithm 1",
        "polynomial staleness, one reply in each round; the change is of x_i, which "
        "was sent, and x moves by alpha (1 + tau)^-power (y_i - x)",
        one,
        cohorts=ONE_BY_ONE,
    )
    yield case(
        "mifa",
        "mifa",
        program,
        ROUND | {"rule": "mifa"},
        "Gu et al., 2021, Algorithm 1",
        "one reply in each round, G_i = 0 before the first",
        one,
        "G_i <- y_i - x_i, x <- x + mean_i G_i",
        cohorts=ONE_BY_ONE,
    )
    yield case(
        "ringmaster",
        "ringmaster",
        program,
        ROUND | {"rule": "ringmaster", "threshold": 2},
        "Maranjyan, Tyurin and Richtarik, 2025",
        "one reply in each round; the third is too old",
        one,
        "x <- x + y_i - x_i where the server made fewer than threshold steps since it sent x_i",
        cohorts=ONE_BY_ONE,
    )
