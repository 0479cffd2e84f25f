"""Steps of Muon on a matrix of parameters, [2, 2]: FedMuon, EF21-Muon."""

import numpy as np

from tests.references.local_training import largest
from tests.references.tiny import CLIENTS, FOUR

EVERYONE, SHAPE = list(CLIENTS), (2, 2)


def lmo(g, iterations):
    """-U q(S) V' for g = U S V', by Newton-Schulz steps of the singular values alone, from g / |g|."""
    u, s, v = np.linalg.svd(g)
    s = s / (np.linalg.norm(s) or 1)
    for _ in range(iterations):
        s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
    return -(u * s) @ v


def slope(p, i, x):
    return p.grad(i, x.ravel()).reshape(SHAPE)


def zeros():
    return [np.zeros(SHAPE) for _ in CLIENTS]


def fedmuon(p, log, cohorts, lr, local_steps, alpha, iterations):
    x, own = FOUR.reshape(SHAPE), zeros()
    log.start({"x": x, "C": np.zeros(SHAPE)}, [{"C_i": c} for c in own])
    for cohort in cohorts:
        mean, changes, moved, new = p.total(EVERYONE, own), [], [], [*own]
        for i in cohort:
            y, m = x, own[i]
            for _ in range(local_steps):
                m = (1 - alpha) * m + alpha * slope(p, i, y)
                y = y + lr * lmo(m - own[i] + mean, iterations)
            changes.append(y - x)
            moved.append(m - own[i])
            new[i] = m
        replies = [{"change": change, "change_of_C_i": move} for change, move in zip(changes, moved, strict=True)]
        log.exchange(cohort, {"x": x, "C": mean}, replies)
        x, own = x + p.total(cohort, changes), new
        log.end(cohort, {"x": x, "C": p.total(EVERYONE, own)}, [{"C_i": c} for c in own])


def ef21_muon(p, log, cohorts, lr, alpha, iterations, kept):
    x, momenta, memories = FOUR.reshape(SHAPE), zeros(), zeros()

    def clients():
        return [{"M_i": m, "G_i": g} for m, g in zip(momenta, memories, strict=True)]

    log.start({"x": x, "G": np.zeros(SHAPE)}, clients())
    for cohort in cohorts:
        changes = []
        for i in cohort:
            momenta[i] = (1 - alpha) * momenta[i] + alpha * slope(p, i, x)
            changes.append(largest(momenta[i] - memories[i], kept))
            memories[i] = memories[i] + changes[-1]
        log.exchange(cohort, {"x": x}, [{"change_of_G_i": change} for change in changes])
        x = x + lr * lmo(p.total(EVERYONE, memories), iterations)
        log.end(cohort, {"x": x, "G": p.total(EVERYONE, memories)}, clients())
