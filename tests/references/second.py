"""Second references of the ten most used algorithms, written from their papers: plain Python with 50 decimal digits.

They read a vector's problem, parameters, cohorts and draws, and nothing else of it. The paper's own symbols are kept. Each
function yields the server's state, and those of the clients where they have one, after each round.
"""

from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction


class Vec(tuple):
    """A vector of decimals."""

    def __add__(self, other):
        return Vec(a + b for a, b in zip(self, other, strict=True))

    def __sub__(self, other):
        return Vec(a - b for a, b in zip(self, other, strict=True))

    def __rmul__(self, factor):
        return Vec(number(factor) * a for a in self)

    def dot(self, other):
        return sum(a * b for a, b in zip(self, other, strict=True))


def number(value) -> Decimal:
    """A number of the file as it is written there."""
    if isinstance(value, Fraction):
        return Decimal(value.numerator) / Decimal(value.denominator)
    return value if isinstance(value, Decimal) else Decimal(repr(value))


def vec(values) -> Vec:
    return Vec(number(value) for value in values)


ZERO = vec([0, 0, 0])


class Client:
    """One client's rows."""

    def __init__(self, vector: dict, k: int):
        own = vector["problem"]["clients"][k]
        self.rows = [(vec(row), number(target)) for row, target in zip(own["features"], own["targets"], strict=True)]
        self.logistic, self.mu = vector["problem"]["loss"] == "logistic", number(vector["problem"]["mu"])
        self.n = len(self.rows)

    def gradient(self, w: Vec, batch: list[int] | None = None) -> Vec:
        """The mean of the rows' gradients, and that of the regulariser."""
        chosen = self.rows if batch is None else [self.rows[r] for r in batch]
        total = ZERO
        for a, b in chosen:
            if self.logistic:
                # d/dm log(1 + e^(-b m)) = -b e^(-b m) / (1 + e^(-b m))
                e = (-b * a.dot(w)).exp()
                total = total + (-b * e / (1 + e)) * a
            else:
                total = total + (a.dot(w) - b) * a
        return Fraction(1, len(chosen)) * total + self.mu * w

    def minimiser(self, tilt: Vec, alpha: Decimal, centre: Vec) -> Vec:
        """argmin f(w) - <tilt, w> + alpha/2 |w - centre|^2 by Cramer's rule."""
        m = [
            [sum(a[r] * a[c] for a, _ in self.rows) / self.n + (self.mu + alpha if r == c else 0) for c in range(3)]
            for r in range(3)
        ]
        right = [sum(b * a[r] for a, b in self.rows) / self.n + tilt[r] + alpha * centre[r] for r in range(3)]
        whole = determinant(m)
        return Vec(determinant([[right[r] if c == k else m[r][c] for c in range(3)] for r in range(3)]) / whole for k in range(3))


def determinant(m) -> Decimal:
    (a, b, c), (d, e, f), (g, h, i) = m
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


def clients_of(vector: dict) -> list[Client]:
    return [Client(vector, k) for k in range(len(vector["problem"]["clients"]))]


def cohorts_of(vector: dict) -> list[list[int]]:
    return [round["cohort"] for round in vector["rounds"]]


def by_rows(vector: dict) -> bool:
    return len({*vector["problem"]["weights"]}) > 1


def cohort_weights(vector: dict, S: list[int], clients: list[Client]) -> dict[int, Fraction]:
    """n_k / (sum of n in S), or 1 / |S|."""
    if not by_rows(vector):
        return {k: Fraction(1, len(S)) for k in S}
    return {k: Fraction(clients[k].n, sum(clients[j].n for j in S)) for k in S}


def population_weights(vector: dict, clients: list[Client]) -> list[Fraction]:
    return [*cohort_weights(vector, [*range(len(clients))], clients).values()]


def combination(weights: dict, vectors: dict) -> Vec:
    total = ZERO
    for k, weight in weights.items():
        total = total + weight * vectors[k]
    return total


def fedavg(vector) -> Iterator:
    """McMahan et al., 2017: ServerExecute and ClientUpdate(k, w); FedProx (Li et al., 2020) adds mu/2 |w - w_t|^2 to h_k."""
    p, clients, w = vector["parameters"], clients_of(vector), vec(vector["start"]["server"]["x"])
    eta, E = number(p["lr"]), p["local_steps"]
    beta, mu = number(p.get("momentum", 0)), number(p.get("mu", 0))
    for t, S in enumerate(cohorts_of(vector)):
        draws, result = vector["rounds"][t].get("draws", {}), {}
        for k in S:
            own, velocity = w, ZERO
            for e in range(E):
                batch = draws["batches"][str(k)][e] if draws else None
                velocity = beta * velocity + clients[k].gradient(own, batch) + mu * (own - w)
                own = own - eta * velocity
            result[k] = own
        if vector["name"] == "fedavg-all-clients":
            # Every client that is not asked counts with its old parameters, |S| / N of the changes being seen.
            share, seen = population_weights(vector, clients), Fraction(len(S), len(clients))
            w = w + combination({k: share[k] / seen for k in S}, {k: result[k] - w for k in S})
        else:
            w = combination(cohort_weights(vector, S, clients), result)
        yield {"x": w}, None


def scaffold(vector) -> Iterator:
    """Karimireddy et al., 2020, Algorithm 1, lines 1 to 17."""
    p, clients, x = vector["parameters"], clients_of(vector), vec(vector["start"]["server"]["x"])
    N, K, eta_l, eta_g = len(clients), p["local_steps"], number(p["lr"]), number(p["server_lr"])
    c_i = [client.gradient(x) if p.get("starts") == "gradients" else ZERO for client in clients]
    shares = population_weights(vector, clients)
    c = combination(dict(enumerate(shares)), dict(enumerate(c_i)))
    for S in cohorts_of(vector):
        delta_y, delta_c = {}, {}
        for i in S:
            y = x
            for _ in range(K):
                g = clients[i].gradient(y)
                y = y - eta_l * (g - c_i[i] + c)
            c_plus = clients[i].gradient(x) if p["option"] == "I" else c_i[i] - c + (1 / (K * eta_l)) * (x - y)
            delta_y[i], delta_c[i] = y - x, c_plus - c_i[i]
        weights = cohort_weights(vector, S, clients)
        x = x + eta_g * combination(weights, delta_y)
        seen = Fraction(len(S), N) if not by_rows(vector) else sum(shares[i] for i in S)
        c = c + (1 if p.get("fraction") is False else seen) * combination(weights, delta_c)
        for i in S:
            c_i[i] = c_i[i] + delta_c[i]
        yield {"x": x, "c": c}, [{"c_i": own} for own in c_i]


def fednova(vector) -> Iterator:
    """Wang et al., 2020, equations (5) to (9): Delta_i = G_i a_i with the vector a_i written out, x - x_i = eta G_i a_i."""
    p, clients, x = vector["parameters"], clients_of(vector), vec(vector["start"]["server"]["x"])
    eta, rho, mu = number(p["lr"]), number(p.get("momentum", 0)), number(p.get("mu", 0))
    share = population_weights(vector, clients)
    for S in cohorts_of(vector):
        d, norms = {}, {}
        for i in S:
            tau, y, gradients = p["local_steps"][i], x, []
            for k in range(tau):
                gradients.append(clients[i].gradient(y))
                # The accumulated change after k + 1 steps, by the coefficients of each gradient.
                y = x - eta * combination(dict(enumerate(coefficients(k + 1, rho, eta * mu))), dict(enumerate(gradients)))
            a = coefficients(tau, rho, eta * mu)
            norms[i] = sum(a)
            d[i] = (1 / norms[i]) * combination(dict(enumerate(a)), dict(enumerate(gradients)))
        weights = cohort_weights(vector, S, clients)
        tau_eff = sum(number(weights[i]) * norms[i] for i in S)
        if p.get("shared") != "mean":
            weights = {i: share[i] / Fraction(len(S), len(clients)) for i in S}
        x = x - number(p.get("scale", 1)) * tau_eff * eta * combination(weights, d)
        yield {"x": x}, None


def coefficients(tau: int, rho: Decimal, alpha: Decimal) -> list[Decimal]:
    """a_i: momentum gives [1 - rho^tau, ..., 1 - rho] / (1 - rho), proximal steps [(1 - alpha)^(tau - 1), ..., 1]."""
    if rho:
        return [(1 - rho ** (tau - j)) / (1 - rho) for j in range(tau)]
    return [(1 - alpha) ** (tau - 1 - j) if alpha else Decimal(1) for j in range(tau)]


def fedopt(vector) -> Iterator:
    """Reddi et al., 2021, Algorithm 2 (FedAdagrad, FedYogi, FedAdam), and server momentum of Hsu et al., 2019."""
    p, clients, x = vector["parameters"], clients_of(vector), vec(vector["start"]["server"]["x"])
    eta_l, eta, adaptive = number(p["lr"]), number(p["server_lr"]), "rule" in p
    m = ZERO
    v = ZERO if not adaptive or p.get("v_start") == "0" else vec([number(p["tau"]) ** 2] * 3)
    for t, S in enumerate(cohorts_of(vector), start=1):
        delta = {}
        for i in S:
            x_i = x
            for _ in range(p["local_steps"]):
                x_i = x_i - eta_l * clients[i].gradient(x_i)
            delta[i] = x_i - x
        mean = combination(cohort_weights(vector, S, clients), delta)
        if not adaptive:
            beta = number(p["beta"])
            v = beta * v + (1 - number(p.get("dampening", 0))) * mean
            x = x + eta * (mean + beta * v if p["nesterov"] else v)
            yield {"x": x, "v": v}, None
            continue
        beta_1, beta_2, tau = (number(p[name]) for name in ("beta1", "beta2", "tau"))
        m = beta_1 * m + (1 - beta_1) * mean
        new = []
        for old, one in zip(v, mean, strict=True):
            square = one * one
            if p["rule"] == "adagrad":
                new.append(old + square)
            elif p["rule"] == "yogi":
                new.append(old - (1 - beta_2) * square * (1 if old > square else -1 if old < square else 0))
            else:
                new.append(beta_2 * old + (1 - beta_2) * square)
        v = Vec(new)
        t_hat = t + p.get("corrected", 0)
        rate = eta * (1 - beta_2**t_hat).sqrt() / (1 - beta_1**t_hat) if "corrected" in p else eta
        m_hat, v_hat = m, v
        if p["rule"] == "torch adam":
            m_hat, v_hat = 1 / (1 - beta_1**t) * m, 1 / (1 - beta_2**t) * v
        x = x + Vec(rate * a / (b.sqrt() + tau) for a, b in zip(m_hat, v_hat, strict=True))
        yield {"x": x, "m": m, "v": v}, None


def feddyn(vector) -> Iterator:
    """Acar et al., 2021, Algorithm 1: theta_k, the gradients that devices keep, h and theta."""
    p, clients, theta = vector["parameters"], clients_of(vector), vec(vector["start"]["server"]["x"])
    alpha, m = number(p["alpha"]), len(clients)
    kept, h = [ZERO] * m, ZERO
    shares = population_weights(vector, clients)
    for P in cohorts_of(vector):
        found = {}
        for k in P:
            if "local_steps" in p:
                y = theta
                for _ in range(p["local_steps"]):
                    y = y - number(p["lr"]) * (clients[k].gradient(y) - kept[k] + alpha * (y - theta))
                found[k] = y
            else:
                found[k] = clients[k].minimiser(kept[k], alpha, theta)
            kept[k] = kept[k] - alpha * (found[k] - theta)
        h = h - alpha * combination({k: shares[k] for k in P}, {k: found[k] - theta for k in P})
        theta = combination(cohort_weights(vector, P, clients), found) - (1 / alpha) * h
        yield {"x": theta, "h": h}, [{"g_i": own} for own in kept]


def scaffnew(vector) -> Iterator:
    """Mishchenko et al., 2022, Algorithm 2, iteration by iteration with the coin theta_t."""
    p, clients = vector["parameters"], clients_of(vector)
    gamma, prob, n = number(p["lr"]), number(p["probability"]), len(vector["problem"]["clients"])
    x, h = [vec(vector["start"]["server"]["x"])] * n, [ZERO] * n
    for round in vector["rounds"]:
        for coin in [0] * (round["draws"]["local_steps"] - 1) + [1]:
            hat = [x[i] - gamma * (clients[i].gradient(x[i]) - h[i]) for i in range(n)]
            if coin:
                mean = combination({i: Fraction(1, n) for i in range(n)}, dict(enumerate(hat)))
                x = [mean] * n
            else:
                x = hat
            h = [h[i] + (prob / gamma) * (x[i] - hat[i]) for i in range(n)]
        yield {"x": x[0]}, [{"h_i": own} for own in h]


def fedbuff(vector) -> Iterator:
    """Nguyen et al., 2022, Algorithm 1: the buffer is full after K updates; s(tau) = (1 + tau)^-power."""
    p, clients, w = vector["parameters"], clients_of(vector), vec(vector["start"]["server"]["x"])
    past = [w, w]
    for t, round in enumerate(vector["rounds"], start=1):
        buffer, K = ZERO, len(round["exchanges"])
        for one in round["exchanges"]:
            (i,), (when,) = one["to"], one["sent"]
            y = past[when]
            for _ in range(p["local_steps"]):
                y = y - number(p["lr"]) * clients[i].gradient(y)
            staleness = t - when if when else t - 1
            scale = 1 / Decimal(1 + staleness).sqrt() if p["power"] else Decimal(1)
            buffer = buffer + scale * (y - past[when])
        w = w + number(p["server_lr"]) * (Fraction(1, K) * buffer)
        past.append(w)
        yield {"x": w}, None


PROGRAMS = {
    "fedavg": fedavg,
    "fedprox": fedavg,
    "scaffold": scaffold,
    "fednova": fednova,
    "fedopt": fedopt,
    "feddyn": feddyn,
    "scaffnew": scaffnew,
    "fedbuff": fedbuff,
}
"""The program of each kind that has a second reference; "fedopt" has FedAdam, FedYogi, FedAdagrad and FedAvgM."""


def states(vector: dict) -> list[tuple[dict, list | None]]:
    """The states after each round, as numbers of double precision."""
    with localcontext(prec=50):
        return [
            (in_double(server), clients and [in_double(own) for own in clients])
            for server, clients in PROGRAMS[vector["algorithm"]](vector)
        ]


def in_double(state: dict) -> dict:
    return {name: [float(value) for value in part] for name, part in state.items()}
