"""Estimates of the gradient along the iterates, and algorithms that move along them."""

import numpy as np

from tests.references.compressed import ALL
from tests.references.tiny import START


class Passes:
    """An estimate g, which begins with the gradients of all clients at the start."""

    def __init__(self, p, log):
        self.p, self.log = p, log
        self.g = p.total(ALL, self.gradients(START))

    def gradients(self, x):
        return [self.p.grad(i, x) for i in ALL]

    def full(self, x):
        """The gradient at x, by an exchange with all clients."""
        gradients = self.gradients(x)
        self.log.exchange(ALL, {"x": x}, [{"gradient": g} for g in gradients])
        return self.p.total(ALL, gradients)

    def differences(self, cohort, new, old):
        """The average of the changes of gradients in a cohort, by an exchange with it."""
        changes = [self.p.grad(i, new) - self.p.grad(i, old) for i in cohort]
        self.log.exchange(cohort, {"x": new, "old": old}, [{"difference": change} for change in changes])
        return self.p.average(cohort, changes)

    def memory(self):
        return {}


class Sarah(Passes):
    """A full pass where a coin says so, else the recursion."""

    def step(self, cohort, new, old, passed):
        self.g = self.full(new) if passed else self.g + self.differences(cohort, new, old)


class RgSaga(Passes):
    """Clients keep b_i, which are gradients at the first two points before cohorts renew them."""

    def __init__(self, p, log, beta):
        super().__init__(p, log)
        self.beta, self.b = beta, self.gradients(START)

    def renewal(self, cohort, x):
        """The changes of the b_i of a cohort to its gradients at x."""
        changes = {i: self.p.grad(i, x) - self.b[i] for i in cohort}
        self.b = [own + changes.get(i, 0.0) for i, own in enumerate(self.b)]
        return changes.values()

    def step(self, cohort, new, old, renewed):
        if renewed:
            self.log.exchange(ALL, {"x": old}, [{"change_of_b_i": change} for change in self.renewal(ALL, old)])
        b = self.p.total(ALL, self.b)
        deviations = self.renewal(cohort, old)
        changes = [self.p.grad(i, new) - self.p.grad(i, old) for i in cohort]
        replies = [{"difference": d, "change_of_b_i": own} for d, own in zip(changes, deviations, strict=True)]
        self.log.exchange(cohort, {"x": new, "old": old}, replies)
        target = b + self.p.average(cohort, deviations)
        self.g = (1 - self.beta) * self.g + self.beta * target + self.p.average(cohort, changes)

    def memory(self):
        return {"b": self.p.total(ALL, self.b)}


class RgSvrg(Passes):
    """An anchor w with its gradient, which moves to x^t before the exchange where a coin says so."""

    def __init__(self, p, log, beta):
        super().__init__(p, log)
        self.beta, self.w, self.at_w = beta, START, self.g

    def step(self, cohort, new, old, renewed):
        p, beta = self.p, self.beta
        if renewed:
            self.w, self.at_w = old, self.full(old)
        replies = [p.grad(i, new) - p.grad(i, old) + beta * (p.grad(i, old) - p.grad(i, self.w)) for i in cohort]
        self.log.exchange(cohort, {"x": new, "old": old, "w": self.w}, [{"difference": reply} for reply in replies])
        self.g = (1 - beta) * self.g + beta * self.at_w + p.average(cohort, replies)

    def memory(self):
        return {"w": self.w, "gradient": self.at_w}


def icgm(p, log, cohorts, delegate, lam, smoothness, probability, estimator, beta, local_steps, renewed, anchor=None):
    """I-CGM (CGM_rand); `anchor` is the probability of `renewed` of RG-SVRG, and RG-SAGA renews in round 2."""
    x, estimate = START, {"rg-saga": RgSaga, "rg-svrg": RgSvrg}[estimator](p, log, beta)

    def states():
        own = [{"b_i": b} for b in estimate.b] if estimator == "rg-saga" else None
        return {"x": x, "g": estimate.g} | estimate.memory(), own

    log.start(*states())
    for cohort, count, renews in zip(cohorts, local_steps, renewed, strict=True):
        y, drift = x, p.grad(delegate, x) - estimate.g
        for _ in range(count):
            y = (smoothness * y + lam * x + drift - p.grad(delegate, y)) / (lam + smoothness)
        log.exchange([delegate], {"g": estimate.g}, [{"x": y}])
        estimate.step(cohort, y, x, renews)
        x = y
        log.end(cohort, *states(), local_steps=count, renewed=renews)


def saber_full(p, log, cohorts, lam, probability, ones, passes):
    """SABER-full; `ones` are the clients that move x."""
    x, v = START, Sarah(p, log)
    log.start({"x": x, "v": v.g})
    for cohort, j, passed in zip(cohorts, ones, passes, strict=True):
        new = p.minimiser(j, p.grad(j, x) - v.g, lam, x)
        log.exchange([j], {"x": x, "v": v.g}, [{"change": new - x}])
        v.step(cohort, new, x, passed)
        x = new
        log.end(cohort, {"x": x, "v": v.g}, passed=passed)


def saber_partial(p, log, cohorts, lam, repeats, samples):
    """SABER-partial with p = 1: `repeats` cohorts for x, and as many for v, which `samples` lists by round."""
    x, v = START, p.total(ALL, [p.grad(i, START) for i in ALL])
    log.start({"x": x, "v": v})
    for everyone, drawn in zip(cohorts, samples, strict=True):
        moves, gradients = [], []
        for cohort in drawn[:repeats]:
            changes = [p.minimiser(i, p.grad(i, x) - v, lam, x) - x for i in cohort]
            log.exchange(cohort, {"x": x, "v": v}, [{"change": change} for change in changes])
            moves.append(p.mean(cohort, changes))
        x = x + np.mean(moves, axis=0)
        for cohort in drawn[repeats:]:
            own = [p.grad(i, x) for i in cohort]
            log.exchange(cohort, {"x": x}, [{"gradient": g} for g in own])
            gradients.append(p.average(cohort, own))
        v = np.mean(gradients, axis=0)
        log.end(everyone, {"x": x, "v": v})


def ce_lgd(p, log, cohorts, lr, local_steps, rho, first_cohort, ones):
    """CE-LGD; the paper's u is v + grad f_j(y) - grad f_j(x)."""
    x, v = START, p.average(first_cohort, [p.grad(i, START) for i in first_cohort])
    log.start({"x": x, "v": v})
    for cohort, j in zip(cohorts, ones, strict=True):
        new, u = x, v
        for _ in range(local_steps):
            old, new = new, new - lr * u
            u = u + p.grad(j, new) - p.grad(j, old)
        log.exchange([j], {"x": x, "v": v}, [{"change": new - x}])
        replies = [p.grad(i, new) - (1 - rho) * p.grad(i, x) for i in cohort]
        log.exchange(cohort, {"x": new, "old": x}, [{"difference": reply} for reply in replies])
        x, v = new, p.average(cohort, replies) + (1 - rho) * v
        log.end(cohort, {"x": x, "v": v})


def fedpage(p, log, cohorts, lr, local_steps, server_lr, probability, others, passes):
    """FedPAGE; `others` are the cohorts of the estimate."""
    x, estimate = START, Sarah(p, log)
    log.start({"x": x, "g": estimate.g})
    for cohort, other, passed in zip(cohorts, others, passes, strict=True):
        changes = []
        for i in cohort:
            y, u = x, estimate.g
            for _ in range(local_steps):
                old, y = y, y - lr * u
                u = u + p.grad(i, y) - p.grad(i, old)
            changes.append(y - x)
        log.exchange(cohort, {"x": x, "g": estimate.g}, [{"change": change} for change in changes])
        new = x + server_lr * p.mean(cohort, changes)
        estimate.step(other, new, x, passed)
        x = new
        log.end(cohort, {"x": x, "g": estimate.g}, passed=passed)


def catalyzed_svrp(p, log, cohorts, gamma, kappa, mu, inner, probability, samples, renewed):
    """Catalyzed SVRP; `samples` are the cohorts of the inner iterations."""
    x = y = w = START
    estimate, root = Passes(p, log), np.sqrt(mu / (mu + kappa))
    log.start({"x": x, "y": y, "w": w, "gradient": np.zeros(3)})
    for everyone, drawn, moves in zip(cohorts, samples, renewed, strict=True):
        new, w, at_w = x, x, estimate.full(x)
        for cohort, moved in zip(drawn, moves, strict=True):
            # (1 / (2 gamma)) |z - (new - gamma grad f(w))|^2 + (kappa / 2) |z - y|^2 is one square of this weight.
            weight = 1 / gamma + kappa
            centre = ((new - gamma * at_w) / gamma + kappa * y) / weight
            changes = [p.minimiser(i, p.grad(i, w), weight, centre) - centre for i in cohort]
            log.exchange(cohort, {"centre": centre, "w": w}, [{"change": change} for change in changes])
            new = centre + p.mean(cohort, changes)
            if moved:
                w, at_w = new, estimate.full(new)
        x, y = new, new + (1 - root) / (1 + root) * (new - x)
        log.end(everyone, {"x": x, "y": y, "w": w, "gradient": at_w}, renewed=moves)
