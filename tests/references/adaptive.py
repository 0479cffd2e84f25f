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


def diloco(p, log, cohorts, lr, local_steps, weight_decay, server_lr, beta):
    """Clients with AdamW, whose state stays from round to round, and Nesterov's momentum at the server."""
    x, v = START, np.zeros(3)
    states = [{"count": 0, "m": np.zeros(3), "v": np.zeros(3)} for _ in range(4)]
    log.start({"x": x, "v": v}, states)
    for cohort in cohorts:
        changes, states = [], [*states]
        for i in cohort:
            y, (count, m, second) = x, states[i].values()
            for _ in range(local_steps):
                g, count = p.grad(i, y), count + 1
                m, second = 0.9 * m + 0.1 * g, 0.999 * second + 0.001 * g**2
                step = m / (1 - 0.9**count) / (np.sqrt(second / (1 - 0.999**count)) + 1e-8)
                y = y - lr * (step + weight_decay * y)
            states[i] = {"count": count, "m": m, "v": second}
            changes.append(y - x)
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        d = p.mean(cohort, changes)
        v = beta * v + d
        x = x + server_lr * (d + beta * v)
        log.end(cohort, {"x": x, "v": v}, states)


def fedlamb(p, log, cohorts, lr, local_steps, beta1, beta2, epsilon):
    """Fed-LAMB with one layer."""
    x, scale, own = START, np.zeros(3), [(np.zeros(3), np.zeros(3)) for _ in range(4)]
    log.start({"x": x, "v": scale}, [{"m_i": m, "v_i": v} for m, v in own])
    for cohort in cohorts:
        changes, own = [], [*own]
        for i in cohort:
            y, (m, v) = x, own[i]
            for _ in range(local_steps):
                g = p.grad(i, y)
                m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
                direction = m / (np.sqrt(scale) + epsilon)
                y = y - lr * np.linalg.norm(y) / np.linalg.norm(direction) * direction
            own[i] = (m, v)
            changes.append(y - x)
        replies = [{"change": d, "v_i": own[i][1]} for i, d in zip(cohort, changes, strict=True)]
        log.exchange(cohort, {"x": x, "v": scale}, replies)
        x, scale = x + p.mean(cohort, changes), np.maximum(scale, p.mean(cohort, [own[i][1] for i in cohort]))
        log.end(cohort, {"x": x, "v": scale}, [{"m_i": m, "v_i": v} for m, v in own])
