"""Local steps with control variates."""

import numpy as np

from tests.references.tiny import CLIENTS, START


def scaffold(p, log, cohorts, lr, local_steps, server_lr, option, fraction=True, starts="zero"):
    """SCAFFOLD; without `fraction` the server adds the cohort's mean of the changes to c, not |S| / N times it."""
    x = START
    variates = [np.zeros(3) if starts == "zero" else p.grad(i, x) for i in CLIENTS]
    c = p.total(list(CLIENTS), variates)
    log.start({"x": x, "c": c}, [{"c_i": own} for own in variates])
    for cohort in cohorts:
        replies, new = [], {}
        for i in cohort:
            own = variates[i]
            y = p.steps(i, x, lr, local_steps, lambda y, i=i, own=own, c=c: p.grad(i, y) - own + c)
            new[i] = p.grad(i, x) if option == "I" else own - c + (x - y) / (local_steps * lr)
            replies.append({"change": y - x, "change_of_c_i": new[i] - own})
        log.exchange(cohort, {"x": x, "c": c}, replies)
        x = x + server_lr * p.mean(cohort, [r["change"] for r in replies])
        c = c + (p.total if fraction else p.mean)(cohort, [r["change_of_c_i"] for r in replies])
        variates = [new.get(i, own) for i, own in enumerate(variates)]
        log.end(cohort, {"x": x, "c": c}, [{"c_i": own} for own in variates])


def scaffnew(p, log, cohorts, lr, probability, local_steps):
    """Scaffnew (ProxSkip), `local_steps` steps in each round."""
    x, h = START, [np.zeros(3) for _ in CLIENTS]
    log.start({"x": x}, [{"h_i": own} for own in h])
    for cohort, count in zip(cohorts, local_steps, strict=True):
        z = [p.steps(i, x, lr, count, lambda z, i=i, own=h: p.grad(i, z) - own[i]) for i in CLIENTS]
        log.exchange(CLIENTS, {"x": x, "steps": count}, [{"z_i": own} for own in z])
        x = p.total(list(CLIENTS), z)
        h = [own + probability / lr * (x - last) for own, last in zip(h, z, strict=True)]
        log.end(cohort, {"x": x}, [{"h_i": own} for own in h], local_steps=count)


def fedvarp(p, log, cohorts, lr, local_steps):
    x, h = START, [np.zeros(3) for _ in CLIENTS]
    log.start({"x": x, "mean": np.zeros(3), "h": h})
    for cohort in cohorts:
        g = [p.steps(i, x, lr, local_steps) - x for i in cohort]
        log.exchange(cohort, {"x": x}, [{"change": own} for own in g])
        x = x + p.total(list(CLIENTS), h) + p.average(cohort, [own - h[i] for i, own in zip(cohort, g, strict=True)])
        h = [*h]
        for i, own in zip(cohort, g, strict=True):
            h[i] = own
        log.end(cohort, {"x": x, "mean": p.total(list(CLIENTS), h), "h": h})


def fedcm(p, log, cohorts, lr, local_steps, alpha, server_lr):
    x, d = START, np.zeros(3)
    log.start({"x": x, "d": d})
    for cohort in cohorts:
        means = []
        for i in cohort:
            y, gradients = x, []
            for _ in range(local_steps):
                gradients.append(p.grad(i, y))
                y = y - lr * (alpha * gradients[-1] + (1 - alpha) * d)
            means.append(np.mean(gradients, axis=0))
        log.exchange(cohort, {"x": x, "d": d}, [{"mean_gradient": g} for g in means])
        d = alpha * p.average(cohort, means) + (1 - alpha) * d
        x = x - server_lr * d
        log.end(cohort, {"x": x, "d": d})


def scaffold_m(p, log, cohorts, lr, local_steps, alpha, server_lr):
    x, d, c, variates = START, np.zeros(3), np.zeros(3), [np.zeros(3) for _ in CLIENTS]
    log.start({"x": x, "d": d, "c": c}, [{"c_i": own} for own in variates])
    for cohort in cohorts:
        residuals, new = [], {}
        for i in cohort:
            y, gradients = x, []
            for _ in range(local_steps):
                gradients.append(p.grad(i, y))
                y = y - lr * (alpha * (gradients[-1] - variates[i] + c) + (1 - alpha) * d)
            new[i] = np.mean(gradients, axis=0)
            residuals.append(new[i] - variates[i])
        log.exchange(cohort, {"x": x, "d": d, "c": c}, [{"residual": r} for r in residuals])
        d = alpha * (c + p.average(cohort, residuals)) + (1 - alpha) * d
        x, c = x - server_lr * d, c + p.total(cohort, residuals)
        variates = [new.get(i, own) for i, own in enumerate(variates)]
        log.end(cohort, {"x": x, "d": d, "c": c}, [{"c_i": own} for own in variates])


def fedlin(p, log, cohorts, lr, local_steps):
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        first = {i: p.grad(i, x) for i in cohort}
        log.exchange(cohort, {"x": x}, [{"gradient": g} for g in first.values()])
        g = p.average(cohort, [*first.values()])
        changes = []
        for i in cohort:
            size = lr / local_steps[i]
            changes.append(p.steps(i, x, size, local_steps[i], lambda y, i=i, first=first, g=g: p.grad(i, y) - first[i] + g) - x)
        log.exchange(cohort, {"g": g}, [{"change": change} for change in changes])
        x = x + p.mean(cohort, changes)
        log.end(cohort, {"x": x})


def mimemvr(p, log, cohorts, lr, local_steps, momentum=None):
    a = 1.0 if momentum is None else momentum
    x = before = START
    v = None
    log.start({"x": x} if momentum is None else {"x": x, "before": x, "v": np.zeros(3)})
    for cohort in cohorts:
        new, old = ([p.grad(i, at) for i in cohort] for at in (x, before))
        v = p.average(cohort, new) if v is None else p.average(cohort, new) + (1 - a) * (v - p.average(cohort, old))
        changes = [
            p.steps(i, x, lr, local_steps, lambda y, i=i, own=own, v=v: p.grad(i, y) - own + v) - x
            for i, own in zip(cohort, new, strict=True)
        ]
        if momentum is None:
            log.exchange(cohort, {"x": x}, [{"gradient": g} for g in new])
        else:
            both = [g - (1 - a) * h for g, h in zip(new, old, strict=True)]
            log.exchange(cohort, {"x": x, "before": before}, [{"difference": g} for g in both])
        log.exchange(cohort, {"v": v}, [{"change": change} for change in changes])
        x, before = x + p.mean(cohort, changes), x
        log.end(cohort, {"x": x} if momentum is None else {"x": x, "before": before, "v": v})


def mime(p, log, cohorts, lr, local_steps, beta, lite):
    """Mime with heavy-ball momentum, whose state stays as it is in local steps: y <- y - lr (beta m + g)."""
    x, m = START, np.zeros(3)
    log.start({"x": x, "m": m})
    for cohort in cohorts:
        first = {i: p.grad(i, x) for i in cohort}
        c = p.mean(cohort, [*first.values()])
        changes = [
            p.steps(i, x, lr, local_steps, lambda y, i=i, pull=beta * m + (0 if lite else c - first[i]): pull + p.grad(i, y)) - x
            for i in cohort
        ]
        if lite:
            replies = [{"change": d, "gradient": g} for d, g in zip(changes, first.values(), strict=True)]
            log.exchange(cohort, {"x": x, "m": m}, replies)
        else:
            log.exchange(cohort, {"x": x}, [{"gradient": g} for g in first.values()])
            log.exchange(cohort, {"x": x, "c": c, "m": m}, [{"change": d} for d in changes])
        x, m = x + p.mean(cohort, changes), beta * m + c
        log.end(cohort, {"x": x, "m": m})


def fedspeed(p, log, cohorts, lr, local_steps, gamma, radius, alpha):
    x, h = START, [np.zeros(3) for _ in CLIENTS]
    log.start({"x": x}, [{"h_i": own} for own in h])
    for cohort in cohorts:
        replies, h = [], [*h]
        for i in cohort:

            def corrected(y, i=i, x=x, h=h):
                g = p.grad(i, y)
                ahead = p.grad(i, y + radius * g / np.linalg.norm(g))
                return (1 - alpha) * g + alpha * ahead - h[i] + (y - x) / gamma

            change = p.steps(i, x, lr, local_steps, corrected) - x
            h[i] = h[i] - change / gamma
            replies.append(change - gamma * h[i])
        log.exchange(cohort, {"x": x}, [{"amended_change": reply} for reply in replies])
        x = x + p.mean(cohort, replies)
        log.end(cohort, {"x": x}, [{"h_i": own} for own in h])


def scaffold_sag(p, log, cohorts, lr, local_steps):
    x, b = START, [p.grad(i, START) for i in CLIENTS]
    log.start({"x": x, "b": p.total(list(CLIENTS), b)})
    for cohort in cohorts:
        first = {i: p.grad(i, x) for i in cohort}
        log.exchange(cohort, {"x": x}, [{"change_of_b_i": g - b[i]} for i, g in first.items()])
        b = [first.get(i, own) for i, own in enumerate(b)]
        mean = p.total(list(CLIENTS), b)
        changes = [p.steps(i, x, lr, local_steps, lambda y, i=i, pull=mean - b[i]: p.grad(i, y) + pull) - x for i in cohort]
        log.exchange(cohort, {"b": mean}, [{"change": change} for change in changes])
        x = x + p.mean(cohort, changes)
        log.end(cohort, {"x": x, "b": mean})


def ef21(p, log, cohorts, lr, kept):
    """EF21-PP with the `kept` largest entries."""
    x, g = START, [np.zeros(3) for _ in CLIENTS]
    log.start({"x": x, "g": np.zeros(3)}, [{"g_i": own} for own in g])
    for cohort in cohorts:
        replies, g = [], [*g]
        for i in cohort:
            difference = p.grad(i, x) - g[i]
            largest = np.argsort(-np.abs(difference))[:kept]
            change = np.where(np.isin(np.arange(3), largest), difference, 0)
            g[i] = g[i] + change
            replies.append({"change_of_g_i": change})
        log.exchange(cohort, {"x": x}, replies)
        x = x - lr * p.total(list(CLIENTS), g)
        log.end(cohort, {"x": x, "g": p.total(list(CLIENTS), g)}, [{"g_i": own} for own in g])
