"""The algorithms and problems that every conformance test goes through: add a row, get all tests."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

import turnout as t
from turnout.data.dataset import Dataset
from turnout.data.splits import DirichletSplit, Split
from turnout.engines.sweep import set_leaves


@dataclass(frozen=True)
class Row:
    """One algorithm: how to make it with a sampler, a second setting of its leaves, and what one round sends.

    What one round sends is given by its exchanges, and for one client in one exchange (on average, where they differ) by vectors
    down and up, scalars up and further bytes down; `queries` of one client in a round is None where it is random.
    """

    name: str
    make: Callable[[t.Sampler], t.Algorithm]
    other: dict
    exchanges: int
    vectors: tuple[float, float]
    scalars_up: int
    queries: int | None
    gradient_step: float | None = None
    bytes_down: float = 0


LOCAL = t.client_solvers.Gradient(lr=0.02, steps=3, tolerance=0.0)
"""A client's own solver, which takes the same steps whatever the rounding."""

SGD = t.optimisers.Sgd(lr=0.05)

ROWS = [
    Row("fedavg", lambda s: t.FedAvg(s, lr=0.05, steps=3), {"lr": 0.02}, 1, (1, 1), 0, 3),
    Row("fedavg-one-step", lambda s: t.FedAvg(s, lr=0.05, steps=1), {"lr": 0.02}, 1, (1, 1), 0, 1, 0.05),
    Row("fedavg-epochs", lambda s: t.FedAvg(s, lr=0.05, batch=3, epochs=2), {"lr": 0.02}, 1, (1, 1), 0, 2),
    Row("fedprox", lambda s: t.FedProx(s, lr=0.05, steps=3, mu=0.7), {"mu": 0.2}, 1, (1, 1), 0, 3),
    Row("mbgd", lambda s: t.MbGd(s, lr=0.05), {"lr": 0.01}, 1, (1, 1), 0, 1, 0.05),
    Row("mblocalgd", lambda s: t.MbLocalGd(s, lr=0.05, steps=4), {"steps": 2}, 1, (1, 1), 0, 4),
    Row("mblocalgd-one-step", lambda s: t.MbLocalGd(s, lr=0.05, steps=1), {"lr": 0.02}, 1, (1, 1), 0, 1, 0.05),
    Row("fedvarp", lambda s: t.FedVarp(s, lr=0.05, steps=4), {"lr": 0.02}, 1, (1, 1), 0, 4),
    Row("fedvarp-clients", lambda s: t.FedVarp(s, lr=0.05, steps=1, memory="clients"), {"lr": 0.02}, 1, (1, 1), 0, 1, 0.05),
    Row("scaffold-one-step", lambda s: t.Scaffold(s, lr=0.05, steps=1), {"server_lr": 0.5}, 1, (2, 2), 0, 1, 0.05),
    Row(
        "sppm-gd",
        lambda s: t.Sppm(s, t.solvers.GradientDescent(smoothness=20.0, convexity=0.0), gamma=2.0, inner=1),
        {"gamma": 1.0},
        1,
        (1, 1),
        0,
        1,
        1 / 20.5,
    ),
    Row(
        "sppm-agd",
        lambda s: t.Sppm(s, t.solvers.AcceleratedGradient(smoothness=20.0, convexity=0.0), gamma=2.0, inner=4),
        {"inner": 3},
        4,
        (1, 1),
        0,
        4,
    ),
    Row("sppm-bfgs", lambda s: t.Sppm(s, t.solvers.Bfgs(smoothness=20.0), gamma=0.5, inner=5), {"gamma": 1.0}, 5, (1, 1), 1, 5),
    Row(
        "sppm-products",
        lambda s: t.Sppm(s, t.solvers.Newton(smoothness=20.0, convexity=0.5, hessian="products", products=2), gamma=0.5, inner=1),
        {"gamma": 1.0},
        3,
        (5 / 3, 1),
        1 / 3,
        3,
    ),
    Row(
        "sppm-scaffnew",
        lambda s: t.Sppm(s, t.solvers.Scaffnew(smoothness=20.0, convexity=0.5), gamma=0.5, inner=3),
        {"gamma": 1.0},
        3,
        (1, 1),
        0,
        None,
        bytes_down=1 + 4 + 3 * 8,
    ),
    Row(
        "sppm-localgd",
        lambda s: t.Sppm(s, t.solvers.LocalGd(smoothness=20.0, convexity=0.5, steps=2), gamma=0.5, inner=2),
        {"gamma": 1.0},
        4,
        (1.5, 1),
        0,
        2 * (1 + 3),
        bytes_down=8,
    ),
    Row(
        "sppm-sketch",
        lambda s: t.Sppm(s, t.solvers.SketchedNewton(smoothness=20.0, convexity=0.5), gamma=1e3, inner=1, averaging=0.5),
        {"averaging": 1.0},
        1,
        (1, 1),
        1,
        None,
        bytes_down=1,
    ),
    Row("point-saga", lambda s: t.PointSaga(s, LOCAL, gamma=0.5), {"gamma": 0.7}, 1, (1, 1), 0, None),
    Row("feddcd", lambda s: t.FedDcd(s, LOCAL, convexity=0.1), {"lr": 0.5}, 1, (1, 1), 0, None),
    # Loose enough that rounding does not decide how many steps a client takes.
    Row(
        "fedprox-sppm",
        lambda s: t.FedProxSppm(s, 0.5, 2, solver=t.client_solvers.Bfgs(tolerance=1e-3)),
        {"gamma": 0.7},
        2,
        (1, 1),
        0,
        None,
    ),
    Row(
        "fedopt",
        lambda s: t.FedOpt(s, optimiser=SGD, server_optimiser=t.optimisers.FedYogi(0.05), steps=3),
        {"steps": 2},
        1,
        (1, 1),
        0,
        3,
    ),
    Row(
        "mimelite",
        lambda s: t.MimeLite(s, optimiser=t.optimisers.Adam(0.05), steps=3),
        {"optimiser.lr": 0.02},
        1,
        (3, 2),
        0,
        4,
        bytes_down=4,
    ),
    Row(
        "sppm-fedlamb",
        lambda s: t.Sppm(s, t.solvers.AsCohortSolver(t.FedLamb(t.Full(), lr=0.05, batch=3, steps=2)), gamma=0.5, inner=2),
        {"gamma": 1.0},
        2,
        (3, 2),
        0,
        2 * 2,
        bytes_down=8 + 4,
    ),
    Row("scaffold", lambda s: t.Scaffold(s, lr=0.02, steps=3, option="I"), {"lr": 0.01}, 1, (2, 2), 0, 4),
]


def learning(size: float) -> t.Sampler:
    """Independent draws whose probabilities follow the feedback."""
    return t.Independent(size=size, probability=t.KVib())


ADAPTIVE = [
    Row("mbgd-k-vib", lambda _: t.MbGd(learning(3.0), lr=0.05), {"lr": 0.01}, 1, (1, 1), 0, 1),
    Row(
        "sppm-gd-k-vib",
        lambda _: t.Sppm(learning(3.0), t.solvers.GradientDescent(smoothness=20.0, convexity=0.0), gamma=0.5, inner=2),
        {"gamma": 0.7},
        2,
        (1, 1),
        0,
        2,
    ),
    Row(
        "accfeddcd",
        lambda _: t.AccFedDcd(t.Nice(3), LOCAL, convexity=0.1, smoothness=10.0),
        {"lr": 0.5},
        2,
        (1, 1),
        0,
        None,
    ),
    Row(
        "icgm",
        lambda _: t.Icgm(t.Nice(3), t.RgSaga(), lam=1.0, probability=0.4, smoothness=10.0),
        {"lam": 2.0},
        2,
        (1.75, 1.75),
        0,
        None,
    ),
    Row(
        "fedavg-available",
        lambda _: t.FedAvg(t.Available(t.Nice(3), probability=0.6, memory=0.5), lr=0.05, steps=3),
        {"lr": 0.02},
        1,
        (1, 1),
        0,
        3,
    ),
]
"""Rows with a sampler of their own, whose draws depend on what came before."""


@cache
def quadratic() -> t.Problem:
    """Twelve clients, five unknowns, eigenvalues in [1, 10]."""
    return t.Quadratic.random(12, 5, seed=1)


@cache
def logistic() -> t.Problem:
    """Twelve clients of very different sizes, so that rows are stored in tiles, with unequal weights lambda."""
    generator = np.random.default_rng(2)
    sizes = np.array([3, 5, 40, 7, 9, 1, 2, 60, 8, 8, 3, 2])
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


def with_leaves(algorithm: t.Algorithm, leaves: dict) -> t.Algorithm:
    """Return the algorithm with other hyper-parameters."""
    return set_leaves(algorithm, leaves)
