"""Local problems with a proximal term or a tilt, solved exactly on squared losses."""

import numpy as np

from tests.references.tiny import CLIENTS, START


def feddyn(p, log, cohorts, alpha, lr=None, local_steps=None):
    """FedDyn; with `local_steps` gradient steps in the place of the exact minimiser."""
    x, h, g = START, np.zeros(3), [np.zeros(3) for _ in CLIENTS]
    log.start({"x": x, "h": h}, [{"g_i": own} for own in g])
    for cohort in cohorts:
        changes, new = [], {}
        for i in cohort:
            if local_steps is None:
                y = p.minimiser(i, g[i], alpha, x)
            else:
                y = p.steps(i, x, lr, local_steps, lambda y, i=i, x=x, g=g: p.grad(i, y) - g[i] + alpha * (y - x))
            new[i] = g[i] - alpha * (y - x)
            changes.append(y - x)
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        h = h - alpha * p.total(cohort, changes)
        x = x + p.mean(cohort, changes) - h / alpha
        g = [new.get(i, own) for i, own in enumerate(g)]
        log.end(cohort, {"x": x, "h": h}, [{"g_i": own} for own in g])


def fedexprox(p, log, cohorts, gamma, rule, alpha=None):
    """FedExProx: a constant alpha, or the rule of gradient diversity."""
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        changes = [p.minimiser(i, weight=1 / gamma, centre=x) - x for i in cohort]
        step = p.mean(cohort, changes)
        squares = [d @ d for d in changes]
        replies = [{"change": d} if rule is None else {"change": d, "square": s} for d, s in zip(changes, squares, strict=True)]
        log.exchange(cohort, {"x": x}, replies)
        x = x + (alpha if rule is None else p.mean(cohort, squares) / (step @ step)) * step
        log.end(cohort, {"x": x})


def point_saga(p, log, cohorts, gamma):
    x, variate, y = START, np.zeros(3), [np.zeros(3) for _ in CLIENTS]
    log.start({"x": x, "variate": variate}, [{"y_i": own} for own in y])
    for cohort in cohorts:
        z = x - gamma * variate
        changes = [p.minimiser(i, y[i], 1 / gamma, z) - z for i in cohort]
        log.exchange(cohort, {"z": z}, [{"change": d} for d in changes])
        x, variate = z + p.mean(cohort, changes), variate - p.total(cohort, changes) / gamma
        y = [*y]
        for i, change in zip(cohort, changes, strict=True):
            y[i] = y[i] - change / gamma
        log.end(cohort, {"x": x, "variate": variate}, [{"y_i": own} for own in y])


def five_gcs(p, log, cohorts, gamma, mu):
    x, v, h = START, np.zeros(3), [np.zeros(3) for _ in CLIENTS]
    log.start({"x": x, "v": v}, [{"h_i": own} for own in h])
    for cohort in cohorts:
        z = (x - gamma * v) / (1 + gamma * mu)
        changes, weight = [], 1 / gamma - mu
        for i in cohort:
            # f_i(y) - (mu / 2) |y|^2 - <y, h_i> + |y - z|^2 / (2 gamma)
            y = p.minimiser(i, h[i] + z / gamma, weight)
            changes.append(p.grad(i, y) - mu * y - h[i])
        log.exchange(cohort, {"z": z}, [{"change_of_h_i": d} for d in changes])
        x, v = z - gamma * p.average(cohort, changes), v + p.total(cohort, changes)
        h = [*h]
        for i, change in zip(cohort, changes, strict=True):
            h[i] = h[i] + change
        log.end(cohort, {"x": x, "v": v}, [{"h_i": own} for own in h])


def s_dane(p, log, cohorts, lam, mu):
    x = v = START
    log.start({"x": x, "v": v})
    for cohort in cohorts:
        gradients = [p.grad(i, v) for i in cohort]
        log.exchange(cohort, {"v": v}, [{"gradient": g} for g in gradients])
        g = p.mean(cohort, gradients)
        points = [p.minimiser(i, own - g, lam, v) for i, own in zip(cohort, gradients, strict=True)]
        slopes = [p.grad(i, point) for i, point in zip(cohort, points, strict=True)]
        replies = [{"change": point - v, "gradient": slope} for point, slope in zip(points, slopes, strict=True)]
        log.exchange(cohort, {"v": v, "g": g}, replies)
        x = p.mean(cohort, points)
        v = (lam * v + mu * x - p.mean(cohort, slopes)) / (lam + mu)
        log.end(cohort, {"x": x, "v": v})


def dane(p, log, cohorts, lam, lr):
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        gradients = [p.grad(i, x) for i in cohort]
        log.exchange(cohort, {"x": x}, [{"gradient": g} for g in gradients])
        g = p.average(cohort, gradients)
        changes = [p.minimiser(i, own - lr * g, lam, x) - x for i, own in zip(cohort, gradients, strict=True)]
        log.exchange(cohort, {"g": g}, [{"change": change} for change in changes])
        x = x + p.mean(cohort, changes)
        log.end(cohort, {"x": x})


def feddcd(p, log, cohorts, lr, convexity):
    x, y = START, [np.zeros(3) for _ in CLIENTS]
    log.start({"x": x}, [{"y_i": own} for own in y])
    for cohort in cohorts:
        w = [p.minimiser(i, y[i]) for i in cohort]
        log.exchange(cohort, {}, [{"w_i": own} for own in w])
        x = p.mean(cohort, w)
        y = [*y]
        for i, own in zip(cohort, w, strict=True):
            y[i] = y[i] - lr * convexity * (own - x)
        log.end(cohort, {"x": x}, [{"y_i": own} for own in y])


def pfedme(p, log, cohorts, lr, local_steps, lam, server_lr):
    x, theta = START, [START for _ in CLIENTS]
    log.start({"x": x}, [{"theta_i": own} for own in theta])
    for cohort in cohorts:
        changes, theta = [], [*theta]
        for i in cohort:
            w = x
            for _ in range(local_steps):
                theta[i] = p.minimiser(i, weight=lam, centre=w)
                w = w - lr * lam * (w - theta[i])
            changes.append(w - x)
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        x = x + server_lr * p.mean(cohort, changes)
        log.end(cohort, {"x": x}, [{"theta_i": own} for own in theta])


def proximal_means(p, log, cohorts, gamma, inner, alpha=None):
    """FedProx-SPPM-AS; with alpha FedAvg-SPPM-AS: prox of f_i + |. - x|^2 / (2 gamma) at y."""
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        y = x
        for _ in range(inner):
            centre = y if alpha is None else (alpha * x + gamma * y) / (alpha + gamma)
            weight = 1 / gamma if alpha is None else 1 / gamma + 1 / alpha
            changes = [p.minimiser(i, weight=weight, centre=centre) - centre for i in cohort]
            log.exchange(cohort, {"centre": centre}, [{"change": change} for change in changes])
            y = centre + p.mean(cohort, changes)
        x = y
        log.end(cohort, {"x": x})


def acc_s_dane(p, log, cohorts, lam, mu):
    x = v = START
    total = 0.0
    log.start({"x": x, "v": v, "total": total})
    for cohort in cohorts:
        b = 1 + mu * total
        # lam a^2 - b a - total b = 0
        a = (b + np.sqrt(b**2 + 4 * lam * total * b)) / (2 * lam)
        y = (total * x + a * v) / (total + a)
        gradients = [p.grad(i, y) for i in cohort]
        log.exchange(cohort, {"y": y}, [{"gradient": g} for g in gradients])
        g = p.mean(cohort, gradients)
        points = [p.minimiser(i, own - g, lam, y) for i, own in zip(cohort, gradients, strict=True)]
        slopes = [p.grad(i, point) for i, point in zip(cohort, points, strict=True)]
        replies = [{"change": point - y, "gradient": slope} for point, slope in zip(points, slopes, strict=True)]
        log.exchange(cohort, {"y": y, "g": g}, replies)
        x = p.mean(cohort, points)
        v = (b * v + a * mu * x - a * p.mean(cohort, slopes)) / (b + a * mu)
        total = total + a
        log.end(cohort, {"x": x, "v": v, "total": total})


def aide(p, log, cohorts, lam, lr, kappa, mu, inner):
    """Steps of DANE for f_i + (kappa / 2) |. - y|^2, with a momentum of q = mu / (mu + kappa)."""
    x = y = START
    log.start({"x": x, "y": y})
    root = np.sqrt(mu / (mu + kappa))
    for cohort in cohorts:
        z = x
        for _ in range(inner):
            gradients = [p.grad(i, z) for i in cohort]
            log.exchange(cohort, {"x": z}, [{"gradient": g} for g in gradients])
            g = p.average(cohort, gradients) + kappa * (z - y)
            # h_i(w) - <grad h_i(z) - lr g, w> + (lam / 2) |w - z|^2, h_i = f_i + (kappa / 2) |. - y|^2
            points = [
                p.minimiser(i, own + kappa * (z - y) - lr * g + kappa * y + lam * z, kappa + lam)
                for i, own in zip(cohort, gradients, strict=True)
            ]
            log.exchange(cohort, {"g": g}, [{"change": point - z} for point in points])
            z = p.mean(cohort, points)
        x, y = z, z + (1 - root) / (1 + root) * (z - x)
        log.end(cohort, {"x": x, "y": y})


def newton_zero(p, log, cohorts):
    """FedNL with the Hessians of the start."""
    x = START
    hessian = p.total(list(CLIENTS), [p.hessian(i, START) for i in CLIENTS])
    log.start({"x": x})
    for cohort in cohorts:
        gradients = [p.grad(i, x) for i in cohort]
        log.exchange(cohort, {"x": x}, [{"gradient": g} for g in gradients])
        x = x - np.linalg.solve(hessian, p.average(cohort, gradients))
        log.end(cohort, {"x": x})


def lazy_dane(p, log, cohorts, lam, momentum):
    x = old = START
    known = {}
    blank = {"b_i": np.zeros(3), "x_i": np.zeros(3), "heard": 0.0}

    def states():
        clients = [blank | ({"b_i": known[i][0], "x_i": known[i][1], "heard": 1.0} if i in known else {}) for i in CLIENTS]
        sums = [p.total(list(CLIENTS), [own[name] for own in clients]) for name in blank]
        return {"x": x, "old": old, "sum_b": sums[0], "sum_x": sums[1], "weight": sums[2]}, clients

    log.start(*states())
    for cohort in cohorts:
        heard = [*known]
        b = p.mean(heard, [known[i][0] for i in heard]) if heard else np.zeros(3)
        z = p.mean(heard, [known[i][1] for i in heard]) if heard else x
        changes = [p.minimiser(i, (p.grad(i, z) if heard else 0.0) - b, lam, x) - x for i in cohort]
        log.exchange(cohort, {"x": x, "z": z, "b": b}, [{"change": change} for change in changes])
        known |= {i: (p.grad(i, x), x) for i in cohort}
        x, old = x + p.mean(cohort, changes) + momentum * (x - old), x
        log.end(cohort, *states())


def svrp(p, log, cohorts, gamma, probability, renewed):
    """SVRP; `renewed` says in which rounds the anchor is renewed."""
    x = w = START
    everyone = list(CLIENTS)
    gradient = p.total(everyone, [p.grad(i, w) for i in CLIENTS])
    log.start({"x": x, "w": w, "gradient": gradient})
    for cohort, moves in zip(cohorts, renewed, strict=True):
        centre = x - gamma * gradient
        changes = [p.minimiser(i, p.grad(i, w), 1 / gamma, centre) - centre for i in cohort]
        log.exchange(cohort, {"centre": centre, "w": w}, [{"change": change} for change in changes])
        x = centre + p.mean(cohort, changes)
        if moves:
            w, gradients = x, [p.grad(i, x) for i in CLIENTS]
            log.exchange(everyone, {"x": x}, [{"gradient": g} for g in gradients])
            gradient = p.total(everyone, gradients)
        log.end(cohort, {"x": x, "w": w, "gradient": gradient}, renewed=moves)


def fedred(p, log, cohorts, lam, smoothness, local_steps):
    """FedRed-GD, whose delegate is client 0."""
    x = START
    log.start({"x": x})
    for cohort, count in zip(cohorts, local_steps, strict=True):
        gradients = [p.grad(i, x) for i in cohort]
        log.exchange(cohort, {"x": x}, [{"gradient": g} for g in gradients])
        full, y = p.mean(cohort, gradients), x
        for _ in range(count):
            linear = p.grad(0, y) + full - p.grad(0, x)
            y = (smoothness * y + lam * x - linear) / (smoothness + lam)
        log.exchange([0], {"x": x, "gradient": full}, [{"change": y - x}])
        x = y
        log.end(cohort, {"x": x}, local_steps=count)


def scafflix(p, log, cohorts, lr, alpha, probability, local_steps):
    """Scafflix with one step size and one alpha."""
    x, h, best = START, [np.zeros(3) for _ in CLIENTS], [p.minimiser(i) for i in CLIENTS]
    log.start({"x": x}, [{"h_i": own} for own in h])
    for cohort, count in zip(cohorts, local_steps, strict=True):
        ends = []
        for i in cohort:
            y = x
            for _ in range(count):
                y = y - lr / alpha * (p.grad(i, alpha * y + (1 - alpha) * best[i]) - h[i])
            ends.append(y)
        log.exchange(cohort, {"x": x, "steps": count}, [{"x_i": y} for y in ends])
        x = p.mean(cohort, ends)
        h = [own + probability * alpha / lr * (x - y) for own, y in zip(h, ends, strict=True)]
        log.end(cohort, {"x": x}, [{"h_i": own} for own in h], local_steps=count)
