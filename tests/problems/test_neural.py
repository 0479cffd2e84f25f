"""Networks as problems: batches, engines, what memory and bad input do to them."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import nn

import turnout as t
from tests.problems.test_models import ResidualBlock
from turnout.core.leaf_names import leaves_by_name
from turnout.core.permutation import shuffled
from turnout.core.seeds import Seeds
from turnout.data.dataset import Dataset
from turnout.data.splits import IidSplit, Split
from turnout.engines.metrics import accuracy
from turnout.experiment.build import build
from turnout.experiment.config import read
from turnout.problems import activations, neural
from turnout.problems.grouped import Grouped
from turnout.problems.models import MODELS, Residual
from turnout.problems.row_sums import Point
from turnout.problems.storage import jax_client as engine
from turnout.problems.storage.jax_client import JaxClient
from turnout.problems.storage.layout import Padded, Ragged, total
from turnout.problems.storage.store import store

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


@pytest.mark.slow
def test_federated_averaging_is_that_of_a_pytorch_loop():
    made, algorithm = problem(sizes=(5, 2, 4)), t.FedAvg(t.Full(), lr=0.3, batch=2, epochs=1)
    trace = t.run(algorithm, made, rounds=3, precision="double", metrics=("value",))
    assert trace.columns["value"][-1] < trace.columns["value"][0]
    close(trace.x, bare_loop(made, 3, 0.3, 2))


@pytest.mark.slow
def test_a_run_is_in_single_precision_unless_told_otherwise():
    x = t.run(t.FedAvg(t.Nice(2), lr=0.1, steps=1), small(), rounds=1, metrics=("value",)).x
    assert {leaf.dtype.name for leaf in leaves(x)} == {"float32"}


def oracles(storage, x, v):
    """The value, gradient and Hessian times v of every client's f_i at x, and f, its gradient and the accuracy."""

    def one(i):
        client = JaxClient(i, None, None, storage.oracle(i))
        return client.value(x), client.value_and_grad(x), None if v is None else client.hvp(x, v)

    everyone = jax.vmap(one)(jnp.arange(storage.problem.clients, dtype="int32"))
    return everyone, total(storage, "value", x), total(storage, "value_and_grad", x), accuracy(storage, x)


@pytest.mark.tiers(quick=[], longer=["blocks"])
@pytest.mark.parametrize("sizes", [(6, 4, 5), (12, 1, 1, 2)], ids=["blocks", "tiles"])
def test_passing_over_rows_in_parts_changes_nothing(sizes, monkeypatch):
    made = problem("perceptron", sizes, hidden=4)
    assert isinstance(store(made), Padded if len(sizes) == 3 else Ragged)
    x = made.start(jax.random.key(0))
    whole = jax.jit(oracles)(store(made), x, x)
    monkeypatch.setattr(activations, "WORK", 3 * made.activation_bytes)
    assert made.rows_at_once == 3
    close(jax.jit(oracles)(store(made), x, x), whole)


@pytest.fixture
def mixing(monkeypatch):
    """Problems of a network of one residual block with batch normalisation, whose statistics are of four rows at most."""
    monkeypatch.setattr(neural, "GROUP", 4)
    monkeypatch.setitem(MODELS, "one-block", partial(Residual, widths=(16,), blocks=1, norm="batch"))
    return partial(problem, "one-block")


def mixing_module():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), ResidualBlock(16, 16, 1, nn.BatchNorm2d),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES),
    ).double()  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes", [pytest.param((3, 4, 5), id="blocks", marks=pytest.mark.slow), pytest.param((10, 1, 2, 3), id="tiles")]
)
def test_statistics_are_of_one_clients_rows_and_of_nothing_that_fills_up(sizes, mixing):
    """Of at most four rows of a client at a time, in their order, as PyTorch's are of a batch in training.

    The running ones after a pass over all rows are the mean of those after each part, weighted by its rows.
    """
    made = Grouped.of(replace(mixing(sizes), mu=0.0))
    assert isinstance(store(made), Padded if len(sizes) == 3 else Ragged)
    x, others = made.split(made.inner.start(jax.random.key(0)))
    images, labels = torch.tensor(made.rows[0] / 255).reshape(-1, 1, SIDE, SIDE), torch.tensor(made.rows[1]).long()

    def each(storage):
        def one(i):
            return storage.oracle(i)("training", Point(x, others, jax.random.key(0)))

        return jax.vmap(one)(jnp.arange(made.clients))

    (values, moved), gradients = jax.jit(each)(store(made))
    for i, (first, last) in enumerate(zip(made.offsets, made.offsets[1:], strict=False)):
        outputs, running = [], []
        for k in range(first, last, 4):
            module = loaded(x)
            outputs.append(module(images[k : min(k + 4, last)]))
            running.append((len(outputs[-1]) / (last - first), dict(module.named_buffers())))
            module.zero_grad()
        value = nn.functional.cross_entropy(torch.cat(outputs), labels[first:last])
        np.testing.assert_allclose(values[i], float(value.detach()), rtol=1e-12)
        names = [name for name in running[0][1] if "running" in name]
        for ours, name in zip(made.groups.moved, names, strict=True):
            theirs = sum(share * buffers[name].numpy() for share, buffers in running)
            np.testing.assert_allclose(moved[ours][i], theirs, atol=1e-12)
        module = loaded(x)
        outputs = torch.cat([module(images[k : min(k + 4, last)]) for k in range(first, last, 4)])
        nn.functional.cross_entropy(outputs, labels[first:last]).backward()
        for name, parameter in zip(x, module.parameters(), strict=True):
            np.testing.assert_allclose(gradients[name][i], parameter.grad, atol=1e-10)


def loaded(x):
    """The module with the parameters x."""
    module = mixing_module()
    for parameter, leaf in zip(module.parameters(), x.values(), strict=True):
        parameter.data = torch.tensor(np.asarray(leaf))
    return module


@pytest.mark.slow
def test_metrics_are_those_of_the_loaded_file_in_evaluation_mode(mixing, tmp_path):
    made = mixing((9, 2, 5))
    trace = t.run(t.FedAvg(t.Nice(2), lr=0.1, batch=4, epochs=1), made, rounds=3, precision="double")
    trace.save_model(tmp_path / "model.safetensors")
    x = leaves_by_name(t.load_model(tmp_path / "model.safetensors", trace.x))
    module = loaded({name: leaf for name, leaf in x.items() if "running" not in name})
    running = [leaf for name, leaf in x.items() if "running" in name]
    for leaf, buffer in zip(running, [b for name, b in module.named_buffers() if "running" in name], strict=True):
        buffer.copy_(torch.tensor(np.asarray(leaf)))
    module.eval()
    images, labels = torch.tensor(made.rows[0] / 255).reshape(-1, 1, SIDE, SIDE), torch.tensor(made.rows[1]).long()
    outputs = module(images).detach()
    parts = [slice(*pair) for pair in zip(made.offsets, made.offsets[1:], strict=False)]
    decay = 0.05 * sum(float((parameter.detach() ** 2).sum()) for parameter in module.parameters())
    value = np.mean([float(nn.functional.cross_entropy(outputs[part], labels[part])) for part in parts]) + decay
    share = np.mean([float((outputs[part].argmax(1) == labels[part]).double().mean()) for part in parts])
    np.testing.assert_allclose([trace.metrics["value"], trace.metrics["accuracy"]], [value, share], rtol=1e-10)


@pytest.mark.slow
def test_networks_that_mix_rows_are_the_same_in_separate_nodes(mixing):
    made = mixing((10, 1, 2, 3))
    algorithm = t.FedAvg(t.Nice(2), lr=0.1, batch=2, epochs=1)
    runs = [t.run(algorithm, made, rounds=2, engine=engine, precision="double") for engine in ("compiled", "nodes")]
    close(*(trace.x for trace in runs), atol=1e-10)
    for name in ("value", "accuracy"):
        np.testing.assert_allclose(*(trace.columns[name] for trace in runs), atol=1e-10)


@pytest.mark.slow
def test_places_at_once_make_the_same_run_as_one_after_another(monkeypatch):
    made = problem("perceptron", (9, 2, 5), hidden=4)
    runs = []
    for on_cpu in (True, False):
        monkeypatch.setattr(engine, "on_cpu", lambda on_cpu=on_cpu: on_cpu)
        jax.clear_caches()
        algorithm = t.FedAvg(t.Nice(2), lr=0.1, batch=4, epochs=2)
        runs.append(t.run(algorithm, made, rounds=3, precision="double", metrics=("value",)))
    assert runs[0].frame["queries_total"].to_list() == runs[1].frame["queries_total"].to_list()
    close(runs[0].x, runs[1].x)


@pytest.mark.longer
def test_bytes_are_kept_only_where_nothing_is_lost():
    assert small().rows[0].dtype == np.uint8
    data = dataset()
    split = IidSplit(clients=3).split(data)
    shifted = t.Neural.of(replace(data, features=data.features + 1e-9), split, "perceptron")
    assert shifted.rows[0].dtype == np.float64
    exact, x = t.Neural.of(data, split, "perceptron"), shifted.start(jax.random.key(1))
    np.testing.assert_array_equal(exact.rows[0] / 255, data.features[split.indices])
    close(exact.logits(x, jnp.asarray(exact.rows[0])), shifted.logits(x, jnp.asarray(shifted.rows[0])), atol=1e-6)


@given(st.sampled_from([(2, 3), (3, 2, 1), (1, 2, 3), (6,), (2, 2), (0, 6), (1, 1, 1, 6)]))
@settings(max_examples=7)
def test_shapes_are_those_of_the_rows_or_refused(shape):
    images = np.arange(12.0).reshape(2, 6)
    fits = len(shape) in (2, 3) and np.prod(shape) == 6
    if fits:
        flat, size = neural.flat_images("made", images, shape)
        assert size == (*shape, 1)[:3] and np.array_equal(flat, images)
        assert neural.flat_images("made", images.reshape(2, *shape), None)[1] == size
    else:
        with pytest.raises(t.UserError, match="an image of data set made has 6 numbers.*give shape"):
            neural.flat_images("made", images, shape)


def test_labels_are_numbered_or_taken_as_they_are():
    data = dataset()
    split = IidSplit(clients=3).split(data)
    assert set(t.Neural.of(data, split, "perceptron").rows[1]) == {0, 1, 2}
    made = t.Neural.of(data, split, "perceptron", classes=12)
    np.testing.assert_array_equal(made.rows[1], data.labels[split.indices])
    assert made.start(jax.random.key(0)).layers["output"]["bias"].shape == (12,)
    with pytest.raises(t.UserError, match="has the label 9, which is none of the 9 outputs 0, ..., 8"):
        t.Neural.of(data, split, "perceptron", classes=9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "mcmahan"}, "unknown model 'mcmahan': did you mean 'mcmahan-cnn'"),
        ({"model": "mcmahan-cnn", "hidden": 3}, "model 'mcmahan-cnn' has no hidden: leave it out"),
        ({"model": "residual-6", "norm": "bath"}, "unknown norm 'bath': did you mean 'batch'"),
        ({"model": "femnist-cnn"}, "at least 10 x 10 pixels, but these have 5 x 5"),
    ],
)
def test_what_does_not_fit_a_model_is_one_sentence(options, words):
    with pytest.raises(t.UserError, match=words):
        problem(**options)


def test_sparse_rows_are_no_images():
    data = Dataset("made", sparse.eye_array(24, 400, format="csr"), dataset().labels)
    with pytest.raises(t.UserError, match="data set made is sparse.*take problem kind 'network'"):
        t.Neural.of(data, IidSplit(clients=3).split(data), "perceptron")


@pytest.mark.longer
def test_first_parameters_have_to_be_finite():
    class Broken(t.Neural):
        def start(self, key):
            x = super().start(key)
            return jax.tree.map(lambda leaf: leaf.at[0].set(jnp.nan), x)

    broken = object.__new__(Broken)
    vars(broken).update(vars(small()))
    with pytest.raises(t.UserError, match=r"first parameters.layers\['hidden'\]\['bias'\] hold NaN or infinity"):
        t.run(t.FedAvg(t.Full(), lr=0.1, steps=1), broken, rounds=1)


def test_a_configuration_names_the_model(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        """
        problem = { kind = "neural", data = "digits", model = "mcmahan-cnn", shape = [8, 8], classes = 12 }
        split = { kind = "iid", clients = 5 }
        sampler = { kind = "nice", size = 2 }
        algorithm = { kind = "fedavg", lr = 0.1, batch = 20, epochs = 1 }
        run = { rounds = 1 }
        """
    )
    experiment = read(file)
    assert experiment.run.precision == "single"
    made = build(experiment, None).problem
    assert (made.model, made.shape, made.classes) == ("mcmahan-cnn", (8, 8, 1), 12)
    file.write_text(experiment.to_toml())
    assert read(file) == experiment
