"""Local training with corrections, Muon, models in parts, and subproblems that cohorts solve."""

from tests.references import in_parts, local_training, muon, solved
from tests.references.declared.case import COHORTS, EVERYONE, LOCAL, ROUND, Case

SECOND = [[2, 3], [2, 3], [1, 2]]
"""The second cohorts of AccFedDCD."""

INDEPENDENT = [[0, 2, 3], [0, 3], [0, 2, 3]]

SIGNS = [
    {"2": [[1, 1, 1], [1, 1, -1]], "3": [[1, 1, -1], [1, 1, 1]]},
    {"0": [[-1, -1, 1], [-1, 1, -1]], "2": [[-1, 1, -1], [-1, -1, -1]]},
    {"1": [[-1, -1, -1], [-1, 1, 1]], "3": [[1, 1, 1], [-1, 1, 1]]},
]
"""Random signs of each look at the curvature, by round and client."""

TOP = "C keeps the `kept` entries of largest magnitude"


def case(name, kind, program, parameters, source, variant, *update, **further):
    return Case(name, kind, program, parameters, source, variant, [*update], **further)


def cases():
    yield from local()
    yield from matrices()
    yield from parts()
    yield from subproblems()


def local():
    mean = "x <- x + mean_S (y_i - x)"
    after = "after every `period` rounds: x <- a + amplification (x - a), a <- x"
    yield case(
        "amplified-fedavg",
        "amplified-fedavg",
        local_training.amplified_fedavg,
        ROUND | {"period": 2, "amplification": 1.5},
        "Wang and Ji, 2022, Algorithm 1",
        "equal weights, a starts at x",
        LOCAL,
        mean,
        after,
    )
    yield case(
        "amplified-scaffold",
        "amplified-scaffold",
        local_training.amplified_scaffold,
        ROUND | {"period": 2, "amplification": 1.5},
        "Crawshaw and Liu, 2024, Algorithm 1",
        "equal weights, variates start at 0; the server knows `coming` = mean_i g_i over all clients",
        "for i in S: y_i = x; repeat local_steps times: y_i <- y_i - lr (grad f_i(y_i) - c_i + c)",
        "g_i: the mean of the gradients in all local steps of client i in the last period that it took part in",
        mean,
        f"{after}, c_i <- g_i, c = mean_i c_i over all clients",
    )
    yield case(
        "feddisco",
        "feddisco",
        local_training.feddisco,
        ROUND | {"a": 0.5, "b": 0.1},
        "Ye et al., 2023; the authors' program divides the d_i by their sum",
        "weights by rows, logistic loss; d_i = sum_c D_ic log(D_ic / D_c), D_ic the share of label c at client i, "
        "D = sum_i lambda_i D_i",
        LOCAL,
        "n_i = lambda_i / sum_S lambda_j, w_i = max(0, n_i - a d_i / sum_S d_j + b)",
        "x <- x + sum_S w_i (y_i - x) / sum_S w_i",
        weights="rows",
        loss="logistic",
    )
    yield case(
        "fedgloss",
        "fedgloss",
        local_training.fedgloss,
        ROUND | {"radius": 0.1, "server_radius": 0.2, "beta": 2.0},
        "Caldarola et al., 2025",
        "equal weights, g, h and h_i start at 0; h changes by lambda_i times the changes of the h_i",
        "z = x + server_radius g / |g|",
        "for i in S: y_i = z; repeat local_steps times: "
        "y_i <- y_i - lr (grad f_i(y_i + radius u / |u|) - h_i + (y_i - z) / beta), u = grad f_i(y_i)",
        "g <- mean_S (z - y_i), h_i <- h_i - (y_i - z) / beta for i in S, h = mean_i h_i over all clients, x <- x - g - beta h",
    )
    yield case(
        "fedsophia",
        "fedsophia",
        local_training.fedsophia,
        {"lr": 0.1, "local_steps": 3, "every": 2, "beta1": 0.9, "beta2": 0.8, "rho": 1.0, "epsilon": 1e-3, "weight_decay": 0.1},
        "Elbakary et al., 2024, Algorithm 1",
        "equal weights, m_i and h_i start at 0 and stay at the clients; Hutchinson's estimate, whose signs z are in `draws`",
        "every `every`-th local step, the first included: h_i <- beta2 h_i + (1 - beta2) z * (grad^2 f_i(y_i) z)",
        "m_i <- beta1 m_i + (1 - beta1) grad f_i(y_i), "
        "y_i <- y_i - lr (weight_decay y_i + clip(m_i / max(h_i, epsilon), -rho, rho)), entry by entry",
        mean,
        given={"signs": SIGNS},
    )
    yield case(
        "sa-pef",
        "sa-pef",
        local_training.sa_pef,
        ROUND | {"alpha": 0.6, "server_lr": 0.8, "kept": 2},
        "Redie, Arablouei and Werner, 2026",
        f"equal weights, e_i start at 0; {TOP}",
        "for i in S: y_i = x + alpha e_i; repeat local_steps times: y_i <- y_i - lr grad f_i(y_i)",
        "u_i = (y_i - x) + (1 - alpha) e_i, e_i <- u_i - C(u_i), x <- x + server_lr mean_S C(u_i)",
    )
    yield case(
        "clag",
        "clag",
        local_training.clag,
        {"lr": 0.2, "kept": 2, "trigger": 2.0},
        "Richtarik et al., 2022, table 1",
        f"equal weights, all clients, four rounds, g_i and y_i start at 0; {TOP}; those that send are asked again",
        "|grad f_i(x) - g_i|^2 > trigger |grad f_i(x) - y_i|^2: g_i <- g_i + C(grad f_i(x) - g_i)",
        "y_i <- grad f_i(x), x <- x - lr mean_i g_i",
        cohorts=[[0, 1, 2, 3]] * 4,
    )


def matrices():
    lmo = "lmo(G) = -U q(S) V' for G / |G| = U S V', q: `iterations` times s <- 3.4445 s - 4.775 s^3 + 2.0315 s^5"
    yield case(
        "fedmuon",
        "fedmuon",
        muon.fedmuon,
        {"lr": 0.1, "local_steps": 2, "alpha": 0.3, "iterations": 5},
        "Takezawa et al., 2025, Algorithm 1",
        "equal weights, x is a matrix, C_i start at 0; clients that are not drawn count as if they had stayed at x",
        "for i in S: y_i = x, M = C_i; repeat local_steps times: M <- (1 - alpha) M + alpha grad f_i(y_i), "
        "y_i <- y_i + lr lmo(M - C_i + C)",
        "x <- x + sum_S lambda_i (y_i - x), C_i <- M for i in S, C = mean_i C_i over all clients",
        lmo,
        constant=True,
    )
    yield case(
        "ef21-muon",
        "ef21-muon",
        muon.ef21_muon,
        {"lr": 0.1, "alpha": 0.3, "iterations": 5, "kept": 2},
        "Gruntkowska et al., 2025, Algorithm 1",
        f"equal weights, cohorts, x is a matrix and is sent whole, M_i and G_i start at 0; {TOP}",
        "for i in S: M_i <- (1 - alpha) M_i + alpha grad f_i(x), G_i <- G_i + C(M_i - G_i)",
        "x <- x + lr lmo(G), G = mean_i G_i over all clients",
        lmo,
        constant=True,
    )


def parts():
    body = "x <- x + mean_S (y_i - x) for the body"
    for name, leaf, source in (
        ("fedper", "head", "Arivazhagan et al., 2019, Algorithms 1 and 2"),
        ("fedbn", "norm", "Li et al., 2021, Algorithm 1"),
    ):
        yield case(
            name,
            name,
            in_parts.personal,
            ROUND,
            source,
            f"equal weights; the leaf {leaf}, h_i, stays at client i",
            "for i in S: y_i = x; repeat local_steps times: (y_i, h_i) <- (y_i, h_i) - lr grad f_i(y_i, h_i)",
            body,
            given={"leaf": leaf},
        )
    yield case(
        "fedbn-late",
        "fedbn",
        in_parts.personal,
        ROUND,
        "Li et al., 2021, Algorithm 1",
        "equal weights; the leaf norm, h_i, is sent too, for those that take part for the first time",
        "for i in S that was in no cohort before: h_i = h; h is the mean of the h_i of the last cohort, and the start at first",
        "for i in S: y_i = x; repeat local_steps times: (y_i, h_i) <- (y_i, h_i) - lr grad f_i(y_i, h_i)",
        body,
        given={"leaf": "norm", "late": True},
        status="open",
    )
    heads = ROUND | {"own_lr": 0.3, "own_steps": 2}
    yield case(
        "fedrep",
        "fedrep",
        in_parts.headed,
        heads,
        "Collins et al., 2021, Algorithm 1",
        "equal weights; the head h_i stays at client i",
        "for i in S: own_steps times: h_i <- h_i - own_lr grad_h f_i(x, h_i); "
        "y_i = x; repeat local_steps times: y_i <- y_i - lr grad_y f_i(y_i, h_i)",
        body,
    )
    yield case(
        "fedbabu",
        "fedbabu",
        in_parts.headed,
        heads | {"head": [0.25]},
        "Oh et al., 2022, Algorithm 1",
        "equal weights; local steps have the first head h = head; the state `head` is "
        "that of the client's own model, h after own_steps at x",
        "for i in S: y_i = x; repeat local_steps times: y_i <- y_i - lr grad_y f_i(y_i, h)",
        body,
        "model of client i: h_i = h; own_steps times: h_i <- h_i - own_lr grad_h f_i(x, h_i)",
    )
    yield case(
        "in-hubs",
        "in-hubs",
        in_parts.in_hubs,
        {"hubs": [[0, 2], [1, 3]], "hub_rounds": 2} | ROUND,
        "Liu et al., 2020, HierFAVG, Algorithm 1",
        "weights by rows, FedAvg of all clients in two hubs",
        "y = x at each hub; hub_rounds times FedAvg with its own clients: y <- y + the mean of their changes by lambda_i",
        "x <- x + the mean of y - x over the hubs by the sums of their lambda_i",
        weights="rows",
        cohorts=EVERYONE,
    )
    yield case(
        "streaming-diloco",
        "streaming-diloco",
        in_parts.streaming_diloco,
        {"lr": 0.1, "local_steps": 2, "weight_decay": 0.1, "server_lr": 0.7, "beta": 0.9, "overlap": 1, "mixing": 0.4},
        "Douillard et al., 2025, Algorithm 2",
        "equal weights, cohorts, two fragments of two numbers, AdamW at the clients with its usual betas and epsilon 1e-8",
        "for i in S: local_steps steps of AdamW from its own y_i and the state that it has kept; after the first `overlap` "
        "of them the fragment q of the round before arrives: y_iq <- mixing y_iq + (1 - mixing) x_q",
        "fragments p = 0, 1, 0: d = mean_S (y_ip - x_p), v_p <- beta v_p + d, x_p <- x_p + server_lr (d + beta v_p)",
        constant=True,
    )


def subproblems():
    prox = "phi(y) = sum_S (lambda_i / p_i) f_i(y) + |y - x|^2 / (2 gamma), y = x"
    along = "`exchanges` times: y <- y - grad phi(y) / (sum_S (lambda_i / p_i) smoothness + 1 / gamma); then x <- y"
    source = "Cohort Squeeze, Algorithm 1"
    yield case(
        "sppm-gd",
        "sppm",
        solved.sppm,
        {"gamma": 1.0, "exchanges": 3, "smoothness": 3.0},
        source,
        "equal weights, p_i = |S| / N, gradient descent",
        prox,
        along,
    )
    yield case(
        "sppm-newton",
        "sppm",
        solved.sppm,
        {"gamma": 2.0, "exchanges": 3},
        source,
        "equal weights, logistic loss, p_i = |S| / N, Newton's method, of which no step has to be shortened",
        prox,
        "`exchanges` times: y <- y - (grad^2 phi(y))^-1 grad phi(y); then x <- y",
        loss="logistic",
    )
    yield case(
        "sppm-independent",
        "sppm",
        solved.sppm,
        {"gamma": 1.0, "exchanges": 2, "smoothness": 3.0, "inclusion": [0.8, 0.5, 0.6, 0.3]},
        source,
        "weights by rows, each client in S with p_i = inclusion_i, gradient descent",
        prox,
        along,
        weights="rows",
        cohorts=INDEPENDENT,
    )
    yield case(
        "accfeddcd",
        "accfeddcd",
        solved.accfeddcd,
        {"lr": 0.9, "convexity": 0.5, "smoothness": 4.0},
        "FedDCD, Algorithm 2",
        "equal weights, exact minimisers, y_i and z_i start at 0; two cohorts in a round, S and then S', which is in `draws`; "
        "messages have the mean that is owed to the client and the number of the cohort",
        "r = (|S| - 1) / (N - 1), s = sqrt(convexity / smoothness), a = s / (1 / r + s), b = a r^2 s^2",
        "for all i: v_i = (1 - a) y_i + a z_i, u_i = (a^2 z_i + b v_i) / (a^2 + b), w_i = argmin_w f_i(w) - <w, v_i>",
        "y_i <- v_i, minus lr convexity (w_i - mean_S w) for i in S",
        "z_i <- u_i, minus lr convexity a r / (a^2 + b) (w_i - mean_S' w) for i in S'; x <- mean_S' w",
        cohorts=COHORTS,
        given={"others": SECOND},
    )
