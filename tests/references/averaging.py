"""Local steps, then a mean: federated averaging and its kin."""

import numpy as np

from tests.references.tiny import CLIENTS, START


def fedavg(p, log, cohorts, lr, local_steps, server_lr=1.0, mu=0.0, batches=None):
    """FedAvg; with mu FedProx. `batches` are the rows of each client's steps by round and client."""
    x = START
    log.start({"x": x})
    for number, cohort in enumerate(cohorts):
        changes = []
        for i in cohort:
            y = x
            for k in range(local_steps):
                rows = None if batches is None else batches[number][str(i)][k]
                y = y - lr * (p.grad(i, y, rows) + mu * (y - x))
            changes.append(y - x)
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        x = x + server_lr * p.mean(cohort, changes)
        log.end(cohort, {"x": x}, **({} if batches is None else {"batches": batches[number]}))


def unbiased(p, log, cohorts, lr, local_steps):
    """FedAvg with lambda_i / p_i."""
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        changes = [p.steps(i, x, lr, local_steps) - x for i in cohort]
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        x = x + p.average(cohort, changes)
        log.end(cohort, {"x": x})


def fednova(p, log, cohorts, lr, local_steps, momentum=0.0, mu=0.0, shared="average", scale=1.0, tau=None):
    """FedNova; `shared`: "average" has lambda_i / p_i as weights of the normalised changes, "mean" those of the cohort."""
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        changes, work = [], []
        for i in cohort:
            y, m, count, kept = x, np.zeros(3), 0.0, 0.0
            for _ in range(local_steps[i]):
                m = momentum * m + p.grad(i, y)
                y = y - lr * (m + mu * (y - x))
                kept = momentum * kept + 1
                count = (1 - lr * mu) * count + kept
            changes.append((y - x) / count)
            work.append(count)
        log.exchange(cohort, {"x": x}, [{"normalised_change": d, "work": a} for d, a in zip(changes, work, strict=True)])
        x = x + scale * (tau or p.mean(cohort, work)) * getattr(p, shared)(cohort, changes)
        log.end(cohort, {"x": x})


def mbgd(p, log, cohorts, lr):
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        gradients = [p.grad(i, x) for i in cohort]
        log.exchange(cohort, {"x": x}, [{"gradient": g} for g in gradients])
        x = x - lr * p.average(cohort, gradients)
        log.end(cohort, {"x": x})


def fedexp(p, log, cohorts, lr, local_steps, epsilon):
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        changes = [p.steps(i, x, lr, local_steps) - x for i in cohort]
        squares = [d @ d for d in changes]
        log.exchange(cohort, {"x": x}, [{"change": d, "square": s} for d, s in zip(changes, squares, strict=True)])
        step = p.mean(cohort, changes)
        x = x + max(1.0, p.mean(cohort, squares) / (2 * (step @ step + epsilon))) * step
        log.end(cohort, {"x": x})


def fedsam(p, log, cohorts, lr, local_steps, radius):
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        changes = []
        for i in cohort:

            def uphill(y, i=i):
                g = p.grad(i, y)
                return p.grad(i, y + radius * g / np.linalg.norm(g))

            changes.append(p.steps(i, x, lr, local_steps, uphill) - x)
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        x = x + p.mean(cohort, changes)
        log.end(cohort, {"x": x})


def q_fedavg(p, log, cohorts, lr, local_steps, q):
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        replies = []
        for i in cohort:
            g, loss = (x - p.steps(i, x, lr, local_steps)) / lr, p.value(i, x)
            replies.append({"step": -(loss**q) * g, "curvature": q * loss ** (q - 1) * g @ g + loss**q / lr})
        log.exchange(cohort, {"x": x}, replies)
        x = x + p.average(cohort, [r["step"] for r in replies]) / p.average(cohort, [r["curvature"] for r in replies])
        log.end(cohort, {"x": x})


def adacomm(p, log, cohorts, lr, local_steps, interval):
    x, period, first = START, local_steps, None
    log.start({"x": x, "period": period, "first_loss": 0.0})
    for number, cohort in enumerate(cohorts):
        steps, measured = int(np.ceil(period)), number % interval == 0
        changes = [p.steps(i, x, lr, steps) - x for i in cohort]
        losses = [p.value(i, x) if measured else 0.0 for i in cohort]
        replies = [{"change": change, "loss": loss} for change, loss in zip(changes, losses, strict=True)]
        log.exchange(cohort, {"x": x, "steps": steps, "measured": measured}, replies)
        x, loss = x + p.mean(cohort, changes), p.mean(cohort, losses)
        if first is None:
            first = loss
        elif measured:
            wished = max(np.sqrt(loss / first) * local_steps, 1)
            period = wished if np.ceil(wished) < np.ceil(period) else max(period / 2, 1)
        log.end(cohort, {"x": x, "period": period, "first_loss": first})


def easgd(p, log, cohorts, lr, local_steps, alpha, beta):
    x, own = START, [START for _ in CLIENTS]
    log.start({"x": x}, [{"x_i": point} for point in own])
    for cohort in cohorts:
        distances = [own[i] - x for i in cohort]
        log.exchange(cohort, {"x": x}, [{"distance": d} for d in distances])
        for i, d in zip(cohort, distances, strict=True):
            own[i] = p.steps(i, own[i] - lr * p.grad(i, own[i]) - alpha * d, lr, local_steps - 1)
        x = x + beta * p.average(cohort, distances)
        log.end(cohort, {"x": x}, [{"x_i": point} for point in own])


def fedac(p, log, cohorts, lr, local_steps, mu, interval, variant):
    gamma = max(np.sqrt(lr / (mu * interval)), lr)
    if variant == "I":
        alpha = 1 / (gamma * mu)
        beta = alpha + 1
    else:
        alpha = 3 / (2 * gamma * mu) - 1 / 2
        beta = (2 * alpha**2 - 1) / (alpha - 1)
    w = v = START
    log.start({"w": w, "v": v})
    for cohort in cohorts:
        replies = []
        for i in cohort:
            own_w, own_v = w, v
            for _ in range(local_steps):
                u = own_w / beta + (1 - 1 / beta) * own_v
                g = p.grad(i, u)
                own_v, own_w = u - lr * g, (1 - 1 / alpha) * own_w + u / alpha - gamma * g
            replies.append({"change_of_w": own_w - w, "change_of_v": own_v - v})
        log.exchange(cohort, {"w": w, "v": v}, replies)
        w = w + p.mean(cohort, [r["change_of_w"] for r in replies])
        v = v + p.mean(cohort, [r["change_of_v"] for r in replies])
        log.end(cohort, {"w": w, "v": v})


def gd(p, log, cohorts, lr):
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        gradients = [p.grad(i, x) for i in CLIENTS]
        log.exchange(CLIENTS, {"x": x}, [{"gradient": g} for g in gradients])
        x = x - lr * p.total(list(CLIENTS), gradients)
        log.end(cohort, {"x": x})
