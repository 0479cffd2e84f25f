"""What multinomial regression and the network share, and both without intercepts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array

import turnout as t
from turnout.data.dataset import Dataset
from turnout.data.splits import ContiguousSplit
from turnout.experiment.problem_specs import MultinomialSpec, NetworkSpec
from turnout.problems.optimum import solve

ROWS, WIDTH = 40, 5


def dataset(labels=3):
    """Rows whose last feature is always zero."""
    generator = np.random.default_rng(2)
    features = generator.normal(size=(ROWS, WIDTH)) * (np.arange(WIDTH) < WIDTH - 1)
    return Dataset("made", features, generator.integers(labels, size=ROWS) * 2 - 1)


def multinomial(labels=3, **options):
    data = dataset(labels)
    return t.Multinomial.of(data, ContiguousSplit(4).split(data), mu=0.1, **options)


def network(**options):
    data = dataset()
    return t.Network.of(data, ContiguousSplit(4).split(data), hidden=6, mu=0.1, **options)


def cross_entropy(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]


@pytest.mark.tiers(quick=["False-relu"], longer=["False-tanh"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_networks_losses_are_those_of_numpy(activation, intercept):
    made = network(activation=activation, intercept=intercept)
    x = jax.tree.map(lambda leaf: leaf + 0.3, made.start(jax.random.key(1)))
    assert sum(leaf.size for leaf in jax.tree.leaves(x)) == WIDTH * 6 + 6 * 3 + (6 + 3 if intercept else 0)
    features, labels = made.rows
    hidden, output = (jax.tree.map(np.asarray, x[layer]) for layer in ("hidden", "output"))
    inner = features @ hidden["weight"] + hidden.get("bias", 0)
    outer = (np.tanh(inner) if activation == "tanh" else np.maximum(inner, 0)) @ output["weight"] + output.get("bias", 0)
    rows = jax.tree.map(jnp.asarray, made.rows)
    np.testing.assert_allclose(made.losses(x, rows), cross_entropy(outer, labels), rtol=1e-12)
    np.testing.assert_array_equal(made.correct(x, rows), np.argmax(outer, axis=1) == labels)
    squares = sum(float(np.sum(np.asarray(leaf) ** 2)) for leaf in jax.tree.leaves(x))
    assert float(made.regulariser(x)) == pytest.approx(0.05 * squares)


def test_without_an_intercept_only_weights_are_left():
    made = multinomial(intercept=False, initial="uniform")
    x = made.start(jax.random.key(0))
    assert {name: leaf.shape for name, leaf in x.items()} == {"weight": (WIDTH, 3)}
    rows = jax.tree.map(jnp.asarray, made.rows)
    expected = cross_entropy(made.rows[0] @ np.asarray(x["weight"]), made.rows[1])
    np.testing.assert_allclose(made.losses(x, rows), expected, rtol=1e-12)
    for features, smoothness in zip(np.split(made.rows[0], 4), made.constants().smoothness, strict=True):
        assert smoothness == pytest.approx(np.linalg.norm(features, 2) ** 2 / (2 * len(features)) + 0.1)


@pytest.mark.longer
def test_a_feature_that_is_always_zero_has_no_weight_and_changes_nothing():
    """So that MNIST is the same problem with 784 columns and with 780."""
    data = dataset()
    narrow = Dataset("narrow", data.features[:, :-1], data.labels)
    wide, cut = (solve(t.Multinomial.of(d, ContiguousSplit(4).split(d), mu=0.1, intercept=False)) for d in (data, narrow))
    assert not np.any(wide.x["weight"][-1])
    np.testing.assert_allclose(wide.x["weight"][:-1], cut.x["weight"], atol=1e-12)
    assert wide.value == pytest.approx(cut.value, abs=1e-14)


@pytest.mark.longer
def test_two_classes_are_logistic_regression_of_the_difference():
    """The two columns are opposite, w_1 = -w_0, and (mu/2)(|w_0|^2 + |w_1|^2) is (mu/4) |w_1 - w_0|^2."""
    data = dataset(2)
    split = ContiguousSplit(4).split(data)
    both = solve(t.Multinomial.of(data, split, mu=0.1, intercept=False))
    one = solve(t.Logistic.of(data, split, mu=0.05))
    np.testing.assert_allclose(both.x["weight"][:, 1] - both.x["weight"][:, 0], one.x, atol=1e-10)
    assert both.value == pytest.approx(one.value, abs=1e-12)


def test_configurations_reach_the_options():
    data = dataset()
    split = ContiguousSplit(4).split(data)
    built = NetworkSpec(data="made", activation="relu", intercept=False, hidden=7).build(data, split)
    assert isinstance(built, t.Network) and (built.activation, built.intercept, built.hidden) == ("relu", False, 7)
    linear = MultinomialSpec(data="made", intercept=False).build(data, split)
    assert isinstance(linear, t.Multinomial) and not linear.intercept


def test_an_unknown_activation_is_one_sentence():
    with pytest.raises(t.UserError, match="unknown activation 'rely': did you mean 'relu'"):
        network(activation="rely")


@pytest.mark.parametrize(
    "build",
    [
        lambda data, split: t.Multinomial.of(data, split),
        lambda data, split: t.Network.of(data, split),
        lambda data, split: t.Logistic.of(data, split, mu=0.1),
        lambda data, split: t.Ridge.of(data, split, mu=0.1),
    ],
)
def test_problems_with_flat_rows_take_images_as_their_pixels_from_0_to_1(build):
    generator = np.random.default_rng(0)
    data = Dataset("pictures", generator.integers(256, size=(12, 3, 2)).astype(np.uint8), np.arange(12) % 2)
    split = ContiguousSplit(3).split(data)
    pictures, rows = build(data, split), build(data.flat(), split)
    assert np.array_equal(np.asarray(pictures.rows[0]), np.asarray(rows.rows[0])) and pictures.rows[0].shape == (12, 6)


def test_classes_are_names_or_whole_numbers():
    data = Dataset("odd", np.eye(3), np.array([0.5, 1, 2]))
    with pytest.raises(t.UserError, match=r"odd has the label 0.5, but classes are names or whole numbers"):
        t.Multinomial.of(data, ContiguousSplit(3).split(data))
    data = Dataset("named", np.eye(3), np.array(["b", "a", "b"]))
    problem = t.Multinomial.of(data, ContiguousSplit(3).split(data))
    assert problem.schema.labels == ("a", "b") and problem.rows[1].tolist() == [1, 0, 1]
    with pytest.raises(t.UserError, match="a label is 'b': take a problem of classification"):
        t.Ridge.of(data, ContiguousSplit(3).split(data), mu=0.1)


def test_images_are_tested_with_images_of_their_shape_or_with_rows_of_their_width():
    generator = np.random.default_rng(0)
    pictures = generator.integers(256, size=(12, 3, 2)).astype(np.uint8)
    trained = Dataset("trained", pictures, np.arange(12) % 3)
    spec = MultinomialSpec(data="trained")
    for held in (trained, trained.flat(), Dataset("held", csr_array(trained.flat().features), trained.labels)):
        assert np.array_equal(spec.to_test(held, trained).rows[0], trained.flat().features)
    with pytest.raises(t.UserError, match="held has images of 2 x 3 and trained of 3 x 2"):
        spec.to_test(Dataset("held", pictures.reshape(12, 2, 3), trained.labels), trained)
