"""Second references of twelve algorithms: NumPy's arrays of decimals with 50 digits, in the symbols of the papers.

Whoever wrote them had seen neither the first references nor turnout's algorithms, and read of a vector its words, parameters,
problem, start, cohorts and draws; FedYogi, FedAdagrad and what FedNova's authors do with mu came later. Each function yields the
server's state, and those of the clients where they have one, after each round.
"""

import json
from collections.abc import Iterator
from decimal import Decimal, localcontext

import numpy as np


def array(values) -> np.ndarray:
    """An array of decimals."""
    return np.vectorize(Decimal, otypes=[object])(values)


class Client:
    """f_i: the mean loss of a client's rows, and the regulariser."""

    def __init__(self, problem: dict, i: int):
        self.a, self.b = (array(problem["clients"][i][name]) for name in ("features", "targets"))
        self.mu, self.squared = problem["mu"], problem["loss"] == "squared"

    def grad(self, x, rows=slice(None)):
        a, b = self.a[rows], self.b[rows]
        slopes = a @ x - b if self.squared else -b / (1 + np.exp(b * (a @ x)))
        return slopes @ a / len(b) + self.mu * x

    def argmin(self, tilt, alpha):
        """argmin f_i(x) - <tilt, x> + alpha/2 |x|^2, by Gauss and Jordan."""
        n, d = self.a.shape
        table = np.column_stack([self.a.T @ self.a / n + (self.mu + alpha) * np.eye(d, dtype=int), self.b @ self.a / n + tilt])
        for j in range(d):
            table[j] /= table[j, j]
            for i in {*range(d)} - {j}:
                table[i] = table[i] - table[i, j] * table[j]
        return table[:, -1]

    def steps(self, x, eta, steps, tilt=0, mu=0, momentum=0, batches=None):
        """Local gradient steps from x on f_i(y) + <tilt, y> + mu/2 |y - x|^2."""
        y, velocity = x, 0
        for k in range(steps):
            velocity = momentum * velocity + self.grad(y, batches[k] if batches else slice(None)) + tilt
            y = y - eta * (velocity + mu * (y - x))
        return y


class Told:
    """What a vector says."""

    def __init__(self, vector: dict):
        self.name, self.p, self.rounds = vector["name"], vector["parameters"], vector["rounds"]
        self.start = {name: array(value) for name, value in vector["start"]["server"].items()}
        self.kept = [{name: array(value) for name, value in own.items()} for own in vector["start"].get("clients", [])]
        self.weights, self.N = vector["problem"]["weights"], len(vector["problem"]["clients"])
        self.f = [Client(vector["problem"], i) for i in range(self.N)]

    def total(self, S, values):
        return sum(self.weights[i] * value for i, value in zip(S, values, strict=True))

    def mean(self, S, values):
        """sum of n_i / n_S values, or 1 / |S| where the weights are equal."""
        return self.total(S, values) / self.share(S)

    def share(self, S):
        """n_S / n, which is |S| / N where the weights are equal."""
        return sum(self.weights[i] for i in S)

    def changes(self, S, x):
        """y_i - x after plain local steps."""
        return [self.f[i].steps(x, self.p["lr"], self.p["local_steps"]) - x for i in S]


def fedavg(v: Told) -> Iterator:
    """McMahan et al., 2017, Algorithm 1: w <- sum_{S_t} n_k / m_t w_k, m_t = sum n_k; FedProx adds mu/2 |w - w_t|^2 to h_k."""
    w, p = v.start["x"], v.p
    for round in v.rounds:
        S, batches = round["cohort"], round.get("draws", {}).get("batches", {})
        options = {name: p[name] for name in ("mu", "momentum") if name in p}
        results = [v.f[k].steps(w, p["lr"], p["local_steps"], batches=batches.get(str(k)), **options) for k in S]
        if v.name == "fedavg-all-clients":
            w = w + v.total(S, [w_k - w for w_k in results]) * v.N / len(S)
        else:
            w = v.mean(S, results)
        yield {"x": w}, None


def scaffold(v: Told) -> Iterator:
    """Karimireddy et al., 2020, Algorithm 1, equations (3) to (5)."""
    p, x, c, c_i = v.p, v.start["x"], v.start["c"], [own["c_i"] for own in v.kept]
    for round in v.rounds:
        S, delta_y, delta_c = round["cohort"], [], []
        for i in S:
            y = v.f[i].steps(x, p["lr"], p["local_steps"], tilt=c - c_i[i])
            plus = v.f[i].grad(x) if p["option"] == "I" else c_i[i] - c + (x - y) / (p["local_steps"] * p["lr"])
            delta_y.append(y - x)
            delta_c.append(plus - c_i[i])
            c_i[i] = plus
        x = x + p["server_lr"] * v.mean(S, delta_y)
        c = c + (v.total if p.get("fraction", True) else v.mean)(S, delta_c)
        yield {"x": x, "c": c}, [{"c_i": own} for own in c_i]


def fednova(v: Told) -> Iterator:
    """Wang et al., 2020, section 5: x <- x - tau_eff sum_i p_i eta d_i, d_i = G_i a_i / |a_i|_1, where eta G_i a_i = x - x_i."""
    p, x = v.p, v.start["x"]
    eta, rho, mu = p["lr"], p.get("momentum", 0), p.get("mu", Decimal(0))
    for round in v.rounds:
        S, d, work = round["cohort"], [], []
        for i in S:
            tau = p["local_steps"][i]
            a = [sum(rho**j for j in range(tau - k)) if rho else (1 - eta * mu) ** (tau - 1 - k) for k in range(tau)]
            d.append((x - v.f[i].steps(x, eta, tau, mu=mu, momentum=rho)) / (eta * sum(a)))
            work.append(sum(a))
        mean = v.mean(S, d) if p.get("shared") == "mean" else v.total(S, d) * v.N / len(S)
        x = x - p.get("tau", v.mean(S, work)) * eta * p.get("scale", 1) * mean
        yield {"x": x}, None


def fedopt(v: Told) -> Iterator:
    """Reddi et al., 2021, Algorithm 2, or server momentum of Hsu et al., 2019, section 4.2."""
    yield from fedadam(v) if "rule" in v.p else fedavgm(v)


def fedadam(v: Told) -> Iterator:
    """Delta_t = sum Delta_i / |S|, m_t, v_t, x <- x + eta m_t / (sqrt(v_t) + tau); Kingma and Ba, 2015, divide by 1 - beta^t."""
    p, (x, m, u) = v.p, v.start.values()
    eta, tau, b1, b2 = p["server_lr"], p["tau"], p["beta1"], p.get("beta2")
    for t, round in enumerate(v.rounds, start=1):
        delta = v.mean(round["cohort"], v.changes(round["cohort"], x))
        m = b1 * m + (1 - b1) * delta
        if p["rule"] == "adagrad":
            u = u + delta**2
        elif p["rule"] == "yogi":
            u = u - (1 - b2) * delta**2 * np.sign(u - delta**2)
        else:
            u = b2 * u + (1 - b2) * delta**2
        if p["rule"] == "torch adam":
            x = x + eta * (m / (1 - b1**t)) / (np.sqrt(u / (1 - b2**t)) + tau)
        else:
            late = t + p.get("corrected", 0)
            rate = (1 - b2**late).sqrt() / (1 - b1**late) if "corrected" in p else 1
            x = x + eta * rate * m / (np.sqrt(u) + tau)
        yield {"x": x, "m": m, "v": u}, None


def fedavgm(v: Told) -> Iterator:
    """v <- beta v + Delta w, w <- w - v with Delta w = sum n_k / n (w - w_k). The files keep -v, a change of the model."""
    p, w, velocity = v.p, v.start["x"], -v.start["v"]
    for round in v.rounds:
        delta = -v.mean(round["cohort"], v.changes(round["cohort"], w))
        velocity = p["beta"] * velocity + (1 - p.get("dampening", 0)) * delta
        w = w - p["server_lr"] * (delta + p["beta"] * velocity if p["nesterov"] else velocity)
        yield {"x": w, "v": -velocity}, None


def feddyn(v: Told) -> Iterator:
    """Acar et al., 2021, Algorithm 1; g_k is the gradient of L_k at theta_k."""
    p, theta, h, g = v.p, v.start["x"], v.start["h"], [own["g_i"] for own in v.kept]
    alpha = p["alpha"]
    for round in v.rounds:
        P, thetas = round["cohort"], []
        for k in P:
            if "lr" in p:
                new = v.f[k].steps(theta, p["lr"], p["local_steps"], tilt=-g[k], mu=alpha)
            else:
                new = v.f[k].argmin(g[k] + alpha * theta, alpha)
            g[k] = g[k] - alpha * (new - theta)
            thetas.append(new)
        h = h - alpha * v.total(P, [new - theta for new in thetas])
        theta = v.mean(P, thetas) - h / alpha
        yield {"x": theta, "h": h}, [{"g_i": own} for own in g]


def scaffnew(v: Told) -> Iterator:
    """Mishchenko et al., 2022, Algorithm 2: the coin theta_t is 1 in the last of a round's iterations."""
    gamma, p = v.p["lr"], v.p["probability"]
    x, h = [v.start["x"]] * v.N, [own["h_i"] for own in v.kept]
    for round in v.rounds:
        for left in reversed(range(round["draws"]["local_steps"])):
            hat = [x_i - gamma * (f.grad(x_i) - h_i) for f, x_i, h_i in zip(v.f, x, h, strict=True)]
            x = hat if left else [sum(hat) / v.N] * v.N
            h = [h[i] + p / gamma * (x[i] - hat[i]) for i in range(v.N)]
        yield {"x": x[0]}, [{"h_i": own} for own in h]


def fedbuff(v: Told) -> Iterator:
    """Nguyen et al., 2022, Algorithms 1 and 2, with s(tau) = (1 + tau)^-power; `sent` counts from 1, and 0 is the start."""
    p, w = v.p, [v.start["x"]]
    for t, round in enumerate(v.rounds):
        buffer = []
        for one in round["exchanges"]:
            (i,), (sent,) = one["to"], one["sent"]
            version = max(sent - 1, 0)
            buffer += [(1 + Decimal(t - version)) ** -p["power"] * -delta for delta in v.changes([i], w[version])]
        w.append(w[-1] - p["server_lr"] * sum(buffer) / len(buffer))
        yield {"x": w[-1]}, None


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
    decimals = json.loads(json.dumps(vector), parse_float=Decimal)
    with localcontext(prec=50):
        return [
            (in_double(server), clients and [in_double(own) for own in clients])
            for server, clients in PROGRAMS[vector["algorithm"]](Told(decimals))
        ]


def in_double(state: dict) -> dict:
    return {name: value.astype(float) for name, value in state.items()}
