"""Networks as problems: batches, engines, what memory and bad input do to them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import turnout as t
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.samplers.permutation import shuffled
from turnout.seeds import Seeds

SIDE, CLASSES = 5, 3


def dataset(rows=24, side=SIDE):
    generator = np.random.default_rng(4)
    return Dataset("made", generator.integers(256, size=(rows, side**2)) / 255, generator.integers(CLASSES, size=rows) + 7)


def problem(model="mcmahan-cnn", sizes=(9, 2, 5), **options) -> t.Neural:
    split = Split(np.arange(sum(sizes)), np.cumsum([0, *sizes]))
    return t.Neural.of(dataset(sum(sizes)), split, model, mu=0.1, classes=None, **options)


@cache
def small() -> t.Neural:
    return problem("perceptron", hidden=4)


def leaves(x):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(x)]


def close(x, y, atol=1e-12):
    for a, b in zip(leaves(x), leaves(y), strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


def perceptron_module():
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, 4), nn.ReLU(), nn.Linear(4, CLASSES)).double()


def mcmahan_module():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, CLASSES),
    ).double()  # fmt: skip


def batches(key, rows, size):
    """The rows of one pass, batch by batch."""
    order = np.asarray(shuffled(jax.random.fold_in(key, 0), jnp.asarray(rows, "int32"))(jnp.arange(rows, dtype="int32")))
    return [torch.tensor(order[k : k + size]) for k in range(0, rows, size)]


def bare_loop(made, rounds, lr, size):
    """Federated averaging of everyone in PyTorch, client by client, from the same weights with the same batches."""
    module = mcmahan_module()
    images, labels = (torch.tensor(a) for a in made.rows)
    images = (images.double() / 255).reshape(-1, 1, SIDE, SIDE)
    x = [torch.tensor(leaf) for leaf in leaves(made.start(jax.random.key(0)))]
    for number in range(1, rounds + 1):
        ends = []
        for i, (first, last) in enumerate(zip(made.offsets, made.offsets[1:], strict=False)):
            for parameter, leaf in zip(module.parameters(), x, strict=True):
                parameter.data = leaf.clone()
            optimizer = torch.optim.SGD(module.parameters(), lr=lr, weight_decay=0.1)
            for numbers in batches(jax.random.fold_in(Seeds.of(0).exchange(number, 0), i), last - first, size):
                optimizer.zero_grad()
                outputs = module(images[first:last][numbers])
                nn.functional.cross_entropy(outputs, labels[first:last][numbers].long()).backward()
                optimizer.step()
            ends.append([parameter.detach().clone() for parameter in module.parameters()])
        x = [torch.stack(parts).mean(0) for parts in zip(*ends, strict=True)]
    return x


@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_federated_averaging_is_that_of_a_pytorch_loop(engine):
    made, algorithm = problem(sizes=(5, 2, 4)), t.FedAvg(t.Full(), lr=0.3, batch=2, epochs=1)
    trace = t.run(algorithm, made, rounds=3, engine=engine, precision="double", metrics=("value",))
    assert trace.columns["value"][-1] < trace.columns["value"][0]
    close(trace.x, bare_loop(made, 3, 0.3, 2))


def test_a_run_is_in_single_precision_unless_told_otherwise():
    algorithm = t.FedAvg(t.Nice(2), lr=0.1, steps=1)
    single, double = (t.run(algorithm, small(), rounds=1, precision=precision).x for precision in (None, "double"))
    assert {leaf.dtype.name for leaf in leaves(single)} == {"float32"}
    assert {leaf.dtype.name for leaf in leaves(double)} == {"float64"}
    close(single, double, atol=1e-6)
