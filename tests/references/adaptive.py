"""An optimiser at the server."""

import numpy as np

from tests.references.tiny import START


def fedopt(p, log, cohorts, lr, local_steps, server_lr, rule, beta1=0.9, beta2=0.99, tau=0.01, v_start="tau^2", corrected=None):
    """FedAdam, FedYogi and FedAdagrad; `corrected`: bias correction as in Adam, with r plus this number in round r."""
    x, m, v = START, np.zeros(3), np.full(3, tau**2 if v_start == "tau^2" else 0.0)
    log.start({"x": x, "m": m, "v": v})
    for number, cohort in enumerate(cohorts, start=1):
        changes = [p.steps(i, x, lr, local_steps) - x for i in cohort]
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        g = p.mean(cohort, changes)
        m = beta1 * m + (1 - beta1) * g
        if "adam" in rule:
            v = beta2 * v + (1 - beta2) * g**2
        elif rule == "yogi":
            v = v - (1 - beta2) * g**2 * np.sign(v - g**2)
        else:
            v = v + g**2
        power, rate = number + (corrected or 0), server_lr
        if corrected is not None:
            rate = server_lr * np.sqrt(1 - beta2**power) / (1 - beta1**power)
        if rule == "torch adam":
            x = x + server_lr * m / (1 - beta1**number) / (np.sqrt(v / (1 - beta2**number)) + tau)
        else:
            x = x + rate * m / (np.sqrt(v) + tau)
        log.end(cohort, {"x": x, "m": m, "v": v})


def fedavgm(p, log, cohorts, lr, local_steps, server_lr, beta, dampening=0.0, nesterov=False):
    x, v = START, np.zeros(3)
    log.start({"x": x, "v": v})
    for cohort in cohorts:
        changes = [p.steps(i, x, lr, local_steps) - x for i in cohort]
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        d = p.mean(cohort, changes)
        v = beta * v + (1 - dampening) * d
        x = x + server_lr * (d + beta * v if nesterov else v)
        log.end(cohort, {"x": x, "v": v})


def local_momentum(p, log, cohorts, lr, local_steps, momentum):
    """FedAvg whose clients have momentum, which starts at 0 in each round."""
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        changes = []
        for i in cohort:
            y, m = x, np.zeros(3)
            for _ in range(local_steps):
                m = momentum * m + p.grad(i, y)
                y = y - lr * m
            changes.append(y - x)
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        x = x + p.mean(cohort, changes)
        log.end(cohort, {"x": x})
