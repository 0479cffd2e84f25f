"""turnout's runs of algorithms with draws of their own, which the seed of the vectors makes those of the files."""

import jax
import numpy as np

import turnout as t
from tests.helpers.similar import Exact
from tests.references.declared.drawn import SECONDS
from tests.vectors.run import Run
from turnout import vectors

RAND_K = t.codecs.RandK(count=2)


def dense(values, places) -> np.ndarray:
    """The vector of which some numbers were sent."""
    whole = np.zeros(3)
    whole[places] = values
    return whole


def own_places(reply: list, draws: dict, client: int) -> list:
    """The client's kept numbers; a reply of a pass has all."""
    return [dense(values, draws["places"][str(client)]) if len(values) < 3 else values for values in reply]


def own_pairs(reply, draws, client):
    return [dense(*each) for each in zip(reply, draws["places"][str(client)], strict=True)]


def common_places(reply, draws, client):
    return [dense(reply[0], draws["places"])]


def read(name: str, reply=lambda reply, draws, client: reply, message=lambda message: message):
    """Messages without random keys, and replies that are read with the draws of a file."""

    def reader(sent, clients, p):
        rounds = vectors.load(name)["rounds"]
        return [
            (
                *(round, exchange, client),
                message([part for part in parts if part.dtype != np.uint32]),
                reply(replies, rounds[round - 1]["draws"], client),
            )
            for round, exchange, client, parts, replies in sent
        ]

    return reader


def compressed(name: str, make, reply=own_places) -> Run:
    return Run(make, sent=read(name, reply))


def arrived(name: str):
    """Requests that have arrived are noted in the round in which they do so."""

    def reader(sent, clients, p):
        rounds = enumerate(vectors.load(name)["rounds"], start=1)
        landed = {(one["sent"][0], one["to"][0]): number for number, round in rounds for one in round["exchanges"]}
        return [(landed[when, i], 0, i, *parts) for when, _, i, *parts in sent if (when, i) in landed]

    return reader


def at_work(name: str, make, server=lambda server, p: jax.tree.leaves(server)) -> Run:
    """All clients are at work, each for as many seconds as the vector says."""
    devices = t.Devices(seconds_per_query=SECONDS)
    return Run(make, server, sent=arrived(name), options=lambda p: {"devices": devices})


def only_x(server, p):
    return [server.x]


def mean_owed(last, h, server, p):
    """h_i after the step that the next message would complete."""
    return h - p["probability"] / p["lr"] * (last - server.x)


def of_tamuna(server, clients, p):
    """h_i after that step, which is made at the places that the client sent."""
    rate = p["probability"] * 4 * (p["copies"] - 1) / (p["copies"] * 3) / p["lr"]
    moves = zip(rate * (server.owed - clients.values), clients.places, strict=True)
    return [clients.h + np.array([dense(*each) if each[1].max() < 3 else np.zeros(3) for each in moves])]


def of_locodl(server, clients, p):
    """x_i and u_i after that step."""
    omega = 3 / p["kept"] - 1
    chi = 1 / (1 + omega / 4)
    c = p["probability"] * chi / (p["lr"] * (1 + 2 * omega))
    moved = server.v - clients.v
    ahead = server.y + moved * (1 - chi) / c
    return [(1 - chi) * clients.x + chi * ahead, clients.u + moved - c * clients.sent]


def gradskip_plus(p, s=None):
    codec, own = t.codecs.RandK(count=p["kept"], common=True), t.codecs.RandK(count=p["own_kept"])
    return t.GradSkipPlus(t.Full(), codec, own, p["lr"], p["probability"])


def of_gradskip_plus(server, clients, p):
    """x_i and h_i after that step."""
    with jax.enable_x64(True):
        away = np.array(jax.vmap(gradskip_plus(p)._missing)(clients.x, server.owed, clients.key))
    return [clients.x - away, clients.h - p["probability"] * p["kept"] / 3 / p["lr"] * away]


def icgm(p, s):
    estimator = t.RgSvrg(probability=p["anchor"], beta=p["beta"]) if "anchor" in p else t.RgSaga(beta=p["beta"])
    own = {name: p[name] for name in ("lam", "probability", "smoothness")}
    return t.Icgm(s, estimator, delegate=t.Delegate(p["delegate"]), **own)


def ef_bv(p, s):
    return t.EfBv(s, RAND_K, lr=p["lr"], rate=p["rate"], nu=p["nu"])


def everyone(make):
    return lambda p, s: make(p, t.Full())


def diana(p, s):
    return t.Diana(s, RAND_K, lr=p["lr"])


def marina(p, s):
    return t.Marina(s, RAND_K, probability=p["probability"], lr=p["lr"])


def dasha(p, s):
    return t.Dasha(s, RAND_K, lr=p["lr"])


def adiana(p, s):
    return t.Adiana(t.Full(), RAND_K, p["lr"], p["probability"], p["mu"])


def randprox(p, s):
    return t.RandProx(s, Exact(), p["gamma"], RAND_K, mu=p["mu"], beta=p["beta"])


COMPRESSED = {"diana": diana, "ef-bv": ef_bv, "marina": marina, "dasha": dasha}

RUNS = {
    **{name: compressed(name, everyone(make)) for name, make in COMPRESSED.items()},
    **{
        name: compressed(name, COMPRESSED[name.rpartition("-")[0]])
        for name in ("diana-cohort", "ef-bv-cohort", "marina-pp", "dasha-pp")
    },
    "randprox": compressed("randprox", randprox),
    "adiana": compressed("adiana", adiana, own_pairs),
    "locodl": Run(
        lambda p, s: t.LoCoDl(t.Full(), RAND_K, p["lr"], p["probability"], p["split"]),
        clients=of_locodl,
        sent=read("locodl", own_places),
    ),
    "tamuna": Run(
        lambda p, s: t.Tamuna(t.Nice(3), p["copies"], lr=p["lr"], probability=p["probability"]),
        only_x,
        of_tamuna,
        # What comes along is of the step of h_i that the message completes.
        sent=read("tamuna", message=lambda message: message[:2]),
    ),
    "gradskip": Run(
        lambda p, s: t.GradSkip(t.Full(), p["lr"], p["probability"], p["going"]),
        only_x,
        lambda server, clients, p: [mean_owed(clients.z, clients.h, server, p)],
    ),
    "gradskip-plus": Run(
        gradskip_plus,
        only_x,
        of_gradskip_plus,
        sent=read("gradskip-plus", common_places, lambda message: message[1:]),
    ),
    "proxskip-vr": Run(
        lambda p, s: t.ProxSkipVr(t.Full(), p["lr"], p["probability"], batch=p["batch"], refresh=p["refresh"]),
        only_x,
        lambda server, clients, p: [mean_owed(*clients.last, server, p), clients.anchor],
    ),
    "icgm-rg-saga": Run(icgm, clients=lambda server, clients, p: [clients.memory]),
    "icgm-rg-svrg": Run(icgm),
    "saber-full": Run(lambda p, s: t.SaberFull(s, Exact(), lam=p["lam"], estimator=t.Sarah(p["probability"]))),
    "saber-partial": Run(lambda p, s: t.SaberPartial(s, Exact(), p["lam"], p["repeats"])),
    "ce-lgd": Run(lambda p, s: t.CeLgd(s, p["lr"], p["local_steps"], estimator=t.Storm(p["rho"]))),
    "fedpage": Run(
        lambda p, s: t.FedPage(s, p["lr"], p["local_steps"], server_lr=p["server_lr"], estimator=t.Sarah(p["probability"]))
    ),
    "catalyzed-svrp": Run(
        lambda p, s: t.CatalyzedSvrp(s, Exact(), p["gamma"], p["kappa"], p["mu"], p["inner"], probability=p["probability"])
    ),
    **{
        name: at_work(name, lambda p, s: t.RescaledAsgd(t.Nice(1), lr=p["lr"], in_flight=4, seconds=p.get("seconds")))
        for name in ("rescaled-asgd", "rescaled-asgd-measured")
    },
    "ringleader": at_work(
        "ringleader",
        lambda p, s: t.Ringleader(t.Nice(1), lr=p["lr"], in_flight=4),
        lambda server, p: [np.asarray(leaf, float) for leaf in jax.tree.leaves(server)],
    ),
}
