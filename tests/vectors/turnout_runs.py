"""turnout's own runs of the test vectors: the algorithm of each file, and what its engines send and keep."""

import json
from functools import partial

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import turnout as t
from tests.helpers.similar import Exact
from tests.vectors import drawn_runs, further_runs, newton_runs
from tests.vectors.run import Run, no_clients
from turnout.core.seeds import Seeds
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.io.serialization import decode
from turnout.runs.session import Session

SEED = 26
"""The seed whose cohorts and numbers of steps the files have."""


def fedavg(p, s):
    return t.FedAvg(s, lr=p["lr"], steps=p["local_steps"])


def fedprox(p, s):
    return t.FedProx(s, lr=p["lr"], steps=p["local_steps"], mu=p["mu"])


def scaffold(p, s):
    return t.Scaffold(s, lr=p["lr"], steps=p["local_steps"], option=p["option"], server_lr=p["server_lr"])


def fednova(p, s, sampler=None):
    options = {name: p[name] for name in ("momentum", "mu", "tau") if name in p}
    return t.FedNova(sampler or s, lr=p["lr"], steps=p["local_steps"], **options)


def server_optimiser(p, s):
    if "rule" in p:
        kind = {"adam": t.optimisers.FedAdam, "yogi": t.optimisers.FedYogi, "adagrad": t.optimisers.FedAdagrad}[p["rule"]]
        second = {} if p["rule"] == "adagrad" else {"beta2": p["beta2"]}
        optimiser = kind(p["server_lr"], beta1=p["beta1"], tau=p["tau"], **second)
    else:
        optimiser = t.optimisers.Sgd(p["server_lr"], momentum=p["beta"], nesterov=p["nesterov"])
    return t.FedOpt(s, t.optimisers.Sgd(p["lr"]), optimiser, steps=p["local_steps"])


def feddyn(p, s, solver):
    return t.FedDyn(s, solver(p), gamma=1 / p["alpha"])


def descent(p):
    # A gradient step of the tilted problem is a step of this solver.
    return t.client_solvers.Gradient(lr=p["lr"], steps=p["local_steps"], tolerance=0.0)


def fedbuff(p, s):
    return t.FedBuff(
        t.Nice(1), lr=p["lr"], steps=p["local_steps"], in_flight=2, buffer=2, server_lr=p["server_lr"], power=p["power"]
    )


def h_of_scaffnew(server, clients, p):
    """h after the step that the next message would complete."""
    return [clients.h - p["probability"] / p["lr"] * (clients.z - server.x)]


MINUS = Run(
    server_optimiser,
    lambda server, p: [server.x, *(-m for m in jax.tree.leaves(server.state)[:1]), *jax.tree.leaves(server.state)[1:]],
)
"""turnout's optimisers take minus the mean change as a gradient, so that the running means have the other sign."""

FEDDYN = dict(server=lambda server, p: [server.mean - server.variate / p["alpha"], server.variate])

RUNS = {
    "fedavg": Run(fedavg),
    "fedavg-equal": Run(fedavg),
    "fedavg-logistic": Run(fedavg),
    "fedavg-local-momentum": Run(
        lambda p, s: t.FedOpt(
            s, t.optimisers.Sgd(p["lr"], momentum=p["momentum"]), t.optimisers.Sgd(1.0), steps=p["local_steps"]
        ),
        lambda server, p: [server.x],
    ),
    "fedavg-all-clients": Run(lambda p, s: t.MbLocalGd(s, lr=p["lr"], steps=p["local_steps"])),
    "fedprox": Run(fedprox),
    "fedprox-rows": Run(fedprox),
    "scaffold-1": Run(scaffold),
    "scaffold-2": Run(scaffold),
    "scaffold-2-rows": Run(scaffold),
    "fednova": Run(partial(fednova, sampler=t.Full())),
    "fednova-momentum": Run(partial(fednova, sampler=t.Full())),
    "fednova-proximal": Run(partial(fednova, sampler=t.Full())),
    "fednova-proximal-steps": Run(partial(fednova, sampler=t.Full())),
    "fednova-cohort": Run(fednova),
    **{f"fed{rule}{end}": MINUS for rule in ("adam", "yogi", "adagrad") for end in ("", "-rows")},
    "fedavgm": MINUS,
    "fedavgm-rate": MINUS,
    "fedavgm-nesterov": MINUS,
    "fedavgm-equal": MINUS,
    "feddyn": Run(partial(feddyn, solver=lambda p: Exact()), **FEDDYN),
    "feddyn-steps": Run(partial(feddyn, solver=descent), **FEDDYN),
    "feddyn-steps-rows": Run(partial(feddyn, solver=descent), **FEDDYN),
    "scaffnew": Run(
        lambda p, s: t.Scaffnew(t.Full(), lr=p["lr"], probability=p["probability"]), lambda server, p: [server.x], h_of_scaffnew
    ),
    # Requests are sent in another round than the one in which their replies come in.
    "fedbuff": Run(fedbuff, messages=False),
    "fedbuff-staleness": Run(fedbuff, messages=False),
    "mblocalgd": Run(lambda p, s: t.MbLocalGd(s, lr=p["lr"], steps=p["local_steps"])),
    "mbgd": Run(lambda p, s: t.MbGd(s, lr=p["lr"])),
    "gd": Run(lambda p, s: t.Gd(t.Full(), lr=p["lr"])),
    "fedexp": Run(lambda p, s: t.FedExp(s, lr=p["lr"], steps=p["local_steps"], epsilon=p["epsilon"])),
    "fedsam": Run(lambda p, s: t.FedSam(s, lr=p["lr"], steps=p["local_steps"], radius=p["radius"])),
    "q-fedavg": Run(lambda p, s: t.QFedAvg(s, lr=p["lr"], q=p["q"], steps=p["local_steps"]), messages=False),
    "adacomm": Run(lambda p, s: t.AdaComm(s, p["lr"], p["local_steps"], interval=p["interval"])),
    "easgd": Run(lambda p, s: t.Easgd(s, p["lr"], p["alpha"], p["beta"], steps=p["local_steps"])),
    **{
        f"fedac-{k}": Run(
            lambda p, s: t.FedAc(s, lr=p["lr"], mu=p["mu"], steps=p["local_steps"], variant=p["variant"], interval=p["interval"])
        )
        for k in (1, 2)
    },
    "fedvarp": Run(
        lambda p, s: t.FedVarp(s, lr=p["lr"], steps=p["local_steps"]),
    ),
    "fedcm": Run(lambda p, s: t.FedCm(s, p["lr"], p["alpha"], p["server_lr"], p["local_steps"])),
    "scaffold-m": Run(lambda p, s: t.ScaffoldM(s, p["lr"], p["alpha"], p["server_lr"], p["local_steps"])),
    "fedlin": Run(lambda p, s: t.FedLin(t.Full(), lr=p["lr"], steps=p["local_steps"])),
    "mimemvr": Run(lambda p, s: t.MimeMvr(s, p["lr"], p["local_steps"]), lambda server, p: [server.x]),
    "mimemvr-momentum": Run(lambda p, s: t.MimeMvr(s, p["lr"], p["local_steps"], p["momentum"])),
    "diloco": Run(
        lambda p, s: t.DiLoCo(
            s,
            t.optimisers.AdamW(p["lr"], weight_decay=p["weight_decay"]),
            t.optimisers.Sgd(p["server_lr"], momentum=p["beta"], nesterov=True),
            steps=p["local_steps"],
        ),
        MINUS.server,
    ),
    "fedlamb": Run(lambda p, s: t.FedLamb(s, p["lr"], p["beta1"], p["beta2"], p["epsilon"], steps=p["local_steps"])),
    "fedspeed": Run(
        lambda p, s: t.FedSpeed(s, t.optimisers.Sgd(p["lr"]), p["gamma"], p["radius"], p["alpha"], steps=p["local_steps"])
    ),
    "scaffold-sag": Run(lambda p, s: t.ScaffoldSag(s, p["lr"], p["local_steps"]), clients=no_clients),
    "ef21": Run(lambda p, s: t.Ef21(s, t.codecs.TopK(count=p["kept"]), lr=p["lr"]), messages=False),
    "fedexprox-1": Run(lambda p, s: t.FedExProx(s, Exact(), gamma=p["gamma"], alpha=p["alpha"])),
    "fedexprox-2": Run(lambda p, s: t.FedExProx(s, Exact(), gamma=p["gamma"], rule=p["rule"])),
    "point-saga": Run(lambda p, s: t.PointSaga(s, Exact(), gamma=p["gamma"])),
    "5gcs": Run(lambda p, s: t.FiveGcs(s, Exact(), gamma=p["gamma"], mu=p["mu"])),
    "s-dane": Run(lambda p, s: t.SDane(s, Exact(), lam=p["lam"], mu=p["mu"])),
    "dane": Run(lambda p, s: t.Dane(t.Full(), Exact(), lam=p["lam"], lr=p["lr"])),
    "fedprox-sppm": Run(lambda p, s: t.FedProxSppm(s, p["gamma"], p["inner"], solver=Exact())),
    "fedavg-sppm": Run(lambda p, s: t.FedAvgSppm(s, p["gamma"], p["alpha"], p["inner"], solver=Exact())),
    "acc-s-dane": Run(lambda p, s: t.AccSDane(s, Exact(), lam=p["lam"], mu=p["mu"])),
    "aide": Run(lambda p, s: t.Aide(t.Full(), Exact(), lam=p["lam"], lr=p["lr"], kappa=p["kappa"], mu=p["mu"], inner=p["inner"])),
    "fednl-zero": Run(lambda p, s: t.FedNl(t.Full(), None, mu=1e-3), lambda server, p: [server.x]),
    "lazy-dane": Run(lambda p, s: t.LazyDane(s, Exact(), lam=p["lam"], momentum=p["momentum"]), messages=False),
    "svrp": Run(lambda p, s: t.Svrp(s, Exact(), gamma=p["gamma"], probability=p["probability"]), messages=False),
    "fedred": Run(lambda p, s: t.FedRed(t.Full(), lam=p["lam"], smoothness=p["smoothness"])),
    "scafflix": Run(
        lambda p, s: t.Scafflix(t.Full(), Exact(), lr=p["lr"], alpha=p["alpha"], probability=p["probability"]),
        lambda server, p: [server.x],
        lambda server, clients, p: [clients.h - p["probability"] * p["alpha"] / p["lr"] * (clients.x - server.x)],
        messages=False,
    ),
    "feddcd": Run(
        lambda p, s: t.FedDcd(s, Exact(), lr=p["lr"], convexity=p["convexity"]),
        lambda server, p: [server.x],
        lambda server, clients, p: [clients.y - p["lr"] * p["convexity"] * (clients.w - server.owed)],
        messages=False,
    ),
    "pfedme": Run(lambda p, s: t.PFedMe(s, Exact(), lr=p["lr"], steps=p["local_steps"], lam=p["lam"], server_lr=p["server_lr"])),
    "ditto": Run(
        lambda p, s: t.Ditto(s, lr=p["lr"], steps=p["local_steps"], lam=p["lam"], own_lr=p["own_lr"], own_steps=p["own_steps"])
    ),
    "apfl": Run(lambda p, s: t.Apfl(s, lr=p["lr"], steps=p["local_steps"], alpha=p["alpha"])),
    "flix": Run(lambda p, s: t.Flix(s, Exact(), lr=p["lr"], alpha=p["alpha"])),
    "agnostic-fl": Run(lambda p, s: t.AgnosticFl(s, lr=p["lr"], weights_lr=p["weights_lr"])),
    "l2gd": Run(
        lambda p, s: t.L2gd(t.Full(), lr=p["lr"], probability=p["probability"], lam=p["lam"]), lambda server, p: [server.mean]
    ),
    "fedasync": Run(
        lambda p, s: t.FedAsync(t.Nice(1), lr=p["lr"], steps=p["local_steps"], in_flight=3, alpha=p["alpha"], power=p["power"]),
        messages=False,
    ),
    "mifa": Run(lambda p, s: t.Mifa(t.Nice(1), lr=p["lr"], steps=p["local_steps"], in_flight=3), messages=False),
    "ringmaster": Run(
        lambda p, s: t.Ringmaster(t.Nice(1), lr=p["lr"], steps=p["local_steps"], in_flight=3, threshold=p["threshold"]),
        lambda server, p: [server.x],
        messages=False,
    ),
    "mime": Run(lambda p, s: t.Mime(s, optimiser=t.optimisers.Sgd(p["lr"], momentum=p["beta"]), steps=p["local_steps"])),
    **newton_runs.RUNS,
    **further_runs.RUNS,
    **drawn_runs.RUNS,
    "mimelite": Run(lambda p, s: t.MimeLite(s, optimiser=t.optimisers.Sgd(p["lr"], momentum=p["beta"]), steps=p["local_steps"])),
}
"""How turnout plays each vector that it plays."""


def shaped(start) -> type[t.Ridge]:
    """Ridge regression of parameters in a matrix or in named leaves, whose numbers are taken in order."""

    @t.record
    class Shaped(t.Ridge):
        def losses(self, x, rows):
            return super().losses(ravel_pytree(x)[0], rows)

        def regulariser(self, x):
            return super().regulariser(ravel_pytree(x)[0])

        def start(self, key):
            return start

    return Shaped


def problem_of(vector: dict, start) -> t.Problem:
    """The problem of a vector, whose parameters are shaped like `start`."""
    made = vector["problem"]
    features = np.concatenate([np.array(client["features"]) for client in made["clients"]])
    targets = np.concatenate([np.array(client["targets"]) for client in made["clients"]])
    sizes = [len(client["targets"]) for client in made["clients"]]
    split = Split(np.arange(sum(sizes)), np.concatenate([[0], np.cumsum(sizes)]))
    kind = {"squared": t.Ridge, "logistic": t.Logistic}[made["loss"]] if np.ndim(start) == 1 else shaped(start)
    return kind.of(Dataset("tiny", features, targets), split, mu=made["mu"], weights=np.array(made["weights"]))


def start_of(vector: dict) -> tuple:
    """The parameters before the run: what is sent of them, and all of them, with the leaves that clients have."""
    first, p = vector["start"], vector["parameters"]
    # Where the state has no x, the parameters are its first part.
    x = p.get("x_0", first["server"].get("x", next(iter(first["server"].values()))))
    if isinstance(x, dict):
        own = {name: p.get(name, leaf) for name, leaf in first["clients"][0].items()}
        return tuple({name: np.array(leaf) for name, leaf in part.items()} for part in (x, x | own))
    return np.array(x), np.array(x)


def play(vector: dict, engine: str, algorithm: t.Algorithm | None = None) -> dict:
    """Play a vector; return its rounds as files have them, with the parts of states and messages as lists.

    Args:
        vector: The content of the file.
        engine: "compiled", which has no messages, or "nodes".
        algorithm: Another algorithm in the place of turnout's own.
    """
    run, parameters = RUNS[vector["name"]], vector["parameters"]
    algorithm = algorithm or run.make(parameters, t.Nice(2))
    sent_part, start = start_of(vector)
    rounds = len(vector["rounds"])
    session = Session(
        algorithm,
        problem_of(vector, start),
        seeds=Seeds.of(SEED),
        rounds=rounds,
        every=1,
        engine=engine,
        start=start,
        metrics=("value",),
        **run.options(parameters),
    )
    sent = spied(session, sent_part) if engine == "nodes" else []
    states, clients = [], None
    for _ in range(rounds + 1):
        session.step(1)
        server, clients = (jax.tree.map(np.array, part) for part in (session.progress.server, session.progress.clients))
        clients = [session.traces[0].model(i) for i in range(session.problem.clients)] if run.models else clients
        states.append((run.server(server, parameters), run.clients(server, clients, parameters)))
    return {"states": states, "sent": run.sent(sent, clients, parameters)}


def spied(session: Session, start) -> list:
    """Note what nodes are asked and answer: (round, exchange, client, parts of the message, parts of the reply)."""
    sent = []
    for node in session.engine.nodes:

        def answer(header, body, digest, node=node, own=node.answer):
            reply = own(header, body, digest)
            round, exchange = json.loads(header)["made"]
            parts = (decode(bytes(part), start)[0] for part in (body, reply))
            sent.append((round, exchange, node.number, *([np.asarray(leaf) for leaf in jax.tree.leaves(part)] for part in parts)))
            return reply

        node.answer = answer
    return sent
