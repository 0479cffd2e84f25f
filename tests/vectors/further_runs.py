"""turnout's runs of local training with corrections, Muon, models in parts, and subproblems that cohorts solve."""

import jax
import numpy as np

import turnout as t
from tests.helpers.similar import Exact
from tests.vectors.run import Run, largest, replies


def of_model(name):
    """The server has the body, and a client's own model has the leaf."""
    return dict(
        server=lambda server, p: [server["body"]],
        clients=lambda server, models, p: [np.array([model[name] for model in models])],
        models=True,
    )


def duals(server, clients, p):
    """y_i and z_i of clients that make their last step, and make up for the rounds that they missed, when they are next drawn."""
    s, r = np.sqrt(p["convexity"] / p["smoothness"]), 1 / 3
    a = s / (1 / r + s)
    b = a * r**2 * s**2
    share, rounds = a * r / (a**2 + b), clients.met.max() // 2 + 1
    once = np.array([[1 - a, a], [b * (1 - a) / (a**2 + b), (a**2 + a * b) / (a**2 + b)]])
    found = []
    for y, z, w, met, mean in zip(*clients, server.owed, strict=True):
        step = p["lr"] * p["convexity"] * (w - mean)
        both = [y, z - share * step] if met % 2 else [y - step, z]
        found.append(np.linalg.matrix_power(once, rounds - 1 - met // 2 if met >= 0 else 0) @ both)
    return [*np.array(found).swapaxes(0, 1)]


def numbered(sent, clients, p):
    """Hubs make their exchanges side by side, and number them apart."""
    order: dict = {}
    for round, exchange, client, *_ in sent:
        order.setdefault((round, client), set()).add(exchange)
    return [(round, sorted(order[round, client]).index(exchange), client, *parts) for round, exchange, client, *parts in sent]


def adamw(p):
    return t.optimisers.AdamW(p["lr"], weight_decay=p["weight_decay"])


def nesterov(p):
    return t.optimisers.Sgd(p["server_lr"], momentum=p["beta"], nesterov=True)


def top(p):
    return t.codecs.TopK(count=p["kept"])


def in_matrix(reply, p):
    (flat,) = largest(4)(reply, p)
    return [flat.reshape(2, 2)]


X = dict(server=lambda server, p: [server.x])

RUNS = {
    "amplified-fedavg": Run(
        lambda p, s: t.AmplifiedFedAvg(s, p["lr"], p["local_steps"], period=p["period"], amplification=p["amplification"])
    ),
    "amplified-scaffold": Run(
        lambda p, s: t.AmplifiedScaffold(s, p["lr"], p["period"], p["amplification"], p["local_steps"]),
        clients=lambda server, clients, p: [clients.mean],
    ),
    "feddisco": Run(lambda p, s: t.FedDisco(s, p["lr"], p["local_steps"], a=p["a"], b=p["b"])),
    "fedgloss": Run(
        lambda p, s: t.FedGloSs(s, p["lr"], p["radius"], p["local_steps"], server_radius=p["server_radius"], beta=p["beta"]),
        lambda server, p: [server.x, -server.last, server.variate],
    ),
    "fedsophia": Run(
        lambda p, s: t.FedSophia(
            s,
            p["lr"],
            p["local_steps"],
            **{name: p[name] for name in ("every", "beta1", "beta2", "rho", "epsilon", "weight_decay")},
        )
    ),
    "sa-pef": Run(
        lambda p, s: t.SaPef(s, top(p), p["lr"], p["alpha"], p["local_steps"], server_lr=p["server_lr"]), sent=replies(largest(3))
    ),
    "clag": Run(
        lambda p, s: t.Clag(t.Full(), top(p), p["lr"], trigger=p["trigger"]),
        sent=replies(lambda reply, p: reply if len(reply) == 1 else largest(3)(reply, p)),
    ),
    "fedmuon": Run(lambda p, s: t.FedMuon(s, p["lr"], p["local_steps"], alpha=p["alpha"], iterations=p["iterations"])),
    "ef21-muon": Run(
        lambda p, s: t.Ef21Muon(s, top(p), p["lr"], alpha=p["alpha"], iterations=p["iterations"]), sent=replies(in_matrix)
    ),
    "streaming-diloco": Run(
        lambda p, s: t.StreamingDiLoCo(
            s, adamw(p), nesterov(p), steps=p["local_steps"], fragments=2, overlap=p["overlap"], mixing=p["mixing"]
        ),
        # turnout's optimisers take minus the mean change as a gradient.
        lambda server, p: [server.x, *(-m for m in jax.tree.leaves(server.states))],
    ),
    "fedper": Run(lambda p, s: t.FedPer(s, p["lr"], p["local_steps"], leaves="head"), **of_model("head")),
    "fedbn": Run(lambda p, s: t.FedBn(s, p["lr"], p["local_steps"]), **of_model("norm")),
    "fedrep": Run(
        lambda p, s: t.FedRep(s, p["lr"], p["local_steps"], leaves="head", own_lr=p["own_lr"], own_steps=p["own_steps"]),
        **of_model("head"),
    ),
    "fedbabu": Run(
        lambda p, s: t.FedBabu(s, p["lr"], p["local_steps"], leaves="head", own_lr=p["own_lr"], own_steps=p["own_steps"]),
        **of_model("head"),
    ),
    "in-hubs": Run(
        lambda p, s: t.InHubs(t.FedAvg(t.Full(), p["lr"], p["local_steps"]), rounds=p["hub_rounds"]),
        **X,
        sent=numbered,
        options=lambda p: {"hubs": t.Hubs(of=[next(k for k, hub in enumerate(p["hubs"]) if i in hub) for i in range(4)])},
    ),
    "sppm-gd": Run(
        lambda p, s: t.Sppm(s, t.solvers.GradientDescent(smoothness=p["smoothness"]), p["gamma"], p["exchanges"]), **X
    ),
    "sppm-newton": Run(lambda p, s: t.Sppm(s, t.solvers.Newton(), p["gamma"], p["exchanges"]), **X),
    "sppm-independent": Run(
        lambda p, s: t.Sppm(
            t.Independent(p["inclusion"]), t.solvers.GradientDescent(smoothness=p["smoothness"]), p["gamma"], p["exchanges"]
        ),
        **X,
    ),
    "accfeddcd": Run(
        lambda p, s: t.AccFedDcd(s, Exact(), p["lr"], convexity=p["convexity"], smoothness=p["smoothness"]), **X, clients=duals
    ),
}
