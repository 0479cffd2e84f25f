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
