"""Compressed gradients: rand-k, whose kept numbers are drawn and come as `places`, by round and client."""

import numpy as np

from tests.references.tiny import CLIENTS, START

ALL = list(CLIENTS)


def rand_k(v, kept):
    """The numbers of v at the kept places times d / k, and 0 elsewhere."""
    return np.where(np.isin(np.arange(v.size), kept), v.size / len(kept) * v, 0.0)


def zeros():
    """A vector of zeros for each client."""
    return [np.zeros(3) for _ in CLIENTS]


def learned_gradient(p, log, cohorts, lr, kept, places, rate=None, nu=1.0):
    """DIANA, whose rate is 1 / (1 + omega) = k / d; EF-BV with a rate and a nu of its own."""
    rate = kept / 3 if rate is None else rate
    x, h = START, zeros()
    log.start({"x": x, "h": np.zeros(3)}, [{"h_i": own} for own in h])
    for cohort, drawn in zip(cohorts, places, strict=True):
        changes = {i: rand_k(p.grad(i, x) - h[i], drawn[str(i)]) for i in cohort}
        log.exchange(cohort, {"x": x}, [{"m_i": m} for m in changes.values()])
        x = x - lr * (p.total(ALL, h) + nu * p.average(cohort, changes.values()))
        h = [own + rate * changes.get(i, 0.0) for i, own in enumerate(h)]
        log.end(cohort, {"x": x, "h": p.total(ALL, h)}, [{"h_i": own} for own in h], places=drawn)


def marina(p, log, cohorts, lr, kept, probability, passes, places):
    """MARINA; with cohorts PP-MARINA."""
    x, g = START, p.total(ALL, [p.grad(i, START) for i in ALL])
    log.start({"x": x, "g": g})
    for cohort, passed, drawn in zip(cohorts, passes, places, strict=True):
        old, x = x, x - lr * g
        if passed:
            gradients = [p.grad(i, x) for i in ALL]
            log.exchange(ALL, {"x": x}, [{"gradient": own} for own in gradients])
            g = p.total(ALL, gradients)
        else:
            changes = [rand_k(p.grad(i, x) - p.grad(i, old), drawn[str(i)]) for i in cohort]
            log.exchange(cohort, {"x": x, "old": old}, [{"compressed_change": own} for own in changes])
            g = g + p.average(cohort, changes)
        log.end(ALL if passed else cohort, {"x": x, "g": g}, passed=passed, **({} if passed else {"places": drawn}))


def adiana(p, log, cohorts, lr, kept, probability, mu, moves, places):
    """ADIANA; the two lists of places of a client are those of its two replies."""
    theta = min(1 / 4, np.sqrt(lr * mu / probability))
    gamma = lr / (2 * (theta + lr * mu))
    y = z = w = START
    h = zeros()
    log.start({"y": y, "z": z, "w": w, "h": np.zeros(3)}, [{"h_i": own} for own in h])
    for cohort, moved, drawn in zip(cohorts, moves, places, strict=True):
        x = theta * z + w / 2 + (1 / 2 - theta) * y
        own = {i: [rand_k(p.grad(i, at) - h[i], k) for at, k in zip((x, w), drawn[str(i)], strict=True)] for i in cohort}
        log.exchange(cohort, {"x": x, "w": w}, [{"m_i": m, "change_of_h_i": change} for m, change in own.values()])
        g = p.total(ALL, h) + p.average(cohort, [m for m, _ in own.values()])
        h = [before + kept / 3 * own[i][1] if i in own else before for i, before in enumerate(h)]
        w = y if moved else w
        y, z = x - lr * g, (1 - gamma * mu) * z + gamma * mu * x - gamma * g
        state = {"y": y, "z": z, "w": w, "h": p.total(ALL, h)}
        log.end(cohort, state, [{"h_i": own} for own in h], moved=moved, places=drawn)


def dasha(p, log, cohorts, lr, kept, places):
    """DASHA, for which only the new point is sent; DASHA-PP with cohorts."""
    x, g = START, np.zeros(3)
    h, sent = zeros(), zeros()
    log.start({"x": x, "g": g}, [{"h_i": own, "g_i": known} for own, known in zip(h, sent, strict=True)])
    for cohort, drawn in zip(cohorts, places, strict=True):
        old, x = x, x - lr * g
        chance = len(cohort) / 4
        a, b = chance / (2 * (3 / kept - 1) + 1), chance / (2 - chance)
        h, sent, changes = [*h], [*sent], []
        for i in cohort:
            k = p.grad(i, x) - p.grad(i, old) - b * (h[i] - p.grad(i, old))
            changes.append(rand_k((k - a * (sent[i] - h[i])) / chance, drawn[str(i)]))
            h[i], sent[i] = h[i] + k / chance, sent[i] + changes[-1]
        message = {"x": x} if chance == 1 else {"x": x, "old": old}
        log.exchange(cohort, message, [{"m_i": change} for change in changes])
        g = g + p.total(cohort, changes)
        log.end(cohort, {"x": x, "g": g}, [{"h_i": a, "g_i": b} for a, b in zip(h, sent, strict=True)], places=drawn)


def locodl(p, log, cohorts, lr, kept, probability, split, local_steps, places):
    """LoCoDL with g(x) = (split / 2) |x|^2 taken out of each f_i."""
    omega = 3 / kept - 1
    chi = 1 / (1 + omega * p.weights.max())
    c = probability * chi / (lr * (1 + 2 * omega))
    x, u, y, v = [START for _ in CLIENTS], zeros(), START, np.zeros(3)
    log.start({"y": y, "v": v}, [{"x_i": own, "u_i": dual} for own, dual in zip(x, u, strict=True)])
    for cohort, count, drawn in zip(cohorts, local_steps, places, strict=True):
        message = {"y": y, "v": v, "steps": count}
        for _ in range(count):
            x = [own - lr * (p.grad(i, own) - split * own - u[i]) for i, own in enumerate(x)]
            y = y - lr * (split * y - v)
        sent = [rand_k(own - y, drawn[str(i)]) for i, own in enumerate(x)]
        log.exchange(cohort, message, [{"d_i": d} for d in sent])
        d = p.total(ALL, sent) / 2
        x, u = [(1 - chi) * own + chi * (y + d) for own in x], [dual + c * (d - own) for dual, own in zip(u, sent, strict=True)]
        y, v = y + chi * d, v + c * d
        states = [{"x_i": own, "u_i": dual} for own, dual in zip(x, u, strict=True)]
        log.end(cohort, {"y": y, "v": v}, states, local_steps=count, places=drawn)


def tamuna(p, log, cohorts, lr, copies, probability, local_steps, places):
    """TAMUNA: each number comes from `copies` clients of the cohort."""
    x, h = START, zeros()
    rate = probability * 4 * (copies - 1) / (copies * 3) / lr
    log.start({"x": x}, [{"h_i": own} for own in h])
    for cohort, count, drawn in zip(cohorts, local_steps, places, strict=True):
        z = {i: p.steps(i, x, lr, count, lambda y, i=i, h=h: p.grad(i, y) - h[i]) for i in cohort}
        log.exchange(cohort, {"x": x, "steps": count}, [{"numbers": z[i][drawn[str(i)]]} for i in cohort])
        x, h = x.copy(), [own.copy() for own in h]
        for k in range(3):
            senders = [i for i in cohort if k in drawn[str(i)]]
            assert len(senders) == copies
            x[k] = p.mean(senders, [z[i][k] for i in senders])
            for i in senders:
                h[i][k] += rate * (x[k] - z[i][k])
        log.end(cohort, {"x": x}, [{"h_i": own} for own in h], local_steps=count, places=drawn)


def randprox(p, log, cohorts, gamma, beta, mu, kept, places):
    """RandProx whose dual steps are those of a cohort, and compressed."""
    x, v, h = START, np.zeros(3), zeros()
    log.start({"x": x, "v": v}, [{"h_i": own} for own in h])
    for cohort, drawn in zip(cohorts, places, strict=True):
        z, steps = (1 - gamma * mu) * x - gamma * v, {}
        for i in cohort:
            # f_i(y) - (mu / 2) |y|^2 - <y, h_i> + |y - z|^2 / (2 beta)
            y = p.minimiser(i, h[i] + z / beta, 1 / beta - mu)
            steps[i] = rand_k((z - y) / beta, drawn[str(i)])
        log.exchange(cohort, {"z": z}, [{"compressed_step": step} for step in steps.values()])
        x = z - gamma * p.average(cohort, steps.values())
        h = [own + kept / 3 * steps.get(i, 0.0) for i, own in enumerate(h)]
        v = p.total(ALL, h)
        log.end(cohort, {"x": x, "v": v}, [{"h_i": own} for own in h], places=drawn)
