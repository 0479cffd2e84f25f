"""One example of everything that the package offers, and the problems that they are tested on.

Conformance, cost estimates and federations take their cases from these tables; tests/conformance/test_registry.py fails where
something public has no example.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

import turnout as t
from turnout import estimators, samplers
from turnout.data.dataset import Dataset
from turnout.data.splits import DirichletSplit, Split


@cache
def small() -> t.Problem:
    """Six clients of unequal weights, three unknowns, eigenvalues in [1, 10]."""
    weights = np.array([1.0, 2, 3, 2, 1, 3])
    return t.Quadratic.of(*t.Quadratic.random(6, 3, seed=1).rows, weights=weights / weights.sum())


@cache
def quadratic() -> t.Problem:
    """Twelve clients, five unknowns, eigenvalues in [1, 10]."""
    return t.Quadratic.random(12, 5, seed=1)


@cache
def logistic() -> t.Problem:
    """Twelve clients of very different sizes, so that rows are stored in tiles, with unequal weights lambda."""
    generator = np.random.default_rng(2)
    sizes = np.array([3, 8, 40, 8, 8, 1, 3, 60, 8, 8, 3, 3])
    rows = int(sizes.sum())
    labels = np.where(generator.normal(size=rows) > 0, 1.0, -1.0)
    dataset = Dataset("made", generator.normal(size=(rows, 5)), labels)
    split = Split(np.arange(rows), np.concatenate([[0], np.cumsum(sizes)]))
    return t.Logistic.of(dataset, split, mu=0.1, weights=sizes.astype(float))


@cache
def network() -> t.Problem:
    """Six clients with mixed labels and a two-layer network on nested parameters."""
    generator = np.random.default_rng(3)
    features = generator.normal(size=(90, 4))
    dataset = Dataset("made", features, np.digitize(features[:, 0] + features[:, 1], [-0.5, 0.5]))
    return t.Network.of(dataset, DirichletSplit(clients=6, concentration=1.0).split(dataset), hidden=7, mu=0.01)


PROBLEMS = {"quadratic": quadratic, "logistic": logistic, "network": network}


@dataclass(frozen=True)
class Exchange:
    """An exchange of every round as the papers count it.

    `down` and `up` are the vectors in a message and in a reply, beside `bytes_down`, `scalars_up` and `bytes_up`; `queries`
    is None where chance decides. `who` is a fresh "cohort" of the sampler, the same one "again", "everyone" as a pass, "one"
    random client or the "delegate".
    """

    down: int = 1
    up: int = 1
    queries: int | None = 1
    who: str = "cohort"
    bytes_down: int = 0
    scalars_up: int = 0
    bytes_up: int = 0


@dataclass(frozen=True)
class Example:
    """An algorithm: how to make it with a sampler, and the exchanges of its start and of every round, unless chance decides."""

    name: str
    make: Callable[[t.Sampler], t.Algorithm]
    round: tuple[Exchange, ...] | None
    start: tuple[Exchange, ...] = ()
    any_size: bool = True
    """Whether cohorts may be of random size."""

    def on(self, size: float) -> t.Algorithm:
        """Return the algorithm with cohorts of random size where it takes these; their empty places hold anything."""
        return self.make(t.Independent(size=size) if self.any_size else t.Nice(int(size)))


CODECS = {
    "cast": t.codecs.Cast("bfloat16"),
    "eigenpairs": t.codecs.Eigenpairs(rank=1),
    "identity": t.codecs.Identity(),
    "low-rank": t.codecs.LowRank(rank=1),
    "natural": t.codecs.Natural(),
    "qsgd": t.codecs.Qsgd(bits=3),
    "rand-k": t.codecs.RandK(fraction=0.5),
    "sign": t.codecs.Sign(),
    "top-k": t.codecs.TopK(fraction=0.5),
}

LOCAL = t.client_solvers.Gradient(lr=0.02, steps=3, tolerance=0.0)
"""A client's own solver, which takes the same steps whatever the rounding."""

SGD = t.optimisers.Sgd(lr=0.02)

PASS = Exchange(who="everyone")
"""A full pass for gradients."""

STEPS = 3


def one(**exchange) -> tuple[Exchange, ...]:
    """One exchange of one vector each way unless said otherwise."""
    return (Exchange(**exchange),)


def _examples() -> list[Example]:
    solve = one(queries=STEPS + 1)
    # The mean owed comes along with the message; the counter of AccFedDcd with it.
    again = Exchange(who="again")
    return [
        Example("5gcs", lambda s: t.FiveGcs(s, LOCAL, gamma=0.1, mu=0.5), one(queries=STEPS + 2)),
        Example(
            "acc-s-dane",
            lambda s: t.AccSDane(s, LOCAL, lam=20.0, mu=1.0),
            (Exchange(), Exchange(down=2, up=2, queries=STEPS + 3, who="again")),
        ),
        Example(
            "accfeddcd",
            lambda s: t.AccFedDcd(s, LOCAL, convexity=0.1, smoothness=10.0),
            2 * one(queries=None, bytes_down=4),
            any_size=False,
        ),
        # The number of steps and whether to measure come along.
        Example(
            "adacomm",
            lambda s: t.AdaComm(s, lr=0.05, steps=4, interval=1, minimum=-100.0),
            one(queries=None, bytes_down=5, scalars_up=1),
        ),
        Example("agnostic-fl", lambda s: t.AgnosticFl(s, lr=0.05, weights_lr=0.01), one(scalars_up=1)),
        Example(
            "aide",
            lambda s: t.Aide(s, LOCAL, lam=20.0, kappa=5.0, mu=1.0, inner=2),
            2 * (Exchange(), Exchange(queries=STEPS + 1, who="again")),
        ),
        Example(
            "amplified-fedavg",
            lambda s: t.AmplifiedFedAvg(s, lr=0.05, steps=STEPS, period=2, amplification=1.5),
            one(queries=STEPS),
        ),
        Example(
            "amplified-scaffold",
            lambda s: t.AmplifiedScaffold(s, lr=0.02, period=2, amplification=1.5, steps=STEPS),
            one(down=2, up=2, queries=STEPS, bytes_down=4),
        ),
        Example("apfl", lambda s: t.Apfl(s, lr=0.05, steps=STEPS, alpha=0.4), one(queries=2 * STEPS)),
        Example(
            "catalyzed-svrp",
            lambda s: t.CatalyzedSvrp(s, LOCAL, gamma=0.1, kappa=2.0, mu=1.0, inner=2, probability=0.5),
            None,
        ),
        Example(
            "ce-lgd",
            lambda s: t.CeLgd(s, lr=0.02, steps=2),
            (Exchange(down=2, queries=2, who="one"), Exchange(down=2, queries=2)),
            one(),
        ),
        Example(
            "diloco",
            lambda s: t.DiLoCo(s, t.optimisers.AdamW(0.02), t.optimisers.Sgd(0.7, momentum=0.9, nesterov=True), steps=STEPS),
            one(queries=STEPS),
        ),
        # Two of three numbers, and the key of their places.
        Example(
            "diana",
            lambda s: t.Diana(s, t.codecs.RandK(count=2), lr=0.02),
            one(bytes_down=8, up=0, scalars_up=2),
        ),
        # Two of three numbers, with two bits for the place of each.
        Example("ef21", lambda s: t.Ef21(s, t.codecs.TopK(count=2), lr=0.05), one(up=0, scalars_up=2, bytes_up=1)),
        Example(
            "adiana",
            lambda s: t.Adiana(s, t.codecs.RandK(count=2), lr=0.02, probability=0.5, mu=1.0),
            one(down=2, bytes_down=8, up=0, scalars_up=2 * 2, queries=2),
        ),
        Example(
            "dasha",
            lambda s: t.Dasha(s, t.codecs.RandK(count=2), lr=0.02),
            one(down=2, bytes_down=8, up=0, scalars_up=2, queries=2),
        ),
        Example(
            "ef-bv",
            lambda s: t.EfBv(s, t.codecs.RandK(count=2), lr=0.02, rate=0.5, nu=0.7),
            one(bytes_down=8, up=0, scalars_up=2),
        ),
        Example(
            "randprox",
            lambda s: t.RandProx(s, LOCAL, 0.1, t.codecs.RandK(count=2), mu=0.5, beta=0.15),
            one(bytes_down=8, up=0, scalars_up=2, queries=STEPS + 1),
        ),
        Example("clag", lambda s: t.Clag(s, t.codecs.TopK(count=2), lr=0.05, trigger=0.5), None),
        Example("dane", lambda s: t.Dane(s, LOCAL, lam=20.0), (Exchange(), Exchange(queries=STEPS + 1, who="again"))),
        Example(
            "disco",
            lambda s: t.Disco(s, lam=2.0, products=1, relative=1e-12),
            (Exchange(), Exchange(down=2, queries=3, who="delegate"), Exchange(who="again")),
        ),
        Example(
            "ditto",
            lambda s: t.Ditto(s, lr=0.05, steps=STEPS, lam=0.7, own_lr=0.04, own_steps=2),
            one(queries=STEPS + 2),
        ),
        Example("easgd", lambda s: t.Easgd(s, lr=0.05, alpha=0.2, steps=STEPS), one(queries=STEPS)),
        Example(
            "ef21-muon",
            lambda s: t.Ef21Muon(s, t.codecs.TopK(count=2), lr=0.05),
            one(up=0, scalars_up=2, bytes_up=1),
        ),
        Example("fedac", lambda s: t.FedAc(s, lr=0.05, mu=1.0, steps=STEPS), one(down=2, up=2, queries=STEPS)),
        Example("fedavg", lambda s: t.FedAvg(s, lr=0.05, steps=STEPS), one(queries=STEPS)),
        Example(
            "fedavg-sppm",
            lambda s: t.FedAvgSppm(s, gamma=0.1, alpha=0.5, inner=2, solver=LOCAL),
            (*solve, Exchange(queries=STEPS + 1, who="again")),
        ),
        Example("fedcm", lambda s: t.FedCm(s, lr=0.05, alpha=0.3, server_lr=0.1, steps=STEPS), one(down=2, queries=STEPS)),
        # Three columns of three numbers and the eigenvalues, then the gradient and two of six numbers with their places.
        Example(
            "bl1",
            lambda s: t.Bl1(s, t.codecs.TopK(count=2), mu=1.0),
            one(queries=1 + 3, scalars_up=2, bytes_up=1),
            one(queries=3, scalars_up=9, who="everyone"),
        ),
        Example(
            "bl2",
            lambda s: t.Bl2(s, t.codecs.TopK(count=2)),
            one(queries=1 + 3, scalars_up=1 + 2, bytes_up=1),
            one(up=2, queries=1 + 3, scalars_up=9 + 1, who="everyone"),
        ),
        Example("feddcd", lambda s: t.FedDcd(s, LOCAL, convexity=0.1), solve),
        Example("feddisco", lambda s: t.FedDisco(s, lr=0.05, steps=STEPS, discrepancy=0.3), one(queries=STEPS)),
        Example("feddyn", lambda s: t.FedDyn(s, LOCAL, gamma=0.1), solve),
        Example("fedexp", lambda s: t.FedExp(s, lr=0.05, steps=STEPS), one(queries=STEPS, scalars_up=1)),
        Example("fedexprox", lambda s: t.FedExProx(s, LOCAL, gamma=0.1, rule="stops"), one(queries=STEPS + 2, scalars_up=1)),
        Example(
            "fedgloss",
            lambda s: t.FedGloSs(s, lr=0.05, radius=0.05, server_radius=0.1, beta=0.5, steps=STEPS),
            one(queries=2 * STEPS),
        ),
        Example("fedlamb", lambda s: t.FedLamb(s, lr=0.02, batch=2, steps=2), one(down=2, up=2, queries=2)),
        Example("fedlin", lambda s: t.FedLin(s, lr=0.05, steps=3), (Exchange(), Exchange(queries=2, who="again"))),
        Example("fedmuon", lambda s: t.FedMuon(s, lr=0.05, steps=STEPS), one(down=2, up=2, queries=STEPS)),
        # The first Hessians have six numbers; two of them, and their places in a byte and a half, follow in each round.
        Example(
            "fednl",
            lambda s: t.FedNl(s, t.codecs.TopK(count=2), option="II", mu=1.0),
            one(queries=1 + 3, scalars_up=1 + 2, bytes_up=1),
            one(up=0, queries=3, scalars_up=6, who="everyone"),
        ),
        Example(
            "fednl-bc",
            lambda s: t.FedNlBc(s, t.codecs.TopK(count=2), t.codecs.TopK(count=2), mu=1.0),
            None,
            one(up=0, queries=3, scalars_up=6, who="everyone"),
        ),
        Example(
            "fednl-cr",
            lambda s: t.FedNlCr(s, t.codecs.TopK(count=2), lipschitz=1.0),
            one(queries=1 + 3, scalars_up=1 + 2, bytes_up=1),
            one(up=0, queries=3, scalars_up=6, who="everyone"),
        ),
        Example(
            "fednl-ls",
            lambda s: t.FedNlLs(s, t.codecs.TopK(count=2), mu=1.0),
            None,
            one(up=0, queries=3, scalars_up=6, who="everyone"),
        ),
        Example(
            "fednl-pp",
            lambda s: t.FedNlPp(s, t.codecs.TopK(count=2)),
            one(queries=1 + 3, scalars_up=1 + 2, bytes_up=1),
            one(queries=1 + 3, scalars_up=1 + 6, who="everyone"),
        ),
        Example(
            "fednova",
            lambda s: t.FedNova(s, lr=0.05, steps=STEPS, momentum=0.5, mu=0.3),
            one(queries=STEPS, scalars_up=1),
        ),
        Example(
            "fedopt",
            lambda s: t.FedOpt(s, optimiser=SGD, server_optimiser=t.optimisers.FedYogi(0.02), steps=STEPS),
            one(queries=STEPS),
        ),
        Example("fedpage", lambda s: t.FedPage(s, lr=0.02, steps=STEPS), None, (PASS,)),
        Example("fedprox", lambda s: t.FedProx(s, lr=0.05, steps=STEPS, mu=0.7), one(queries=STEPS)),
        Example(
            "fedprox-sppm",
            lambda s: t.FedProxSppm(s, gamma=0.1, inner=2, solver=LOCAL),
            (*solve, Exchange(queries=STEPS + 1, who="again")),
        ),
        Example(
            "fedred",
            lambda s: t.FedRed(s, lam=10.0, smoothness=20.0),
            (PASS, Exchange(down=2, queries=None, who="delegate")),
        ),
        Example("fedsam", lambda s: t.FedSam(s, lr=0.05, radius=0.2, steps=STEPS), one(queries=2 * STEPS)),
        Example("fedsophia", lambda s: t.FedSophia(s, lr=0.1, steps=3, every=2), one(queries=3 + 2)),
        Example("fedspeed", lambda s: t.FedSpeed(s, optimiser=SGD, gamma=0.1, steps=2), one(queries=2 * 2)),
        Example("fedvarp", lambda s: t.FedVarp(s, lr=0.05, steps=STEPS), one(queries=STEPS)),
        # A client finds its optimum when it is asked first.
        Example("flix", lambda s: t.Flix(s, LOCAL, lr=0.05, alpha=0.6), one(queries=None)),
        Example("gd", lambda s: t.Gd(s, lr=0.05), (PASS,)),
        Example(
            "gradskip",
            lambda s: t.GradSkip(s, lr=0.02, probability=0.3, going=0.8),
            one(queries=None, who="everyone", bytes_down=4),
        ),
        # Two of three numbers, both ways; the key and the number of steps come along.
        Example(
            "gradskip-plus",
            lambda s: t.GradSkipPlus(s, t.codecs.RandK(count=2, common=True), t.codecs.RandK(count=1), lr=0.01, probability=0.5),
            one(queries=None, who="everyone", down=0, bytes_down=2 * 8 + 8 + 4, up=0, scalars_up=2),
        ),
        Example(
            "icgm",
            lambda s: t.Icgm(s, t.RgSaga(), lam=10.0, probability=0.4, smoothness=10.0, delegate=t.Nice(1)),
            None,
            (PASS,),
        ),
        # The numbers of steps of both kinds come along.
        Example(
            "l2gd",
            lambda s: t.L2gd(s, lr=0.02, probability=0.3, lam=2.0),
            one(queries=None, who="everyone", bytes_down=8),
        ),
        # lam and whether anyone was heard come along, and that this client was goes back.
        Example(
            "lazy-dane",
            lambda s: t.LazyDane(s, LOCAL, lam=20.0),
            one(down=3, up=3, queries=STEPS + 3, bytes_down=9, scalars_up=1),
        ),
        Example(
            "locodl",
            lambda s: t.LoCoDl(s, t.codecs.Identity(), lr=0.02, probability=0.5, split=0.3),
            one(down=2, queries=None, who="everyone", bytes_down=4),
        ),
        Example("marina", lambda s: t.Marina(s, t.codecs.Identity(), probability=0.7, lr=0.05), None, (PASS,)),
        Example("mbgd", lambda s: t.MbGd(s, lr=0.05), one()),
        Example("mblocalgd", lambda s: t.MbLocalGd(s, lr=0.05, steps=STEPS), one(queries=STEPS)),
        Example(
            "mime",
            lambda s: t.Mime(s, optimiser=SGD, steps=2),
            (Exchange(), Exchange(down=2, queries=2 * 2, who="again")),
        ),
        # Adam's state is two vectors and a counter.
        Example(
            "mimelite",
            lambda s: t.MimeLite(s, optimiser=t.optimisers.Adam(0.02), steps=STEPS),
            one(down=3, up=2, queries=STEPS + 1, bytes_down=4),
        ),
        Example(
            "mimemvr",
            lambda s: t.MimeMvr(s, lr=0.02, steps=2, momentum=0.2),
            (Exchange(down=2, queries=2), again),
        ),
        Example("pfedme", lambda s: t.PFedMe(s, LOCAL, lr=0.05, steps=2, lam=5.0), one(queries=2 * (STEPS + 1))),
        Example("point-saga", lambda s: t.PointSaga(s, LOCAL, gamma=0.1), solve),
        Example(
            "q-fedavg",
            lambda s: t.QFedAvg(s, lr=0.05, q=1.5, steps=STEPS, minimum=-20.0),
            one(queries=STEPS + 1, scalars_up=1),
        ),
        Example(
            "s-dane",
            lambda s: t.SDane(s, LOCAL, lam=20.0, mu=1.0),
            (Exchange(), Exchange(down=2, up=2, queries=STEPS + 3, who="again")),
        ),
        Example(
            "sa-pef",
            lambda s: t.SaPef(s, t.codecs.TopK(count=2), lr=0.05, alpha=0.6, steps=STEPS),
            one(up=0, queries=STEPS, scalars_up=2, bytes_up=1),
        ),
        Example("saber-full", lambda s: t.SaberFull(s, LOCAL, lam=20.0), None, (PASS,)),
        Example(
            "saber-partial",
            lambda s: t.SaberPartial(s, LOCAL, lam=20.0, cohorts=2),
            (*2 * one(down=2, queries=STEPS + 2), Exchange(), Exchange()),
            (PASS,),
        ),
        # A client finds its optimum when it is asked first; the number of steps comes along.
        Example(
            "scafflix",
            lambda s: t.Scafflix(s, LOCAL, lr=0.02, alpha=0.6, probability=0.3),
            one(queries=None, who="everyone", bytes_down=4),
        ),
        Example(
            "scaffnew",
            lambda s: t.Scaffnew(s, lr=0.02, probability=0.3),
            one(queries=None, who="everyone", bytes_down=4),
        ),
        Example(
            "proxskip-vr",
            lambda s: t.ProxSkipVr(s, lr=0.02, probability=0.3, batch=1, refresh=0.5),
            one(queries=None, who="everyone", bytes_down=4),
        ),
        Example("scaffold", lambda s: t.Scaffold(s, lr=0.02, steps=STEPS, option="I"), one(down=2, up=2, queries=STEPS + 1)),
        Example(
            "scaffold-m",
            lambda s: t.ScaffoldM(s, lr=0.05, alpha=0.3, server_lr=0.1, steps=STEPS),
            one(down=3, queries=STEPS),
        ),
        Example("scaffold-sag", lambda s: t.ScaffoldSag(s, lr=0.02, steps=2), (Exchange(), again), (PASS,)),
        # Two of three numbers each way, and the number of the round.
        Example(
            "streaming-diloco",
            lambda s: t.StreamingDiLoCo(
                s, SGD, t.optimisers.Sgd(0.7, momentum=0.9, nesterov=True), steps=STEPS, fragments=2, overlap=1
            ),
            one(down=0, up=0, queries=STEPS, bytes_down=8 * 2 + 4, scalars_up=2),
        ),
        # A line search takes as many exchanges as it takes.
        Example("shed", lambda s: t.Shed(s, pairs=1), None),
        Example("svrp", lambda s: t.Svrp(s, LOCAL, gamma=0.1, probability=0.5), None, (PASS,)),
        Example("sppm", lambda s: sppm(t.solvers.GradientDescent(smoothness=20.0), s), (Exchange(), again)),
        # Two of three numbers; the number of steps, a slot and two numbers of the last mean come along.
        Example(
            "tamuna",
            lambda s: t.Tamuna(s, copies=2, lr=0.05, probability=0.5),
            one(bytes_down=4 + 4 + 2 * 8, up=0, scalars_up=2, queries=None),
            any_size=False,
        ),
    ]


def sppm(solver: t.CohortSolver, sampler: t.Sampler, inner: int = 2) -> t.Algorithm:
    """The stochastic proximal point method with a cohort solver."""
    return t.Sppm(sampler, solver, gamma=0.1, inner=inner)


ALGORITHMS = {example.name: example for example in _examples()}
"""An example of every algorithm, by its name in configurations."""

PERSONAL_LEAVES = {
    example.name: example
    for example in (
        Example(
            "fedbabu", lambda s: t.FedBabu(s, lr=0.05, steps=STEPS, leaves="bias", own_lr=0.1, own_steps=2), one(queries=STEPS)
        ),
        Example("fedbn", lambda s: t.FedBn(s, lr=0.05, steps=STEPS, leaves=["bias", "running*"]), one(queries=STEPS)),
        Example("fedper", lambda s: t.FedPer(s, lr=0.05, steps=STEPS, leaves="bias"), one(queries=STEPS)),
        Example(
            "fedrep", lambda s: t.FedRep(s, lr=0.05, steps=STEPS, leaves="bias", own_lr=0.1, own_steps=2), one(queries=STEPS + 2)
        ),
    )
}
"""An example of every algorithm that asks for groups of leaves, for the problem `centred`."""

ASYNCHRONOUS = {
    "fedasync": t.FedAsync(t.Nice(1), lr=0.05, steps=STEPS, in_flight=4),
    "fedbuff": t.FedBuff(t.Nice(2), lr=0.05, steps=STEPS, in_flight=5, buffer=2),
    "mifa": t.Mifa(t.Nice(1), lr=0.02, in_flight=4),
    "rescaled-asgd": t.RescaledAsgd(t.Nice(1), lr=0.02, in_flight=6),
    "ringleader": t.Ringleader(t.Nice(1), lr=0.02, in_flight=6),
    "ringmaster": t.Ringmaster(t.Nice(1), lr=0.02, in_flight=6, threshold=4),
}
"""An example of every algorithm with requests in flight, for six clients."""

IN_HUBS = {"in-hubs": t.InHubs(t.FedAvg(t.Nice(2), lr=0.05, steps=STEPS), rounds=2)}
"""An example of the algorithm that runs others in hubs, for problems with hubs; tests/hubs/test_in_hubs.py has its checks."""

HALVES, BLOCKS = [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]

SAMPLERS = {
    "full": samplers.Full(),
    "nice": samplers.Nice(3),
    "shuffled-nice": samplers.ShuffledNice(2),
    "nonuniform": samplers.NonUniform(probability=[0.1, 0.1, 0.2, 0.2, 0.2, 0.2]),
    "importance": samplers.Importance(),
    "independent": samplers.Independent(size=3.0),
    "replacement": samplers.WithReplacement(size=3),
    "des-raj": samplers.DesRaj(t.BySize(), size=3),
    "systematic": samplers.Systematic(t.BySize(), size=3),
    "pivotal": samplers.Pivotal(t.BySize(), size=3),
    "cube": samplers.Cube(t.BySize(), size=3, balance=[[1.0], [2], [1], [3], [1], [2]]),
    "block": samplers.Block(BLOCKS, [0.2, 0.3, 0.5]),
    "stratified": samplers.Stratified(HALVES),
    "gradient-stratified": samplers.Stratified(by="gradients", clusters=2),
    "shuffled-stratified": samplers.ShuffledStratified(strata=HALVES),
    "clustered": samplers.Clustered(2),
    "gradient-clustered": samplers.Clustered(2, by="gradients", every=2),
    "subsets": samplers.Subsets(subsets=[[0, 1], [2, 3, 4], [5, 0], [1]], probability=[0.3, 0.4, 0.2, 0.1]),
    "delegate": samplers.Delegate(1),
    "power-of-choice": samplers.PowerOfChoice(size=2, candidates=4),
    "afl": samplers.Afl(2),
    "divfl": samplers.DivFl(2, candidates=3),
    "oort": samplers.Oort(3, seconds=[1.0, 2.0, 1.0, 3.0, 1.0, 2.0], preferred=1.5),
    "available": samplers.Available(samplers.Nice(2), probability=[0.9, 0.5, 0.6, 0.7, 0.8, 1.0], memory=0.5),
    "adaptive-size": samplers.AdaptiveSize(samplers.Systematic(t.LastNorm(), size=4), smallest=2.0),
}
"""An example of every sampler for six clients, by its name in configurations."""

PROBABILITIES = {
    "uniform": t.Uniform(),
    "size": t.BySize(),
    "delta": t.Delta(batch=2, every=2),
    "drift": t.Drift(),
    "k-vib": t.KVib(),
    "vrb": t.Vrb(),
    "mabs": t.Mabs(),
    "avare": t.Avare(),
    "osmd": t.Osmd(),
    "a-osmd": t.AOsmd(),
    "last-norm": t.LastNorm(),
    "optimal": t.Optimal(),
    "aocs": t.Aocs(),
    "smoothness": t.BySmoothness(),
}
"""An example of every rule for probabilities."""

adapted = t.solvers.AsCohortSolver

SOLVERS = {
    "gd": t.solvers.GradientDescent(),
    "agd": t.solvers.AcceleratedGradient(),
    "cg": t.solvers.ConjugateGradient(),
    "bfgs": t.solvers.Bfgs(),
    "lbfgs": t.solvers.Lbfgs(),
    "newton": t.solvers.Newton(hessian="products", products=2),
    "aicn": t.solvers.Aicn(),
    "scaffnew": t.solvers.Scaffnew(),
    "localgd": t.solvers.LocalGd(steps=2),
    "giant": t.solvers.Giant(),
    "localnewton": t.solvers.LocalNewton(steps=2),
    "sketch": t.solvers.SketchedNewton(),
    "descent": t.solvers.FirstOrder(optimiser=SGD),
    "fedlamb": adapted(t.FedLamb(t.Full(), lr=0.01, batch=2, steps=2)),
    "fedopt": adapted(t.FedOpt(t.Full(), optimiser=SGD, server_optimiser=t.optimisers.Sgd(lr=1.0), steps=2)),
    "fedspeed": adapted(t.FedSpeed(t.Full(), optimiser=SGD, gamma=0.1, steps=2)),
    "mime": adapted(t.Mime(t.Full(), optimiser=SGD, steps=2)),
    "mimelite": adapted(t.MimeLite(t.Full(), optimiser=SGD, steps=2)),
}
"""An example of every cohort solver."""

_CONSTANTS = 8 + 4
"""What local training within a proximal problem is sent beside vectors: 1 / (gamma W) and the round."""

SOLVER_EXCHANGES = {
    "gd": one(),
    "agd": one(),
    "cg": one(scalars_up=1),
    "bfgs": one(scalars_up=1),
    "lbfgs": one(scalars_up=1),
    "newton": (Exchange(scalars_up=1), *2 * one(down=2)),
    # A Hessian of 3 x 3 numbers, which takes a query for each column.
    "aicn": one(scalars_up=1 + 9, queries=1 + 3),
    "scaffnew": one(queries=None, bytes_down=1 + 4 + 3 * 8),
    "localgd": (Exchange(), Exchange(down=2, bytes_down=2 * 8, queries=2 + 1)),
    "giant": (Exchange(scalars_up=1), Exchange(down=2, bytes_down=8, queries=None)),
    "localnewton": (Exchange(scalars_up=1), Exchange(down=2, bytes_down=8, queries=None)),
    "sketch": one(scalars_up=1, queries=2),
    "descent": one(),
    "fedlamb": one(down=3, up=2, bytes_down=_CONSTANTS, queries=2),
    "fedopt": one(down=2, bytes_down=_CONSTANTS, queries=2),
    "fedspeed": one(down=2, bytes_down=_CONSTANTS, queries=2 * 2),
    "mime": (Exchange(down=2, bytes_down=_CONSTANTS), Exchange(down=3, bytes_down=_CONSTANTS, queries=2 * 2)),
    "mimelite": one(down=2, up=2, bytes_down=_CONSTANTS, queries=2 + 1),
}
"""The exchanges of one step of each, all with the same cohort, on three unknowns."""

CLIENT_SOLVERS = {
    "adam": t.client_solvers.Adam(lr=0.05, batch=4, epochs=2),
    "bfgs": t.client_solvers.Bfgs(tolerance=1e-6),
    "gradient": t.client_solvers.Gradient(lr=0.05, steps=50, tolerance=0.0),
    "lbfgs": t.client_solvers.Lbfgs(tolerance=1e-6),
    "newton-cg": t.client_solvers.NewtonCg(),
    "per-class": t.client_solvers.PerClass(solvers=[LOCAL, t.client_solvers.Bfgs(tolerance=1e-6)], classes=[0, 1, 0, 1, 0, 1]),
    "sgd": t.client_solvers.Sgd(lr=0.05, batch=4, epochs=2),
    "stochastic": t.client_solvers.Stochastic(t.optimisers.Adagrad(0.05), batch=4, epochs=2),
    "svrg": t.client_solvers.Svrg(lr=0.05, batch=4, epochs=2),
}
"""An example of every client solver for six clients."""

OPTIMISERS = {
    "adagrad": t.optimisers.Adagrad(0.05),
    "adam": t.optimisers.Adam(0.05),
    "adamw": t.optimisers.AdamW(0.05),
    "apollo": t.optimisers.Apollo(0.05),
    "dadapt-adamw": t.optimisers.DAdaptAdamW(initial=1e-3),
    "fedadagrad": t.optimisers.FedAdagrad(0.05),
    "fedadam": t.optimisers.FedAdam(0.05),
    "fedyogi": t.optimisers.FedYogi(0.05),
    "muon": t.optimisers.Muon(0.05),
    "oasis": t.optimisers.Oasis(0.05),
    "prodigy": t.optimisers.Prodigy(),
    "sgd": t.optimisers.Sgd(lr=0.05, clip=1.0),
}
"""An example of every optimiser."""

ESTIMATORS = {
    "exact": estimators.Exact(),
    "saga": estimators.Saga(),
    "sag": estimators.Sag(),
    "svrg": estimators.Svrg(),
    "rg-saga": estimators.RgSaga(),
    "rg-svrg": estimators.RgSvrg(),
    "sarah": estimators.Sarah(),
    "zerosarah": estimators.ZeroSarah(),
    "storm": estimators.Storm(),
}
"""An example of every gradient estimator."""


def icgm(estimator: t.Estimator, sampler: t.Sampler | None = None, **options) -> t.Algorithm:
    """I-CGM with a gradient estimator."""
    return t.Icgm(sampler or t.Nice(2), estimator, **{"lam": 20.0, "probability": 0.4, "smoothness": 10.0, **options})
