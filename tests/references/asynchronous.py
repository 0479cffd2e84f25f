"""Replies that come in one at a time: `arrivals` lists for each round (client, the round in which it was sent x)."""

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
