"""Multinomial logistic regression against plain NumPy."""

import jax
import numpy as np
import pytest
from scipy import sparse
from scipy.special import log_softmax, softmax

import turnout as t
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.problems.optimum import solve

SIZES = np.array([4, 30, 1, 9])
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])


def dataset(kept_sparse=False) -> Dataset:
    generator = np.random.default_rng(0)
    stored = generator.random((SIZES.sum(), 5)) < 0.4
    # An empty row would leave its class to rounding.
    stored[:, 0] = True
    features = generator.normal(size=stored.shape) * stored
    labels = np.array([3.0, 5.0, 11.0])[np.arange(SIZES.sum()) % 3]
    return Dataset("made", sparse.csr_array(features) if kept_sparse else features, labels)


def problem(mu=0.2, kept_sparse=False, **options) -> t.Multinomial:
    return t.Multinomial.of(dataset(kept_sparse), Split(np.arange(SIZES.sum()), OFFSETS), mu, **options)


def point(seed=1) -> dict:
    generator = np.random.default_rng(seed)
    return {"weight": generator.normal(size=(5, 3)), "bias": generator.normal(size=3)}


def numpy_value_and_grad(i, x, mu):
    """f_i and its gradient."""
    own = slice(OFFSETS[i], OFFSETS[i + 1])
    features, labels = dataset().features[own], np.arange(SIZES.sum())[own] % 3
    logits = features @ x["weight"] + x["bias"]
    value = -np.mean(log_softmax(logits, axis=1)[np.arange(len(labels)), labels])
    slopes = (softmax(logits, axis=1) - np.eye(3)[labels]) / len(labels)
    gradient = {"weight": features.T @ slopes + mu * x["weight"], "bias": slopes.sum(0) + mu * x["bias"]}
    return value + mu / 2 * sum(np.sum(leaf**2) for leaf in x.values()), gradient


@pytest.mark.tiers(longer=["False"])
@pytest.mark.parametrize("kept_sparse", [False, True])
def test_one_step_of_everyone_is_gradient_descent(kept_sparse):
    made = problem(kept_sparse=kept_sparse, weights=SIZES.astype(float))
    trace = t.run(t.MbGd(t.Full(), lr=0.3), made, rounds=4, metrics=("value", "accuracy"))
    x = {"weight": np.zeros((5, 3)), "bias": np.zeros(3)}
    for k in range(5):
        parts = [numpy_value_and_grad(i, x, 0.2) for i in range(4)]
        value = sum(share * part[0] for share, part in zip(SIZES / SIZES.sum(), parts, strict=True))
        np.testing.assert_allclose(trace.columns["value"][k], value, rtol=1e-12)
        right = np.argmax(dataset().features @ x["weight"] + x["bias"], axis=1) == np.arange(SIZES.sum()) % 3
        np.testing.assert_allclose(trace.columns["accuracy"][k], right.mean(), rtol=1e-12)
        if k < 4:
            for name in x:
                x[name] = x[name] - 0.3 * sum(s * g[name] for s, (_, g) in zip(SIZES / SIZES.sum(), parts, strict=True))
    for name in x:
        np.testing.assert_allclose(trace.x[name], x[name], atol=1e-12)


@pytest.mark.parametrize("kept_sparse", [False, True])
def test_constants_bound_the_curvature(kept_sparse):
    """All eigenvalues of Hessians of f_i lie in [mu_i, L_i], and the bound is that of the definition."""
    constants = problem(kept_sparse=kept_sparse).constants()
    for i in range(4):
        ones = np.hstack([dataset().features[OFFSETS[i] : OFFSETS[i + 1]], np.ones((SIZES[i], 1))])
        np.testing.assert_allclose(constants.smoothness[i], np.linalg.norm(ones, 2) ** 2 / (2 * SIZES[i]) + 0.2, rtol=1e-12)
        for scale in (0.0, 0.3, 3.0):
            p = softmax(scale * ones @ np.vstack([point(i)["weight"], point(i)["bias"]]), axis=1)
            inner = p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]
            hessian = np.einsum("rj,rk,rab->jakb", ones, ones, inner).reshape(18, 18) / SIZES[i] + 0.2 * np.eye(18)
            eigenvalues = np.linalg.eigvalsh(hessian)
            assert eigenvalues[0] >= constants.convexity[i] - 1e-12
            assert eigenvalues[-1] <= constants.smoothness[i] + 1e-12


def test_the_curvature_bound_is_attained_by_two_equally_likely_classes():
    """With logits of 0, 0 and minus infinity the Hessian in the logits has the eigenvalue 1/2."""
    p = np.array([0.5, 0.5, 0.0])
    assert np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1] == pytest.approx(0.5)


@pytest.mark.longer
def test_the_optimum_has_no_gradient():
    made = problem()
    best = solve(made)
    gradients = [numpy_value_and_grad(i, best.x, 0.2)[1] for i in range(4)]
    for name in best.x:
        np.testing.assert_allclose(np.mean([gradient[name] for gradient in gradients], axis=0), 0, atol=1e-9)


def test_it_starts_from_zeros_or_from_uniform_draws():
    key = jax.random.key(3)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(problem().start(key)))
    wide = Dataset("wide", np.ones((40, 400)), np.arange(40) % 20)
    start = t.Multinomial.of(wide, Split(np.arange(40), np.array([0, 40])), initial="uniform").start(key)
    for leaf in jax.tree.leaves(start):
        assert np.all(np.abs(leaf) <= 1 / 20)
    # 8,000 draws: the variance of a uniform law on [-h, h] is h^2 / 3, and the sample's within 4 standard errors.
    assert np.var(start["weight"]) == pytest.approx(1 / 1200, rel=4 * np.sqrt(0.8 / 8000))
    assert np.ptp(start["bias"]) > 1 / 20


def test_an_unknown_start_is_one_sentence():
    with pytest.raises(t.UserError, match="unknown initial 'zeroes': did you mean 'zeros'"):
        problem(initial="zeroes")
