"""Models of the clients' own, and clients that are weighed by their losses."""

import numpy as np

from tests.references.tiny import CLIENTS, START


def ditto(p, log, cohorts, lr, local_steps, lam, own_lr, own_steps, late=False):
    x, v, new = START, [START for _ in CLIENTS], {*CLIENTS} if late else set()
    log.start({"x": x}, [{"v_i": own} for own in v])
    for cohort in cohorts:
        changes, v = [], [*v]
        for i in cohort:
            changes.append(p.steps(i, x, lr, local_steps) - x)
            if i in new:
                v[i] = x
            for _ in range(own_steps):
                v[i] = v[i] - own_lr * (p.grad(i, v[i]) + lam * (v[i] - x))
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        x, new = x + p.mean(cohort, changes), new - {*cohort}
        log.end(cohort, {"x": x}, [{"v_i": own} for own in v])


def apfl(p, log, cohorts, lr, local_steps, alpha):
    x, v = START, [START for _ in CLIENTS]
    log.start({"x": x}, [{"v_i": own} for own in v])
    for cohort in cohorts:
        changes, v = [], [*v]
        for i in cohort:
            w = x
            for _ in range(local_steps):
                mixed = p.grad(i, alpha * v[i] + (1 - alpha) * w)
                w, v[i] = w - lr * p.grad(i, w), v[i] - lr * alpha * mixed
            changes.append(w - x)
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        x = x + p.mean(cohort, changes)
        log.end(cohort, {"x": x}, [{"v_i": own} for own in v])


def flix(p, log, cohorts, lr, alpha):
    x, best = START, [p.minimiser(i) for i in CLIENTS]
    log.start({"x": x})
    for cohort in cohorts:
        slopes = [alpha * p.grad(i, alpha * x + (1 - alpha) * best[i]) for i in cohort]
        log.exchange(cohort, {"x": x}, [{"slope": slope} for slope in slopes])
        x = x - lr * p.mean(cohort, slopes)
        log.end(cohort, {"x": x})


def agnostic(p, log, cohorts, lr, weights_lr):
    x, mean, w = START, START, np.full(4, 0.25)
    log.start({"x": x, "mean": mean, "weights": w})
    for number, cohort in enumerate(cohorts, start=1):
        scale = 4 / len(cohort)
        gradients, losses = [p.grad(i, x) for i in cohort], [p.value(i, x) for i in cohort]
        log.exchange(cohort, {"x": x}, [{"gradient": g, "loss": loss} for g, loss in zip(gradients, losses, strict=True)])
        mean = mean + (x - mean) / number
        x = x - lr * scale * sum(w[i] * g for i, g in zip(cohort, gradients, strict=True))
        v = np.zeros(4)
        v[cohort] = scale * np.array(losses)
        w = onto_simplex(w + weights_lr * v)
        log.end(cohort, {"x": x, "mean": mean, "weights": w})


def onto_simplex(point):
    """The nearest w >= 0 with the sum 1: max(point - c, 0), c by bisection."""
    low, high = point.min() - 1, point.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(point - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(point - low, 0)


def l2gd(p, log, cohorts, lr, probability, lam, local_steps, pulls):
    """`pulls`: the steps of the penalty that each round begins with."""
    mean, own = START, [START for _ in CLIENTS]
    log.start({"x": mean}, [{"x_i": x} for x in own])
    for cohort, count, drawn in zip(cohorts, local_steps, pulls, strict=True):
        for i in cohort:
            for _ in range(drawn):
                own[i] = own[i] - lr * lam / probability * (own[i] - mean)
            own[i] = p.steps(i, own[i], lr / (1 - probability), count)
        log.exchange(cohort, {"x": mean, "pulls": drawn, "steps": count}, [{"x_i": own[i]} for i in cohort])
        mean = p.total(cohort, [own[i] for i in cohort])
        log.end(cohort, {"x": mean}, [{"x_i": x} for x in own], local_steps=count, pulls=drawn)
