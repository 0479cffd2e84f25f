"""FedMuon and EF21-Muon: plain programs of their papers on matrices, and what Muon inside plain FedAvg does instead."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import cohorts
from turnout.optimisers.lmo import COEFFICIENTS, lmo

SHAPE, LR, ALPHA, ROUNDS, DECAY = (3, 2), 0.05, 0.3, 50, 10.0
SHARES, STEPS = np.array([0.4, 0.3, 0.2, 0.1]), [1, 3, 2, 4]
FALLING = t.schedules.Inverse(DECAY)


@t.record
class Distances(t.Problem):
    """scale_i / 2 (|X - A_i|^2 + |v - b_i|^2), one row for each client."""

    def losses(self, x, rows):
        scales, matrices, vectors = rows
        return (
            scales / 2 * (jnp.sum((x["matrix"][None] - matrices) ** 2, (1, 2)) + jnp.sum((x["vector"][None] - vectors) ** 2, 1))
        )

    def start(self, key):
        return {"matrix": jnp.zeros(SHAPE), "vector": jnp.zeros(2)}


def distances(scales, matrices, vectors, weights) -> Distances:
    rows = tuple(np.asarray(part, float) for part in (scales, matrices, vectors))
    return Distances(rows, np.arange(len(scales) + 1), t.Population(count=len(scales), weights=np.asarray(weights)))


@cache
def far() -> Distances:
    generator = np.random.default_rng(3)
    return distances([1.0, 4.0, 2.0, 3.0], generator.normal(size=(4, *SHAPE)), generator.normal(size=(4, 2)), SHARES)


@cache
def opposed() -> Distances:
    """Two clients that pull along A and along -A, one with three times the force: x* = A / 2."""
    a = np.linalg.qr(np.random.default_rng(1).normal(size=SHAPE))[0]
    return distances([3.0, 1.0], [a, -a], np.zeros((2, 2)), [0.5, 0.5])


def minimiser(gradient) -> list[np.ndarray]:
    """Newton-Schulz steps by the singular values alone, and the unit vector."""
    u, s, v = np.linalg.svd(gradient[0], full_matrices=False)
    s = s / (np.linalg.norm(s) or 1)
    for _ in range(5):
        s = COEFFICIENTS[0] * s + COEFFICIENTS[1] * s**3 + COEFFICIENTS[2] * s**5
    return [-(u * s) @ v, -gradient[1] / (np.linalg.norm(gradient[1]) or 1)]


def plus(x, y, factor=1.0) -> list[np.ndarray]:
    return [a + factor * b for a, b in zip(x, y, strict=True)]


def slope(i, x) -> list[np.ndarray]:
    scales, matrices, vectors = far().rows
    return [scales[i] * (x[0] - matrices[i]), scales[i] * (x[1] - vectors[i])]


def zeros() -> list[np.ndarray]:
    return [np.zeros(SHAPE), np.zeros(2)]


def largest(x, codec_count=2) -> list[np.ndarray]:
    """TopK with the two largest numbers of each leaf."""
    kept = []
    for leaf in x:
        flat = leaf.ravel().copy()
        flat[np.argsort(-np.abs(flat), kind="stable")[codec_count:]] = 0
        kept.append(flat.reshape(leaf.shape))
    return kept


def equal(x, plain) -> None:
    np.testing.assert_allclose(x["matrix"], plain[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(x["vector"], plain[1], rtol=0, atol=1e-10)


@pytest.mark.longer
def test_fedmuon_is_its_numpy_program():
    x, c, sampler = zeros(), [zeros() for _ in range(4)], t.Nice(2)
    trace = t.run(t.FedMuon(sampler, LR, STEPS, alpha=ALPHA, schedule=FALLING), far(), rounds=ROUNDS, seed=1)
    for number, cohort in enumerate(cohorts(sampler, far(), 1, ROUNDS)):
        mean, moved, new = zeros(), zeros(), list(c)
        for own, share in zip(c, SHARES, strict=True):
            mean = plus(mean, own, share)
        for i, share, _ in cohort:
            y, m = x, c[i]
            for _ in range(STEPS[i]):
                m = plus([(1 - ALPHA) * leaf for leaf in m], slope(i, y), ALPHA)
                y = plus(y, minimiser(plus(plus(m, c[i], -1), mean)), LR / (1 + number / DECAY))
            moved, new[i] = plus(moved, plus(y, x, -1), share), m
        x, c = plus(x, moved), new
    equal(trace.x, x)
    totals = trace.ledger.totals()
    assert totals["vectors_down"] == totals["vectors_up"] == 2 * 2 * ROUNDS


@pytest.mark.longer
def test_ef21_muon_is_its_numpy_program():
    x, momenta, memories = zeros(), [zeros() for _ in range(4)], [zeros() for _ in range(4)]
    sampler = t.Nice(3)
    algorithm = t.Ef21Muon(sampler, t.codecs.TopK(count=2), LR, alpha=ALPHA, schedule=FALLING)
    trace = t.run(algorithm, far(), rounds=ROUNDS, seed=1)
    for number, cohort in enumerate(cohorts(sampler, far(), 1, ROUNDS)):
        for i, *_ in cohort:
            momenta[i] = plus([(1 - ALPHA) * leaf for leaf in momenta[i]], slope(i, x), ALPHA)
            memories[i] = plus(memories[i], largest(plus(momenta[i], memories[i], -1)))
        mean = zeros()
        for own, share in zip(memories, SHARES, strict=True):
            mean = plus(mean, own, share)
        x = plus(x, minimiser(mean), LR / (1 + number / DECAY))
    equal(trace.x, x)


def error(algorithm) -> float:
    trace = t.run(algorithm, opposed(), rounds=600, every=600)
    return float(np.linalg.norm(trace.x["matrix"] - opposed().rows[1][0] / 2))


@pytest.mark.slow
def test_muon_inside_fedavg_stays_where_clients_cancel_out_and_fedmuon_does_not():
    """The paper's Theorem 1: steps of one length, up and down along A, have the mean 0 wherever the model is between the two."""
    falling = t.schedules.Inverse(20.0)
    plain = t.FedOpt(t.Full(), t.optimisers.Muon(0.02), t.optimisers.Sgd(1.0), steps=3, schedule=falling)
    assert error(plain) == pytest.approx(np.linalg.norm(opposed().rows[1][0]) / 2, rel=1e-6)
    assert error(t.FedMuon(t.Full(), 0.02, 3, alpha=0.5, schedule=falling)) < 0.02


@pytest.mark.longer
def test_ef21_muon_goes_to_the_optimum_with_messages_compressed_as_well():
    falling, codec = t.schedules.Inverse(20.0), t.codecs.TopK(count=2)
    trace = t.run(
        t.Ef21Muon(t.Full(), codec, 0.05, alpha=0.5, schedule=falling), opposed(), rounds=600, every=600,
        exchange=t.Exchange(down=codec, feedback="ef21"),
    )  # fmt: skip
    assert np.linalg.norm(trace.x["matrix"] - opposed().rows[1][0] / 2) < 0.05


@pytest.mark.longer
def test_the_oracle_is_the_orthogonal_factor():
    generator = np.random.default_rng(0)
    for shape in ((3, 3), (2, 5), (5, 2)):
        gradient = generator.normal(size=shape)
        u, _, v = np.linalg.svd(gradient, full_matrices=False)
        inside = -u.T @ np.asarray(lmo(jnp.asarray(gradient), 5)) @ v.T
        np.testing.assert_allclose(inside, np.diag(np.diag(inside)), atol=1e-12)
        assert np.all((np.diag(inside) > 0.5) & (np.diag(inside) < 1.5))
    assert np.all(lmo({"a": jnp.zeros((2, 2)), "b": jnp.zeros(3)}, 5)["a"] == 0)
