"""Subproblems that are solved by exchanges with a cohort, and dual steps towards two cohorts."""

import numpy as np

from tests.references.tiny import CLIENTS, START


def sppm(p, log, cohorts, gamma, exchanges, smoothness=None, inclusion=None):
    """Steps for phi(y) = sum_S (lambda_i / p_i) f_i(y) + |y - x|^2 / (2 gamma): along grad phi by the smoothness, or Newton's."""
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        chance = [len(cohort) / 4 if inclusion is None else inclusion[i] for i in cohort]
        weights = p.weights[cohort] / chance
        y = x
        for _ in range(exchanges):
            gradients, hessians = ([of(i, y) for i in cohort] for of in (p.grad, p.hessian))
            slope = weights @ gradients + (y - x) / gamma
            if smoothness is None:
                replies = [
                    {"value": p.value(i, y), "gradient": g, "hessian": h}
                    for i, g, h in zip(cohort, gradients, hessians, strict=True)
                ]
                step = np.linalg.solve(np.tensordot(weights, hessians, 1) + np.eye(3) / gamma, slope)
            else:
                replies = [{"gradient": g} for g in gradients]
                step = slope / (weights.sum() * smoothness + 1 / gamma)
            log.exchange(cohort, {"y": y}, replies)
            y = y - step
        x = y
        log.end(cohort, {"x": x})


def accfeddcd(p, log, cohorts, others, lr, convexity, smoothness):
    x, owed = START, [START for _ in CLIENTS]
    y = z = np.zeros((4, 3))
    log.start({"x": x}, [{"y_i": own, "z_i": other} for own, other in zip(y, z, strict=True)])
    s, number = np.sqrt(convexity / smoothness), 0
    for cohort, other in zip(cohorts, others, strict=True):
        r = (len(cohort) - 1) / 3
        a = s / (1 / r + s)
        b = a * r**2 * s**2
        v = (1 - a) * y + a * z
        u = (a**2 * z + b * v) / (a**2 + b)
        w = np.array([p.minimiser(i, v[i]) for i in CLIENTS])
        y, z = v.copy(), u.copy()
        for members, dual, rate in ((cohort, y, 1.0), (other, z, a * r / (a**2 + b))):
            messages = [{"mean": owed[i], "number": number} for i in members]
            log.exchange(members, messages, [{"w_i": w[i]} for i in members])
            x, number = w[members].mean(0), number + 1
            dual[members] -= lr * convexity * rate * (w[members] - x)
            for i in members:
                owed[i] = x
        log.end(cohort, {"x": x}, [{"y_i": own, "z_i": other} for own, other in zip(y, z, strict=True)], second_cohort=other)
