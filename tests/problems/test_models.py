"""Networks against PyTorch modules with the same weights."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import turnout as t
from turnout.core.leaf_names import leaves_by_name
from turnout.problems.models import MODELS, Residual

KEY = jax.random.key(0)


def sizes(model: str, shape, classes, **options) -> list[int]:
    """How many parameters each layer has."""
    made = jax.eval_shape(lambda key: MODELS[model](shape, classes, key, **options), KEY)
    layers = jax.tree.leaves(made, is_leaf=lambda node: hasattr(node, "weight") or (isinstance(node, dict) and "bias" in node))
    return [sum(leaf.size for leaf in jax.tree.leaves(layer)) for layer in layers]


def test_parameters_are_as_many_as_the_papers_say():
    assert sizes("femnist-cnn", (28, 28, 1), 62) == [832, 51_264, 819_328, 7_998]
    assert sum(sizes("mcmahan-cnn", (28, 28, 1), 10)) == 1_663_370
    assert sum(sizes("mcmahan-2nn", (28, 28, 1), 10)) == 199_210
    assert sizes("lenet-5", (28, 28, 1), 10) == [156, 2_416, 30_840, 10_164, 850]
    assert sizes("perceptron", (28, 28, 1), 10) == [784 * 200 + 200, 200 * 10 + 10]
    # He et al., 2016, for 1,000 classes have 11.69 million: a first convolution 7x7 and 990 outputs more.
    assert sum(sizes("resnet-18", (32, 32, 3), 10)) == 11_689_512 - 3 * 64 * (7**2 - 3**2) - 990 * 513
    assert len([layer for layer in sizes("residual-6", (28, 28, 1), 26) if layer > 128]) == 6 + 1


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


def mcmahan_2nn(shape, classes):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(np.prod(shape), 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, classes)
    )


def lenet_5(shape, classes):
    flat = 16 * np.prod([((side - 4) // 2 - 4) // 2 for side in shape[:2]])
    return nn.Sequential(
        nn.Conv2d(shape[2], 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(flat, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes),
    )  # fmt: skip


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride, norm):
        super().__init__()
        self.long = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), norm(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), norm(outputs),
        )  # fmt: skip
        self.short = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, images):
        return torch.relu(self.long(images) + self.short(images))


def residual(shape, classes, norm):
    """Two blocks of 16 channels and two of 32."""
    return nn.Sequential(
        nn.Conv2d(shape[2], 16, 3, 1, 1, bias=False), norm(16), nn.ReLU(),
        ResidualBlock(16, 16, 1, norm), ResidualBlock(16, 16, 1, norm),
        ResidualBlock(16, 32, 2, norm), ResidualBlock(32, 32, 1, norm),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes),
    )  # fmt: skip


def lenet(shape, classes):
    """LeNet with batch normalisation."""
    flat = 32 * (shape[0] // 4) * (shape[1] // 4)
    return nn.Sequential(
        nn.Conv2d(shape[2], 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(flat, 64), nn.ReLU(), nn.Linear(64, classes),
    )  # fmt: skip


CASES = {
    "lenet": ((8, 9, 2), partial(MODELS["lenet"], norm="batch"), lenet),
    "femnist": ((12, 11, 2), MODELS["femnist-cnn"], femnist_cnn),
    "mcmahan": ((6, 5, 1), MODELS["mcmahan-cnn"], mcmahan_cnn),
    "2nn": ((3, 2, 2), MODELS["mcmahan-2nn"], mcmahan_2nn),
    "lenet-5": ((17, 20, 1), MODELS["lenet-5"], lenet_5),
    "group": (
        (5, 6, 3),
        partial(Residual, widths=(16, 32), blocks=2, norm="group"),
        partial(residual, norm=lambda channels: nn.GroupNorm(channels // 16, channels)),
    ),
    "batch": ((5, 6, 3), partial(Residual, widths=(16, 32), blocks=2, norm="batch"), partial(residual, norm=nn.BatchNorm2d)),
}


@pytest.mark.tiers(quick=[], slow=["femnist-cpu", "lenet-5-cpu", "group-accelerator", "batch-cpu"])
@pytest.mark.parametrize("cpu", [True, False], ids=["cpu", "accelerator"])
@pytest.mark.parametrize(("shape", "model", "module"), CASES.values(), ids=CASES)
def test_outputs_and_gradients_are_those_of_pytorch(shape, model, module, cpu, monkeypatch):
    """A fifth image is there to fill a place up: with batch normalisation it has no say, and running statistics move alike."""
    monkeypatch.setattr("turnout.problems.models.layers.on_cpu", lambda: cpu)
    x, theirs = jax.jit(lambda key: model(shape, 3, key))(KEY), module(shape, 3).double()
    generator = np.random.default_rng(1)
    x = jax.tree.map(lambda leaf: leaf + 0.1 * generator.normal(size=leaf.shape), x)
    # Layers come in the same order with the same layout on both sides.
    trained = [leaf for name, leaf in leaves_by_name(x).items() if "running" not in name]
    for ours, parameter in zip(trained, theirs.parameters(), strict=True):
        parameter.data = torch.tensor(np.array(ours))
    running = {name: leaf for name, leaf in leaves_by_name(x).items() if "running" in name}
    means = [(name, buffer) for name, buffer in theirs.named_buffers() if "running" in name]
    for ours, (_, buffer) in zip(running.values(), means, strict=True):
        buffer.copy_(torch.tensor(np.array(ours)))
    images, slopes = generator.random((5, *shape)), generator.normal(size=(4, 3))
    outputs = theirs(torch.tensor(images[:4]).permute(0, 3, 1, 2))
    outputs.backward(torch.tensor(slopes))
    mask = {"counted": jnp.arange(5) < 4} if running else {}

    def trained_outputs(x):
        moved = {}
        result = x(jnp.asarray(images), **mask, **({"moved": moved} if mask else {}))[:4]
        return result, [moved[id(leaf)] for leaf in jax.tree.leaves(x) if id(leaf) in moved]

    result, pull, moved = jax.vjp(jax.jit(trained_outputs), x, has_aux=True)
    np.testing.assert_allclose(result, outputs.detach(), atol=1e-12)
    slopes = leaves_by_name(pull(jnp.asarray(slopes))[0])
    for (name, ours), parameter in zip(
        ((name, slope) for name, slope in slopes.items() if name not in running), theirs.parameters(), strict=True
    ):
        np.testing.assert_allclose(ours, parameter.grad, atol=1e-12, err_msg=name)
    for ours, (_, buffer) in zip(moved, means, strict=True):
        np.testing.assert_allclose(ours, buffer, atol=1e-12)
    theirs.eval()
    if running:
        x = jax.tree.unflatten(jax.tree.structure(x), [*map(jnp.asarray, _with_moved(x, moved))])
    np.testing.assert_allclose(
        jax.jit(lambda x: x(jnp.asarray(images[:4])))(x),
        theirs(torch.tensor(images[:4]).permute(0, 3, 1, 2)).detach(),
        atol=1e-12,
    )


def _with_moved(x, moved):
    """The leaves of a network after a pass in training."""
    moved = iter(moved)
    return [next(moved) if "running" in name else leaf for name, leaf in leaves_by_name(x).items()]


@pytest.mark.longer
def test_a_perceptron_is_the_network_on_pixels():
    x = MODELS["perceptron"]((3, 2, 1), 4, KEY, hidden=5)
    images = np.random.default_rng(2).random((3, 3, 2, 1))
    layers = jax.tree.map(np.asarray, x.layers)
    inner = np.maximum(images.reshape(3, 6) @ layers["hidden"]["weight"] + layers["hidden"]["bias"], 0)
    np.testing.assert_allclose(x(jnp.asarray(images)), inner @ layers["output"]["weight"] + layers["output"]["bias"], atol=1e-12)


@pytest.mark.parametrize(
    ("model", "side"), [("femnist-cnn", 10), ("mcmahan-cnn", 4), ("lenet", 4), ("lenet-5", 16), ("residual-6", 4)]
)
def test_images_have_to_be_large_enough(model, side):
    assert sizes(model, (side, side, 1), 2)
    with pytest.raises(
        t.UserError, match=f"model '{model}' takes images of at least {side} x {side} pixels.*{side} x {side - 1}"
    ):
        sizes(model, (side, side - 1, 1), 2)
