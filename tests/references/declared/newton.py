"""FedNL and its variants, BL1, BL2, SHED and DiSCO, on logistic losses."""

from tests.references import newton
from tests.references.declared.case import COHORTS, EVERYONE, Case
from tests.references.tiny import START

X_0 = {"x_0": START.tolist()}


def cases():
    def case(name, kind, program, parameters, source, variant, *update, **further):
        return Case(name, kind, program, parameters, source, variant, [*update], loss="logistic", **further)

    fednl = "Safaryan, Islamov, Qian and Richtarik, 2022, Algorithm"
    everyone = "equal weights, all clients, logistic loss"
    first = "H_i start at the Hessians at x"
    rank = "C keeps v u u' of the eigenvalue v of largest magnitude"
    learned = "H_i <- H_i + C(grad^2 f_i(x) - H_i)"
    distance = "l = mean_i |grad^2 f_i(x) - H_i|, Frobenius"
    searched = "x <- x + a d, a = shrink^s with the least s = 0, 1, ... for which f(x + a d) <= f(x) + decrease a grad f(x).d"
    yield case(
        "fednl-1",
        "fednl",
        newton.fednl,
        {"option": "I", "mu": 0.3},
        f"{fednl} 1",
        f"option I, {everyone}, {first}, {rank}",
        "x <- x - H_mu^-1 mean_i grad f_i(x), H_mu = H = mean_i H_i with eigenvalues of at least mu",
        learned,
        cohorts=EVERYONE,
    )
    yield case(
        "fednl-2",
        "fednl",
        newton.fednl,
        {"option": "II"},
        f"{fednl} 1",
        f"option II, {everyone}, {first}, {rank}",
        f"x <- x - (H + l I)^-1 mean_i grad f_i(x), H = mean_i H_i, {distance}",
        learned,
        cohorts=EVERYONE,
    )
    yield case(
        "fednl-bc",
        "fednl-bc",
        newton.fednl_bc,
        {"mu": 0.3, "kept": 2, "probability": 0.5},
        f"{fednl} 5",
        f"option I, {everyone}, {first}, {rank}, C_M keeps the `kept` largest numbers; `draws` say where gradients come",
        "z <- z + C_M(x - z); w <- z where gradients come",
        "x <- w - H_mu^-1 mean_i grad f_i(w), H_mu = H = mean_i H_i with eigenvalues of at least mu",
        "H_i <- H_i + C(grad^2 f_i(z) - H_i)",
        cohorts=EVERYONE,
        given={"coins": [True, True, False]},
    )
    yield case(
        "fednl-cr",
        "fednl-cr",
        newton.fednl,
        {"lipschitz": 2.0},
        f"{fednl} 4",
        f"{everyone}, {first}, {rank}",
        f"x <- x + argmin_h g.h + h.(H + l I) h / 2 + (lipschitz / 6) |h|^3, g = mean_i grad f_i(x), H = mean_i H_i, {distance}",
        learned,
        cohorts=EVERYONE,
    )
    yield case(
        "fednl-ls",
        "fednl-ls",
        newton.fednl,
        {"mu": 0.1, "decrease": 0.5, "shrink": 0.5},
        f"{fednl} 3",
        f"{everyone}, {first}, {rank}; each trial of the line search is an exchange",
        "d = -H_mu^-1 grad f(x), H_mu = H = mean_i H_i with eigenvalues of at least mu",
        searched,
        learned,
        cohorts=EVERYONE,
    )
    yield case(
        "fednl-pp",
        "fednl-pp",
        newton.fednl_pp,
        X_0,
        f"{fednl} 2",
        f"equal weights, logistic loss, H_i start at the Hessians at x_0, where all clients were asked first; {rank}",
        "x = (H + l I)^-1 g with the means of all H_i, l_i and g_i",
        f"for i in S: {learned}, l_i <- |H_i - grad^2 f_i(x)|, Frobenius, g_i <- (H_i + l_i I) x - grad f_i(x)",
    )
    bl = "Qian, Islamov, Safaryan and Richtarik, 2022, Algorithm"
    basis = (
        "the columns of V_i are the eigenvectors of grad^2 f_i at the first point; C keeps the `kept` largest numbers of a "
        "triangle, those off the diagonal counting sqrt 2 times; `change_of_H_i` is V_i C(.) V_i'"
    )
    in_basis = "H_i <- H_i + V_i C(V_i' (grad^2 f_i(x) - H_i) V_i) V_i'"
    yield case(
        "bl1",
        "bl1",
        newton.bl1,
        {"mu": 0.1, "ridge": 0.1, "kept": 2},
        f"{bl} 1",
        f"{everyone}, {first}, messages as they are; {basis}",
        "x <- x - H_mu^-1 mean_i grad f_i(x), H_mu = H = mean_i H_i with eigenvalues of at least mu; "
        "a reply has grad f_i(x) - ridge x",
        in_basis,
        cohorts=EVERYONE,
    )
    yield case(
        "bl2",
        "bl2",
        newton.bl2,
        X_0 | {"ridge": 0.1, "kept": 2},
        f"{bl} 2",
        f"equal weights, logistic loss, H_i start at the Hessians at x_0, where all clients were asked first; {basis}",
        "x = (H + l I)^-1 g with the means of all H_i, l_i and g_i = v_i + l_i w_i, w_i the point where i was asked last",
        f"for i in S: {in_basis}, l_i <- |H_i - grad^2 f_i(x)|, Frobenius, v_i <- H_i x - grad f_i(x)",
    )
    yield case(
        "shed",
        "shed",
        newton.shed,
        {"pairs": 1, "renewals": [1, 2, 3, 5], "decrease": 0.45, "shrink": 0.5},
        "Dal Fabbro, Dey, Rossi and Schenato, 2022",
        f"{everyone}, four rounds, of which the last has no renewal; each trial of the line search is an exchange",
        "renewal: v_1 >= v_2 >= ... and u_j are eigenvalues and eigenvectors of grad^2 f_i(x), and q = 0",
        "q <- q + pairs, H_i = sum_{j <= q} (v_j - rho_i) u_j u_j' + rho_i I, rho_i = v_{q+1}; "
        "`above_rho_i` is the new part of that sum",
        "d = -H^-1 grad f(x), H = mean_i H_i",
        searched,
        cohorts=[[0, 1, 2, 3]] * 4,
    )
    yield case(
        "disco",
        "disco",
        newton.disco,
        {"lam": 0.3, "relative": 0.15, "concordance": 2.0},
        "Zhang and Xiao, 2015, Algorithms 1 and 2",
        "equal weights, cohorts, logistic loss; client 0 has the preconditioner",
        "f = mean_S f_i; r = grad f(x), v = 0; while |r| > relative |grad f(x)|: s = (grad^2 f_0(x) + lam I)^-1 r, "
        "u <- s + (r.s / last r.s) u, a = r.s / u.Hu, v <- v + a u, r <- r - a H u, H = mean_S grad^2 f_i(x)",
        "x <- x - v / (1 + concordance sqrt(v.Hv))",
        cohorts=COHORTS,
    )
