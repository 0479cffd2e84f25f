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
                y = p.steps(i, x, lr, local_steps, lambda y, i=i: p.grad(i, y) - g[i] + alpha * (y - x))
            new[i] = g[i] - alpha * (y - x)
            changes.append(y - x)
        log.exchange(cohort, {"x": x}, [{"change": change} for change in changes])
        h = h - alpha * p.total(cohort, changes)
        x = x + p.mean(cohort, changes) - h / alpha
        g = [new.get(i, own) for i, own in enumerate(g)]
        log.end(cohort, {"x": x, "h": h}, [{"g_i": own} for own in g])
