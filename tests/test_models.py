"""Networks against PyTorch modules with the same weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import turnout as t
from turnout.models import MODELS

KEY = jax.random.key(0)


def sizes(model: str, shape, classes, **options) -> list[int]:
    """How many parameters each layer has."""
    made = jax.eval_shape(lambda key: MODELS[model](shape, classes, key, **options), KEY)
    layers = jax.tree.leaves(made, is_leaf=lambda node: hasattr(node, "weight") or (isinstance(node, dict) and "bias" in node))
    return [sum(leaf.size for leaf in jax.tree.leaves(layer)) for layer in layers]


def test_parameters_are_as_many_as_the_papers_say():
    assert sizes("femnist-cnn", (28, 28, 1), 62) == [832, 51_264, 819_328, 7_998]
    assert sum(sizes("mcmahan-cnn", (28, 28, 1), 10)) == 1_663_370
    assert sizes("perceptron", (28, 28, 1), 10) == [784 * 200 + 200, 200 * 10 + 10]


def femnist_cnn(shape, classes):
    flat = 64 * ((shape[0] - 8) // 2) * ((shape[1] - 8) // 2)
    return nn.Sequential(
        nn.Conv2d(shape[2], 32, 5), nn.ReLU(), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(flat, 128), nn.ReLU(), nn.Linear(128, classes),
    )  # fmt: skip


def mcmahan_cnn(shape, classes):
    flat = 64 * (shape[0] // 4) * (shape[1] // 4)
    return nn.Sequential(
        nn.Conv2d(shape[2], 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(flat, 512), nn.ReLU(), nn.Linear(512, classes),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "shape", "module"),
    [("femnist-cnn", (12, 11, 2), femnist_cnn), ("mcmahan-cnn", (6, 5, 1), mcmahan_cnn)],
)
def test_outputs_and_gradients_are_those_of_pytorch(model, shape, module):
    x, theirs = MODELS[model](shape, 3, KEY), module(shape, 3).double()
    # Layers come in the same order with the same layout on both sides.
    for ours, parameter in zip(jax.tree.leaves(x), theirs.parameters(), strict=True):
        parameter.data = torch.tensor(np.array(ours))
    generator = np.random.default_rng(1)
    images, slopes = generator.random((4, *shape)), generator.normal(size=(4, 3))
    outputs = theirs(torch.tensor(images).permute(0, 3, 1, 2))
    outputs.backward(torch.tensor(slopes))
    found, pull = jax.vjp(lambda x: x(jnp.asarray(images)), x)
    np.testing.assert_allclose(found, outputs.detach(), atol=1e-12)
    for ours, parameter in zip(jax.tree.leaves(pull(jnp.asarray(slopes))[0]), theirs.parameters(), strict=True):
        np.testing.assert_allclose(ours, parameter.grad, atol=1e-12)


def test_a_perceptron_is_the_network_on_pixels():
    x = MODELS["perceptron"]((3, 2, 1), 4, KEY, hidden=5)
    images = np.random.default_rng(2).random((3, 3, 2, 1))
    layers = jax.tree.map(np.asarray, x.layers)
    inner = np.maximum(images.reshape(3, 6) @ layers["hidden"]["weight"] + layers["hidden"]["bias"], 0)
    np.testing.assert_allclose(x(jnp.asarray(images)), inner @ layers["output"]["weight"] + layers["output"]["bias"], atol=1e-12)


@pytest.mark.parametrize(("model", "side"), [("femnist-cnn", 10), ("mcmahan-cnn", 4)])
def test_images_have_to_be_large_enough(model, side):
    assert sizes(model, (side, side, 1), 2)
    with pytest.raises(
        t.UserError, match=f"model '{model}' takes images of at least {side} x {side} pixels.*{side} x {side - 1}"
    ):
        sizes(model, (side, side - 1, 1), 2)
