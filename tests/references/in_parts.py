"""Models of which a part is personal, or is sent at a time, and clients in hubs."""

import numpy as np

from tests.references.tiny import CLIENTS, FOUR, START

BODY = 2
"""Numbers of the body; the head, or the leaf of normalisation, has the others."""


def slopes(p, i, body, own):
    """The gradients in both leaves."""
    g = p.grad(i, np.concatenate([body, own]))
    return g[:BODY], g[BODY:]


def personal(p, log, cohorts, leaf, lr, local_steps, late=False):
    """FedPer and FedBN: both leaves make the local steps, and the leaf stays at the client.

    With `late`, it is sent too, for those that take part for the first time.
    """
    x, own = START[:BODY], [START[BODY:] for _ in CLIENTS]
    sent, new = START[BODY:], {*CLIENTS} if late else set()
    log.start({"x": {"body": x}}, [{leaf: one} for one in own])
    for cohort in cohorts:
        replies, own = [], [*own]
        for i in cohort:
            y = x
            if i in new:
                own[i] = sent
            for _ in range(local_steps):
                g, g_own = slopes(p, i, y, own[i])
                y, own[i] = y - lr * g, own[i] - lr * g_own
            replies.append({"change": {"body": y - x}} | ({leaf: own[i]} if late else {}))
        log.exchange(cohort, {"x": {"body": x}} | ({leaf: sent} if late else {}), replies)
        x = x + p.mean(cohort, [reply["change"]["body"] for reply in replies])
        sent, new = p.mean(cohort, [own[i] for i in cohort]), new - {*cohort}
        log.end(cohort, {"x": {"body": x}}, [{leaf: one} for one in own])


def headed(p, log, cohorts, lr, local_steps, own_lr, own_steps, head=None):
    """FedRep, whose heads are trained before the body; with a `head` FedBABU, where each client trains it for its own model."""
    x, heads = START[:BODY], [START[BODY:] for _ in CLIENTS]

    def fitted(i, body, head):
        for _ in range(own_steps):
            head = head - own_lr * slopes(p, i, body, head)[1]
        return head

    def states():
        used = heads if head is None else [fitted(i, x, np.array(head)) for i in CLIENTS]
        return {"x": {"body": x}}, [{"head": own} for own in used]

    log.start(*states())
    for cohort in cohorts:
        changes = []
        for i in cohort:
            if head is None:
                heads[i] = fitted(i, x, heads[i])
            y = x
            for _ in range(local_steps):
                y = y - lr * slopes(p, i, y, heads[i])[0]
            changes.append(y - x)
        log.exchange(cohort, {"x": {"body": x}}, [{"change": {"body": change}} for change in changes])
        x = x + p.mean(cohort, changes)
        log.end(cohort, *states())


def in_hubs(p, log, cohorts, hubs, hub_rounds, lr, local_steps):
    """Hierarchical FedAvg."""
    x = START
    log.start({"x": x})
    for cohort in cohorts:
        models = [x for _ in hubs]
        for _ in range(hub_rounds):
            sent = {i: model for hub, model in zip(hubs, models, strict=True) for i in hub}
            changes = {i: p.steps(i, y, lr, local_steps) - y for i, y in sent.items()}
            log.exchange(sent, [{"x": y} for y in sent.values()], [{"change": change} for change in changes.values()])
            means = [p.mean(hub, [changes[i] for i in hub]) for hub in hubs]
            models = [model + mean for model, mean in zip(models, means, strict=True)]
        shares = [p.weights[hub].sum() for hub in hubs]
        x = x + np.average([model - x for model in models], axis=0, weights=shares)
        log.end(cohort, {"x": x})


def streaming_diloco(p, log, cohorts, lr, local_steps, weight_decay, server_lr, beta, overlap, mixing):
    """Two fragments of two numbers, clients with AdamW, and Nesterov's momentum at the server."""
    x, v = FOUR, np.zeros((2, 2))
    states = [{"y_i": FOUR, "count": 0, "m": np.zeros(4), "v": np.zeros(4)} for _ in CLIENTS]
    log.start({"x": x, "v": v}, states)
    for number, cohort in enumerate(cohorts, start=1):
        leaving, arriving = (slice(2 * (k % 2), 2 * (k % 2) + 2) for k in (number - 1, number))
        replies, states = [], [*states]
        for i in cohort:
            y, count, m, second = states[i].values()
            for k in range(local_steps + 1):
                if k == overlap and number > 1:
                    y = y.copy()
                    y[arriving] = mixing * y[arriving] + (1 - mixing) * x[arriving]
                if k < local_steps:
                    g, count = p.grad(i, y), count + 1
                    m, second = 0.9 * m + 0.1 * g, 0.999 * second + 0.001 * g**2
                    step = m / (1 - 0.9**count) / (np.sqrt(second / (1 - 0.999**count)) + 1e-8)
                    y = y - lr * (step + weight_decay * y)
            states[i] = {"y_i": y, "count": count, "m": m, "v": second}
            replies.append(y[leaving])
        log.exchange(cohort, {"fragment": x[arriving], "round": number}, [{"fragment": part} for part in replies])
        d = p.mean(cohort, replies) - x[leaving]
        v, x, now = v.copy(), x.copy(), (number - 1) % 2
        v[now] = beta * v[now] + d
        x[leaving] = x[leaving] + server_lr * (d + beta * v[now])
        log.end(cohort, {"x": x, "v": v}, states)
