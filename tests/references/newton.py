"""Newton steps with Hessians that clients send a part at a time."""

import numpy as np

from tests.references.tiny import CLIENTS, START

EVERYONE = list(CLIENTS)


def main_pair(matrix):
    """v u u' of the eigenvalue v of largest magnitude."""
    values, vectors = np.linalg.eigh(matrix)
    j = np.argmax(np.abs(values))
    return values[j] * np.outer(vectors[:, j], vectors[:, j])


def raised(matrix, least):
    """The nearest matrix with eigenvalues of at least `least`."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, least)) @ vectors.T


def cubic(matrix, gradient, lipschitz):
    """argmin_h g.h + h.M h / 2 + (lipschitz / 6) |h|^3 = -(M + (lipschitz r / 2) I)^-1 g with r = |h|."""
    low, high = 0.0, np.sqrt(2 * np.linalg.norm(gradient) / lipschitz)
    for _ in range(200):
        r = (low + high) / 2
        h = -np.linalg.solve(matrix + lipschitz * r / 2 * np.eye(3), gradient)
        low, high = (r, high) if np.linalg.norm(h) > r else (low, r)
    return h


def searched(p, log, cohort, x, direction, slope, decrease, shrink):
    """The first step shrink^s direction that brings its share of the decrease; each trial is an exchange."""
    before, length = p.average(cohort, [p.value(i, x) for i in cohort]), 1.0
    while True:
        y = x + length * direction
        values = [p.value(i, y) for i in cohort]
        log.exchange(cohort, {"y": y}, [{"value": value} for value in values])
        if p.average(cohort, values) <= before + decrease * length * slope:
            return y
        length = length * shrink


def fednl(p, log, cohorts, option=None, mu=None, lipschitz=None, decrease=None, shrink=None):
    """FedNL by options I and II, with a cubic model, and with a line search."""
    x, own = START, [p.hessian(i, START) for i in CLIENTS]
    log.start({"x": x, "H": p.total(EVERYONE, own)}, [{"H_i": h} for h in own])
    for cohort in cohorts:
        gradients = [p.grad(i, x) for i in cohort]
        missing = [p.hessian(i, x) - own[i] for i in cohort]
        changes = [main_pair(matrix) for matrix in missing]
        distances = [np.linalg.norm(matrix) for matrix in missing]
        replies = []
        for i, g, distance, change in zip(cohort, gradients, distances, changes, strict=True):
            value = {"value": p.value(i, x)} if decrease else {}
            measured = {"distance": distance} if option == "II" or lipschitz else {}
            replies.append(value | {"gradient": g} | measured | {"change_of_H_i": change})
        log.exchange(cohort, {"x": x}, replies)
        g, hessian = p.average(cohort, gradients), p.total(EVERYONE, own)
        shifted = hessian + p.average(cohort, distances) * np.eye(3)
        if decrease:
            direction = -np.linalg.solve(raised(hessian, mu), g)
            x = searched(p, log, cohort, x, direction, g @ direction, decrease, shrink)
        elif lipschitz:
            x = x + cubic(shifted, g, lipschitz)
        else:
            x = x - np.linalg.solve(shifted if option == "II" else raised(hessian, mu), g)
        own = [*own]
        for i, change in zip(cohort, changes, strict=True):
            own[i] = own[i] + change
        log.end(cohort, {"x": x, "H": p.total(EVERYONE, own)}, [{"H_i": h} for h in own])


def largest(vector, kept):
    """The `kept` largest numbers of a vector, and zeros."""
    chosen = np.zeros(3)
    places = np.argsort(-np.abs(vector), kind="stable")[:kept]
    chosen[places] = vector[places]
    return chosen


def fednl_bc(p, log, cohorts, mu, kept, probability, coins):
    """FedNL with bidirectional compression: clients know z, and gradients come where the coin says so."""
    x = z = w = START
    own, gradient = [p.hessian(i, START) for i in CLIENTS], np.zeros(3)

    def server():
        return {"x": x, "w": w, "gradient": gradient, "z": z, "H": p.total(EVERYONE, own)}

    log.start(server(), [{"z": z, "H_i": h} for h in own])
    for number, (cohort, coin) in enumerate(zip(cohorts, coins, strict=True)):
        step = largest(x - z, kept)
        z = z + step
        changes = [main_pair(p.hessian(i, z) - own[i]) for i in cohort]
        gradients = [{"gradient": p.grad(i, z)} if coin else {} for i in cohort]
        replies = [g | {"change_of_H_i": change} for g, change in zip(gradients, changes, strict=True)]
        log.exchange(cohort, {"change_of_z": step, "number": number}, replies)
        if coin:
            w, gradient = z, p.average(cohort, [g["gradient"] for g in gradients])
        x = w - np.linalg.solve(raised(p.total(EVERYONE, own), mu), gradient)
        own = [h + change for h, change in zip(own, changes, strict=True)]
        log.end(cohort, server(), [{"z": z, "H_i": h} for h in own], coin=coin)


class Models:
    """What the clients of FedNL-PP and BL2 keep: H_i, l_i and the point w_i where they were asked last."""

    def __init__(self, p, x_0):
        self.p, self.H = p, [p.hessian(i, x_0) for i in CLIENTS]
        self.w, self.l = [x_0 for _ in CLIENTS], [0.0 for _ in CLIENTS]

    def vector(self, i):
        """H_i w_i - grad f_i(w_i)."""
        return self.H[i] @ self.w[i] - self.p.grad(i, self.w[i])

    def move(self, i, x, change):
        self.H[i], self.w[i] = self.H[i] + change, x
        self.l[i] = np.linalg.norm(self.H[i] - self.p.hessian(i, x))

    def server(self):
        """x = (H + l I)^-1 g, and g, l and H."""
        shifted = [self.vector(i) + self.l[i] * self.w[i] for i in CLIENTS]
        g, shift, hessian = (self.p.total(EVERYONE, values) for values in (shifted, self.l, self.H))
        return {"x": np.linalg.solve(hessian + shift * np.eye(3), g), "g": g, "l": shift, "H": hessian}


def fednl_pp(p, log, cohorts, x_0):
    models = Models(p, np.array(x_0))
    server = models.server()

    def clients():
        return [{"g_i": models.vector(i) + models.l[i] * models.w[i], "l_i": models.l[i], "H_i": models.H[i]} for i in CLIENTS]

    log.start(server, clients())
    for cohort in cohorts:
        old, replies, x = clients(), [], server["x"]
        for i in cohort:
            change = main_pair(p.hessian(i, x) - models.H[i])
            models.move(i, x, change)
            moved = {f"change_of_{name}": clients()[i][name] - old[i][name] for name in ("g_i", "l_i")}
            replies.append(moved | {"change_of_H_i": change})
        log.exchange(cohort, {"x": x}, replies)
        server = models.server()
        log.end(cohort, server, clients())


def largest_in_basis(matrix, basis, kept):
    """V S V', S having the `kept` largest numbers of the triangle of V' M V; entries off the diagonal count sqrt 2 times."""
    inside = basis.T @ matrix @ basis
    sizes = np.abs(inside) * (np.sqrt(2) - (np.sqrt(2) - 1) * np.eye(3))
    places = sorted(((r, c) for r in range(3) for c in range(r + 1)), key=lambda place: -sizes[place])[:kept]
    chosen = np.zeros((3, 3))
    for r, c in places:
        chosen[r, c] = chosen[c, r] = inside[r, c]
    return basis @ chosen @ basis.T


def bases(p, x, ridge):
    """Eigenvectors of the first Hessians without the ridge, the largest first."""
    found = []
    for i in CLIENTS:
        values, vectors = np.linalg.eigh(p.hessian(i, x) - ridge * np.eye(3))
        found.append(vectors[:, np.argsort(-np.abs(values))])
    return found


def bl1(p, log, cohorts, mu, ridge, kept):
    x, own, of = START, [p.hessian(i, START) for i in CLIENTS], bases(p, START, ridge)
    log.start({"x": x, "H": p.total(EVERYONE, own)}, [{"H_i": h} for h in own])
    for cohort in cohorts:
        gradients = [p.grad(i, x) for i in cohort]
        changes = [largest_in_basis(p.hessian(i, x) - own[i], of[i], kept) for i in cohort]
        replies = [
            {"loss_gradient": g - ridge * x, "change_of_H_i": change} for g, change in zip(gradients, changes, strict=True)
        ]
        log.exchange(cohort, {"x": x}, replies)
        x = x - np.linalg.solve(raised(p.total(EVERYONE, own), mu), p.average(cohort, gradients))
        own = [*own]
        for i, change in zip(cohort, changes, strict=True):
            own[i] = own[i] + change
        log.end(cohort, {"x": x, "H": p.total(EVERYONE, own)}, [{"H_i": h} for h in own])


def bl2(p, log, cohorts, x_0, ridge, kept):
    models, of = Models(p, np.array(x_0)), bases(p, np.array(x_0), ridge)
    server = models.server()

    def clients():
        return [{"H_i": models.H[i], "v_i": models.vector(i), "l_i": models.l[i]} for i in CLIENTS]

    log.start(server, clients())
    for cohort in cohorts:
        old, replies, x = clients(), [], server["x"]
        for i in cohort:
            change = largest_in_basis(p.hessian(i, x) - models.H[i], of[i], kept)
            models.move(i, x, change)
            moved = {f"change_of_{name}": clients()[i][name] - old[i][name] for name in ("v_i", "l_i")}
            replies.append(moved | {"change_of_H_i": change})
        log.exchange(cohort, {"x": x}, replies)
        server = models.server()
        log.end(cohort, server, clients())


def shed(p, log, cohorts, pairs, renewals, decrease, shrink):
    x, own = START, [np.zeros((3, 3)) for _ in CLIENTS]
    log.start({"x": x, "H": np.zeros((3, 3))})
    values, vectors, sent = {}, {}, 0
    for number, cohort in enumerate(cohorts, start=1):
        if number in renewals:
            sent = 0
            for i in cohort:
                ascending = np.linalg.eigh(p.hessian(i, x))
                values[i], vectors[i] = ascending[0][::-1], ascending[1][:, ::-1]
        known, replies = min(sent + pairs, 3), []
        for i in cohort:
            rho = values[i][min(known, 2)]
            parts = [(values[i][j] - rho) * np.outer(vectors[i][:, j], vectors[i][:, j]) for j in range(known)]
            own[i] = sum(parts) + rho * np.eye(3)
            above = sum(parts[sent:known], np.zeros((3, 3)))
            replies.append({"value": p.value(i, x), "gradient": p.grad(i, x), "above_rho_i": above, "rho_i": rho})
        sent = known
        log.exchange(cohort, {"x": x, "renewal": float(number in renewals)}, replies)
        hessian, g = p.total(cohort, own), p.total(cohort, [p.grad(i, x) for i in cohort])
        direction = -np.linalg.solve(hessian, g)
        x = searched(p, log, cohort, x, direction, g @ direction, decrease, shrink)
        log.end(cohort, {"x": x, "H": hessian})


def disco(p, log, cohorts, lam, relative, concordance):
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        gradients = [p.grad(i, x) for i in cohort]
        log.exchange(cohort, {"x": x}, [{"gradient": g} for g in gradients])
        g = r = p.average(cohort, gradients)
        v = product = u = np.zeros(3)
        last = np.inf
        while np.linalg.norm(r) > relative * np.linalg.norm(g):
            s = np.linalg.solve(p.hessian(0, x) + lam * np.eye(3), r)
            log.exchange([0], {"x": x, "r": r}, [{"s": s}])
            u, last = s + r @ s / last * u, r @ s
            products = [p.hessian(i, x) @ u for i in cohort]
            log.exchange(cohort, {"u": u}, [{"product": own} for own in products])
            times = p.average(cohort, products)
            a = last / (u @ times)
            v, product, r = v + a * u, product + a * times, r - a * times
        x = x - v / (1 + concordance * np.sqrt(v @ product))
        log.end(cohort, {"x": x})
