"""Local steps with amplified sums, weights by labels, steps uphill at the server, curvatures and compressed changes."""

import numpy as np

from tests.references.tiny import CLIENTS, START

EVERYONE = list(CLIENTS)


def zeros():
    return [np.zeros(3) for _ in CLIENTS]


def largest(vector, kept):
    """The `kept` entries of largest magnitude, and 0 elsewhere."""
    flat = vector.ravel()
    return np.where(np.isin(np.arange(flat.size), np.argsort(-np.abs(flat))[:kept]), flat, 0).reshape(vector.shape)


def amplified_fedavg(p, log, cohorts, lr, local_steps, period, amplification):
    x = anchor = START
    log.start({"x": x, "a": anchor})
    for number, cohort in enumerate(cohorts, start=1):
        changes = [p.steps(i, x, lr, local_steps) - x for i in cohort]
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        x = x + p.mean(cohort, changes)
        if number % period == 0:
            x = anchor = anchor + amplification * (x - anchor)
        log.end(cohort, {"x": x, "a": anchor})


def amplified_scaffold(p, log, cohorts, lr, local_steps, period, amplification):
    """With all gradients of a period at hand."""
    x, anchor, c, means = START, START, zeros(), zeros()
    log.start({"x": x, "a": anchor, "c": np.zeros(3), "coming": np.zeros(3)}, [{"g_i": g} for g in means])
    gradients = {}
    for number, cohort in enumerate(cohorts, start=1):
        changes, replies, mean, old = [], [], p.total(EVERYONE, c), [*means]
        for i in cohort:
            y = x
            for _ in range(local_steps):
                g = p.grad(i, y)
                gradients.setdefault(i, []).append(g)
                y = y - lr * (g - c[i] + mean)
            means[i] = np.mean(gradients[i], axis=0)
            changes.append(y - x)
            replies.append({"change": y - x, "change_of_g_i": means[i] - old[i]})
        log.exchange(cohort, {"x": x, "c": mean, "period": (number - 1) // period}, replies)
        x = x + p.mean(cohort, changes)
        if number % period == 0:
            x = anchor = anchor + amplification * (x - anchor)
            c, gradients = [*means], {}
        server = {"x": x, "a": anchor, "c": p.total(EVERYONE, c), "coming": p.total(EVERYONE, means)}
        log.end(cohort, server, [{"g_i": g} for g in means])


def feddisco(p, log, cohorts, lr, local_steps, a, b):
    shares = np.array([[np.mean(labels == label) for label in (-1, 1)] for labels in p.b])
    everyone = p.weights @ shares
    d = np.array([sum(s * np.log(s / e) for s, e in zip(own, everyone, strict=True) if s > 0) for own in shares])
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        changes = [p.steps(i, x, lr, local_steps) - x for i in cohort]
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        n = p.weights[cohort] / p.weights[cohort].sum()
        w = np.maximum(0, n - a * d[cohort] / d[cohort].sum() + b)
        x = x + np.average(changes, axis=0, weights=w)
        log.end(cohort, {"x": x})


def fedgloss(p, log, cohorts, lr, local_steps, radius, server_radius, beta):
    x, g, h, own = START, np.zeros(3), np.zeros(3), zeros()
    log.start({"x": x, "g": g, "h": h}, [{"h_i": one} for one in own])
    for cohort in cohorts:
        z = x + server_radius * g / (np.linalg.norm(g) or 1)
        changes = []
        for i in cohort:
            y = z
            for _ in range(local_steps):
                u = p.grad(i, y)
                y = y - lr * (p.grad(i, y + radius * u / np.linalg.norm(u)) - own[i] + (y - z) / beta)
            changes.append(y - z)
        log.exchange(cohort, {"z": z}, [{"change": change} for change in changes])
        g, h = -p.mean(cohort, changes), h - p.total(cohort, changes) / beta
        x = x - g - beta * h
        own = [*own]
        for i, change in zip(cohort, changes, strict=True):
            own[i] = own[i] - change / beta
        log.end(cohort, {"x": x, "g": g, "h": h}, [{"h_i": one} for one in own])


def fedsophia(p, log, cohorts, lr, local_steps, every, beta1, beta2, rho, epsilon, weight_decay, signs):
    x, m, h = START, zeros(), zeros()
    log.start({"x": x}, [{"m_i": one, "h_i": other} for one, other in zip(m, h, strict=True)])
    for cohort, drawn in zip(cohorts, signs, strict=True):
        changes, m, h = [], [*m], [*h]
        for i in cohort:
            y = x
            for k in range(local_steps):
                if k % every == 0:
                    z = np.array(drawn[str(i)][k // every])
                    h[i] = beta2 * h[i] + (1 - beta2) * z * (p.hessian(i, y) @ z)
                m[i] = beta1 * m[i] + (1 - beta1) * p.grad(i, y)
                y = y - lr * (weight_decay * y + np.clip(m[i] / np.maximum(h[i], epsilon), -rho, rho))
            changes.append(y - x)
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        x = x + p.mean(cohort, changes)
        log.end(cohort, {"x": x}, [{"m_i": one, "h_i": other} for one, other in zip(m, h, strict=True)], signs=drawn)


def sa_pef(p, log, cohorts, lr, local_steps, alpha, server_lr, kept):
    x, left = START, zeros()
    log.start({"x": x}, [{"e_i": e} for e in left])
    for cohort in cohorts:
        sent, left = [], [*left]
        for i in cohort:
            y = p.steps(i, x + alpha * left[i], lr, local_steps)
            u = y - x + (1 - alpha) * left[i]
            sent.append(largest(u, kept))
            left[i] = u - sent[-1]
        log.exchange(cohort, {"x": x}, [{"change": change} for change in sent])
        x = x + server_lr * p.mean(cohort, sent)
        log.end(cohort, {"x": x}, [{"e_i": e} for e in left])


def clag(p, log, cohorts, lr, kept, trigger):
    x, g, last = START, zeros(), zeros()
    log.start({"x": x, "g": np.zeros(3)}, [{"g_i": one, "y_i": other} for one, other in zip(g, last, strict=True)])
    for cohort in cohorts:
        g, last, sends = [*g], [*last], []
        for i in cohort:
            slope = p.grad(i, x)
            missing, moved = slope - g[i], slope - last[i]
            sends.append(missing @ missing > trigger * (moved @ moved))
            last[i] = slope
        log.exchange(cohort, {"x": x}, [{"sends": float(yes)} for yes in sends])
        asked = [i for i, yes in zip(cohort, sends, strict=True) if yes]
        changes = [largest(last[i] - g[i], kept) for i in asked]
        log.exchange(asked, {}, [{"change_of_g_i": change} for change in changes])
        for i, change in zip(asked, changes, strict=True):
            g[i] = g[i] + change
        mean = p.total(EVERYONE, g)
        x = x - lr * mean
        log.end(cohort, {"x": x, "g": mean}, [{"g_i": one, "y_i": other} for one, other in zip(g, last, strict=True)])
