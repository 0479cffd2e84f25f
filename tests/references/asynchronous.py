"""Replies that come in one at a time: `arrivals` lists for each round (client, the round in which it was sent x)."""

import numpy as np

from tests.references.tiny import START


def fedbuff(p, log, arrivals, lr, local_steps, server_lr, power):
    x = START
    sent = {0: x, 1: x}
    log.start({"x": x})
    for number, buffer in enumerate(arrivals, start=1):
        sent[number], total = x, 0.0
        for i, when in buffer:
            change = p.steps(i, sent[when], lr, local_steps) - sent[when]
            log.exchange([i], {"x": sent[when]}, [{"change": change}], sent=[when])
            # A request of round k is sent before the step of round k.
            late = number - max(when, 1)
            total = total + change * (1 + late) ** -power
        x = x + server_lr * total / len(buffer)
        log.end([i for i, _ in buffer], {"x": x})


def one_at_a_time(p, log, arrivals, lr, local_steps, rule, alpha=None, power=None, threshold=None):
    """FedAsync, MIFA and Ringmaster: one reply in each round."""
    x, latest = START, [0.0 * START for _ in range(4)]
    sent, step, since = {0: x, 1: x}, 0, {0: 0}
    first = {"x": x} | ({"memory": 0.0 * x} if rule == "mifa" else {})
    log.start(first)
    for number, ((i, when),) in enumerate(arrivals, start=1):
        sent[number], since[number] = x, step
        change = p.steps(i, sent[when], lr, local_steps) - sent[when]
        log.exchange([i], {"x": sent[when]}, [{"change": change}], sent=[when])
        state = {}
        if rule == "fedasync":
            late = number - max(when, 1)
            x = x + alpha * (1 + late) ** -power * (sent[when] + change - x)
        elif rule == "mifa":
            latest[i] = change
            memory = p.total(list(range(4)), latest)
            x, state = x + memory, {"memory": memory}
        elif step - since[when] < threshold:
            x, step = x + change, step + 1
        log.end([i], {"x": x} | state)


def rescaled_asgd(p, log, arrivals, lr, seconds=None):
    """Rescaled ASGD: steps as long as clients work, in `seconds` or counted in steps of the server."""
    x = START
    sent = {0: x}
    log.start({"x": x})
    for number, (i, when) in enumerate(arrivals, start=1):
        sent[number] = x
        change = -lr * p.grad(i, sent[when])
        log.exchange([i], {"x": sent[when]}, [{"change": change}], sent=[when])
        # What is sent in round 0 or 1 is the start.
        measured = number - max(when, 1) + 1
        x = x + p.weights[i] * (measured if seconds is None else seconds[i] * sum(1 / t for t in seconds)) * change
        log.end([i], {"x": x})


def ringleader(p, log, arrivals, lr):
    """Ringleader ASGD: `table` and `later` have the updates of each client, `due` those whose step is to come."""
    x, table, later, due = START, [[] for _ in range(4)], [[] for _ in range(4)], set()
    sent = {0: x}

    def state():
        sums = [[p.weights[i] * sum(own, np.zeros(3)) for i, own in enumerate(each)] for each in (table, later)]
        counts = [[float(len(own)) for own in each] for each in (table, later)]
        steps = [float(i in due) for i in range(4)]
        return {"x": x, "table": sums[0], "counts": counts[0], "later": sums[1], "later_counts": counts[1], "due": steps}

    log.start(state())
    for number, (i, when) in enumerate(arrivals, start=1):
        sent[number] = x
        change = -lr * p.grad(i, sent[when])
        log.exchange([i], {"x": sent[when]}, [{"change": change}], sent=[when])
        if due and i not in due:
            later[i].append(change)
        else:
            table[i].append(change)
            if all(table):
                x = x + p.total(range(4), [np.mean(own, axis=0) for own in table])
                due = due - {i} if due else {0, 1, 2, 3} - {i}
                if not due:
                    table, later = later, [[] for _ in range(4)]
        log.end([i], state())
