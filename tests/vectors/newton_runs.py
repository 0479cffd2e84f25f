"""turnout's runs of FedNL and its variants, BL1, BL2, SHED and DiSCO."""

import numpy as np

import turnout as t
from tests.vectors.run import Run, full, largest, no_clients, pair, replies

RANK_ONE = t.codecs.Eigenpairs(rank=1)


def x_and_hessian(server, p):
    return [server.x, full(server.hessian)]


def matrices(server, clients, p):
    return [np.array([full(own) for own in clients])]


def learned(make):
    return Run(make, x_and_hessian, matrices, sent=replies(pair))


def summed(model):
    return [model.vector, model.shift, full(model.hessian)]


def outside(basis, triangle):
    """V S V'."""
    return basis @ full(triangle) @ basis.T


def whole(clients, p):
    """H_i = ridge I + V_i L_i V_i'."""
    ridge = p["ridge"] * np.eye(3)
    return np.array([ridge + outside(*own) for own in zip(clients.basis, clients.learned, strict=True)])


def in_full(sent, clients, p):
    """Replies are vectors in the basis V_i, numbers, and what `TopK` keeps of V_i' M V_i."""
    read = []
    for *which, message, (vector, *numbers, change) in replies(largest(6))(sent, clients, p):
        basis = clients.basis[which[2]]
        read.append((*which, message, [basis @ vector, *numbers, outside(basis, change)]))
    return read


def above(reply, p):
    """Eigenvalues and eigenvectors, and rho_i: their part of H_i - rho_i I, and rho_i."""
    if len(reply) == 1:
        return reply
    value, gradient, values, vectors, rho = reply
    return [value, gradient, (vectors * (values - rho)) @ vectors.T, rho]


def told(sent, clients, p):
    """Messages have the numbers that C_M keeps and their places, and the number of the step."""
    read = replies(pair)(sent, clients, p)
    kept = t.codecs.TopK(count=p["kept"])
    whole = [np.asarray(kept.decode((values, places), np.zeros(3), None)) for *_, (values, places, _), _ in read]
    return [(*which, [step, message[-1]], reply) for step, (*which, message, reply) in zip(whole, read, strict=True)]


RUNS = {
    "fednl-1": learned(lambda p, s: t.FedNl(t.Full(), RANK_ONE, option="I", mu=p["mu"])),
    "fednl-2": learned(lambda p, s: t.FedNl(t.Full(), RANK_ONE, option="II")),
    "fednl-bc": Run(
        lambda p, s: t.FedNlBc(t.Full(), RANK_ONE, t.codecs.TopK(count=p["kept"]), p["probability"], mu=p["mu"]),
        lambda server, p: [server.x, server.point, server.gradient, server.known, full(server.hessian)],
        lambda server, clients, p: [clients.known, *matrices(server, clients.learned, p)],
        sent=told,
    ),
    "fednl-cr": learned(lambda p, s: t.FedNlCr(t.Full(), RANK_ONE, lipschitz=p["lipschitz"])),
    "fednl-ls": Run(
        lambda p, s: t.FedNlLs(t.Full(), RANK_ONE, decrease=p["decrease"], shrink=p["shrink"], mu=p["mu"]),
        x_and_hessian,
        matrices,
        # The replies to trials are values.
        sent=replies(lambda reply, p: reply if len(reply) == 1 else pair(reply, p)),
    ),
    "fednl-pp": Run(
        lambda p, s: t.FedNlPp(s, RANK_ONE),
        lambda server, p: [server.x, *summed(server.model)],
        lambda server, clients, p: [clients.vector, clients.shift, *matrices(server, clients.hessian, p)],
        sent=replies(pair),
    ),
    "bl1": Run(
        lambda p, s: t.Bl1(t.Full(), t.codecs.TopK(count=p["kept"]), mu=p["mu"], ridge=p["ridge"]),
        x_and_hessian,
        lambda server, clients, p: [whole(clients, p)],
        sent=in_full,
    ),
    "bl2": Run(
        lambda p, s: t.Bl2(s, t.codecs.TopK(count=p["kept"]), ridge=p["ridge"]),
        lambda server, p: [server.solved.x, *summed(server.solved.model)],
        lambda server, clients, p: [whole(clients, p), np.einsum("idr,ir->id", clients.basis, clients.vector), clients.shift],
        sent=in_full,
    ),
    "shed": Run(
        lambda p, s: t.Shed(t.Full(), p["pairs"], decrease=p["decrease"], shrink=p["shrink"]),
        x_and_hessian,
        no_clients,
        sent=replies(above),
    ),
    "disco": Run(
        lambda p, s: t.Disco(s, p["lam"], relative=p["relative"], concordance=p["concordance"]),
        lambda server, p: [server],
    ),
}
