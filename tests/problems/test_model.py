"""Models of one's own: what the problem computes is what the library computes, and a run is a loop by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from safetensors import safe_open

import turnout as t
from turnout.core.leaf_names import leaves_by_name
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.problems.model import without_padding
from turnout.problems.modules.frameworks import own_module

ROWS, WIDTH, HIDDEN, CLASSES = 12, 3, 4, 3
GENERATOR = np.random.default_rng(5)
FEATURES, LABELS = GENERATOR.normal(size=(ROWS, WIDTH)), np.arange(ROWS) % CLASSES + 5
SPLIT = Split(np.arange(ROWS), np.array([0, 6, 9, 12]))
KEY = jax.random.key(3)
FIRST, SECOND = GENERATOR.normal(size=(WIDTH, HIDDEN)), GENERATOR.normal(size=(HIDDEN, CLASSES))
"""Weights of the two layers of all libraries' networks."""


@pytest.fixture(autouse=True)
def as_users_compute():
    """Libraries, and modules that users write, promote types and ranks as JAX does by default."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def dataset(features=FEATURES, labels=LABELS):
    return Dataset("made", features, labels)


def problem(module, loss="cross-entropy", data=None, split=SPLIT, **options) -> t.Problem:
    return t.Model.of(module, loss, dataset() if data is None else data, split, **options)


def batch(made, rows=slice(None)):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[rows]), made.rows)


def close(x, y, atol=1e-9):
    x, y = (leaves_by_name(tree) for tree in (x, y))
    assert x.keys() == y.keys()
    for name in x:
        np.testing.assert_allclose(x[name], y[name], atol=atol, rtol=1e-6, err_msg=name)


def by_hand(first, second, features, labels):
    """Losses of two linear layers with tanh between, without biases."""
    outputs = jnp.tanh(features @ first) @ second
    return jax.nn.logsumexp(outputs, axis=1) - outputs[jnp.arange(len(labels)), labels]


class Layers(eqx.Module):
    """Two layers, for one row."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear
    name: str = "layers"

    def __init__(self, key=KEY):
        self.first = eqx.nn.Linear(WIDTH, HIDDEN, use_bias=False, key=jax.random.fold_in(key, 0))
        self.second = eqx.nn.Linear(HIDDEN, CLASSES, use_bias=False, key=jax.random.fold_in(key, 1))

    def __call__(self, row):
        return self.second(jnp.tanh(self.first(row)))


def equinox_layers():
    return Layers(), {"first": {"weight": FIRST.T}, "second": {"weight": SECOND.T}}


def pair_layers():
    def init(key):
        return {"first": jax.random.normal(key, (WIDTH, HIDDEN)), "second": jnp.zeros((HIDDEN, CLASSES))}

    return (init, lambda x, features: jnp.tanh(features @ x["first"]) @ x["second"]), {"first": FIRST, "second": SECOND}


def linen_layers():
    linen = pytest.importorskip("flax.linen", reason="flax is not installed")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, features):
            hidden = jnp.tanh(linen.Dense(HIDDEN, use_bias=False)(features))
            return linen.Dense(CLASSES, use_bias=False)(hidden)

    return Net(), {"params": {"Dense_0": {"kernel": FIRST}, "Dense_1": {"kernel": SECOND}}}


def nnx_layers():
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(WIDTH, HIDDEN, use_bias=False, rngs=rngs)
            self.second = nnx.Linear(HIDDEN, CLASSES, use_bias=False, rngs=rngs)

        def __call__(self, features):
            return self.second(jnp.tanh(self.first(features)))

    return lambda key: Net(nnx.Rngs(key)), {"first": {"kernel": FIRST}, "second": {"kernel": SECOND}}


def haiku_layers():
    hk = pytest.importorskip("haiku", reason="haiku is not installed")

    def net(features):
        return hk.nets.MLP([HIDDEN, CLASSES], with_bias=False, activation=jnp.tanh)(features)

    return hk.transform(net), {"mlp/~/linear_0": {"w": FIRST}, "mlp/~/linear_1": {"w": SECOND}}


LIBRARIES = {
    "equinox": equinox_layers,
    "pair": pair_layers,
    "linen": linen_layers,
    "nnx": nnx_layers,
    "haiku": haiku_layers,
}


@pytest.mark.tiers(quick=[], slow=["equinox"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_losses_and_gradients_are_those_by_hand(library):
    module, x = LIBRARIES[library]()
    made = problem(module, mu=0.1)
    x, rows = jax.tree.map(jnp.asarray, x), batch(made)
    drawn = made.start(KEY)
    assert leaves_by_name(drawn).keys() == leaves_by_name(x).keys() and made.statistics == () and not made.trains_apart
    assert jax.tree.map(jnp.shape, drawn) == jax.tree.map(jnp.shape, x)

    def value(x):
        return jnp.sum(made.losses(x, rows)) + made.regulariser(x)

    def expected(first, second):
        return jnp.sum(by_hand(first, second, *rows)) + 0.05 * (jnp.sum(first**2) + jnp.sum(second**2))

    known, slopes = jax.value_and_grad(expected, (0, 1))(jnp.asarray(FIRST), jnp.asarray(SECOND))
    found, gradient = jax.value_and_grad(value)(x)
    np.testing.assert_allclose(found, known, rtol=1e-6)
    for name, leaf in leaves_by_name(gradient).items():
        slope = slopes[name not in ("first.weight", "first", "params.Dense_0.kernel", "first.kernel", "mlp/~/linear_0.w")]
        np.testing.assert_allclose(leaf, slope.T if library == "equinox" else slope, atol=1e-6)
    predicted = made.predicted(x, rows)
    assert made.correct(x, rows).tolist() == (predicted == rows[1]).tolist() and made.codes.tolist() == [0, 1, 2]


class Normal(eqx.Module):
    """A layer, normalised by batches, dropout and a layer."""

    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __init__(self, key):
        self.first = eqx.nn.Linear(WIDTH, HIDDEN, key=key)
        self.norm = eqx.nn.BatchNorm(HIDDEN, "batch", mode="batch")
        self.dropout = eqx.nn.Dropout(0.5)
        self.last = eqx.nn.Linear(HIDDEN, CLASSES, key=key)

    def __call__(self, row, state, *, key=None):
        hidden, state = self.norm(self.first(row), state)
        return self.last(self.dropout(hidden, key=key)), state


def equinox_norm():
    make = eqx.nn.make_with_state(Normal)

    def pass_of(module, features, key):
        net, state = module
        net = eqx.nn.inference_mode(net, key is None)
        keys = jax.random.split(KEY if key is None else key, len(features))
        call = jax.vmap(lambda row, key, state: net(row, state, key=key), (0, 0, None), (0, None), "batch")
        return call(features, keys, jax.tree.map(lambda leaf: leaf, state))

    def statistics(module, state):
        counter, (mean, variance) = state.get(module[0].norm.batch_counter), state.get(module[0].norm.batch_state_index)
        index = "norm.batch_state_index"
        return {"norm.batch_counter": counter, f"{index}.0": mean, f"{index}.1": variance}

    return make, pass_of, statistics


def linen_norm():
    linen = pytest.importorskip("flax.linen", reason="flax is not installed")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, features, train: bool):
            hidden = linen.BatchNorm(use_running_average=not train)(linen.Dense(HIDDEN)(features))
            return linen.Dense(CLASSES)(linen.Dropout(0.5, deterministic=not train)(hidden))

    def pass_of(variables, features, key):
        if key is None:
            return Net().apply(variables, features, train=False), variables
        return Net().apply(variables, features, train=True, mutable=["batch_stats"], rngs={"dropout": key})

    return Net(), pass_of, lambda _, moved: leaves_by_name({"batch_stats": moved["batch_stats"]})


def nnx_norm():
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.layers = nnx.List([nnx.Linear(WIDTH, HIDDEN, rngs=rngs), nnx.Linear(HIDDEN, CLASSES, rngs=rngs)])
            self.norm, self.dropout = nnx.BatchNorm(HIDDEN, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, features):
            return self.layers[1](self.dropout(self.norm(self.layers[0](features))))

    def pass_of(module, features, key):
        module.eval() if key is None else module.train()
        if key is not None:
            module.dropout.rngs.key[...] = jax.random.fold_in(key, 1)
            module.dropout.rngs.count[...] = jnp.zeros((), jnp.uint32)
        return module(features), module

    def statistics(_, module):
        return {"norm.mean": module.norm.mean[...], "norm.var": module.norm.var[...]}

    return Net(nnx.Rngs(KEY)), pass_of, statistics


def haiku_norm():
    hk = pytest.importorskip("haiku", reason="haiku is not installed")

    def net(features, is_training):
        hidden = hk.BatchNorm(True, True, 0.9)(hk.Linear(HIDDEN)(features), is_training)
        return hk.Linear(CLASSES)(hk.dropout(hk.next_rng_key(), 0.5, hidden) if is_training else hidden)

    pair = hk.transform_with_state(net)

    def pass_of(module, features, key):
        return pair.apply(*module, key, features, is_training=key is not None)

    return pair, pass_of, lambda _, state: leaves_by_name({"state": state})


NORMALISED = {"equinox": equinox_norm, "linen": linen_norm, "nnx": nnx_norm, "haiku": haiku_norm}


@pytest.mark.tiers(quick=[], slow=["equinox"])
@pytest.mark.parametrize("library", NORMALISED)
def test_training_is_the_librarys_own_pass_and_evaluation_too(library):
    module, pass_of, statistics = NORMALISED[library]()
    made = problem(module, mu=1.0)
    x, rows = made.start(KEY), batch(made)
    counted = jnp.ones(ROWS, bool)
    names = leaves_by_name(x)
    assert made.trains_apart and {*made.statistics} < {*names}
    assert {leaf.dtype.name for leaf in names.values()} <= {"float32", "float64"}
    if library == "nnx":
        # Which of its streams has which number is not the user's to know.
        number = [path[0] for path in own_module(module, "nnx", (WIDTH,)).random].index("dropout")
        assert number == 0
    key = jax.random.fold_in(KEY, 7)
    losses, moved = jax.jit(made.training)(x, rows, counted, key)
    outputs, state = pass_of(made.whole(x), rows[0].astype(jax.tree.leaves(x)[0].dtype), key)
    close(moved, statistics(made.whole(x), state), 1e-6)
    assert {*moved} == {*made.statistics}
    expected = -jax.nn.log_softmax(outputs)[jnp.arange(ROWS), rows[1]]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    # The statistics after a pass are those of the next one, and of evaluation.
    after = jax.tree_util.tree_unflatten(jax.tree.structure(x), [moved.get(name, leaf) for name, leaf in names.items()])
    evaluated, _ = pass_of(made.whole(after), rows[0].astype(outputs.dtype), None)
    np.testing.assert_allclose(made.module.evaluated(after, rows[0].astype(outputs.dtype)), evaluated, rtol=1e-5, atol=1e-6)
    assert made.losses(x, rows).tolist() != made.losses(after, rows).tolist()
    weights = [leaf for name, leaf in names.items() if name not in made.statistics]
    np.testing.assert_allclose(made.regulariser(x), sum(float(jnp.sum(leaf**2)) for leaf in weights) / 2, rtol=1e-5)


@pytest.mark.tiers(quick=[], slow=["equinox", "linen"])
@pytest.mark.parametrize("library", NORMALISED)
def test_metrics_of_a_run_are_those_of_the_module_that_it_delivers(library):
    """With statistics that the server averages and dropout, in engines that agree."""
    module, pass_of, _ = NORMALISED[library]()
    made = problem(module)
    algorithm = t.FedAvg(t.Nice(2), lr=0.1, batch=2, epochs=2)
    one, other = (t.run(algorithm, made, rounds=3, engine=engine, precision="double") for engine in ("compiled", "nodes"))
    close(one.x, other.x)
    features, labels = batch(made)
    outputs, _ = pass_of(made.whole(one.x), features.astype(float), None)
    losses = -jax.nn.log_softmax(outputs)[jnp.arange(ROWS), labels]
    parts = [slice(*pair) for pair in zip(made.offsets, made.offsets[1:], strict=False)]
    np.testing.assert_allclose(one.metrics["value"], np.mean([losses[part].mean() for part in parts]), rtol=1e-6)
    right = np.asarray(np.argmax(outputs, 1) == labels)
    np.testing.assert_allclose(one.metrics["accuracy"], np.mean([right[part].mean() for part in parts]), rtol=1e-12)
    assert any(leaf.any() for name, leaf in leaves_by_name(one.x).items() if name in made.statistics)


class Dropped(eqx.Module):
    """Dropout of the features, and a linear layer."""

    dropout: eqx.nn.Dropout
    layer: eqx.nn.Linear

    def __init__(self, key):
        self.dropout, self.layer = eqx.nn.Dropout(0.5), eqx.nn.Linear(WIDTH, 1, key=key)

    def __call__(self, row, key):
        return self.layer(self.dropout(row, key=key))


def output_itself(outputs, labels):
    return outputs[:, 0]


@pytest.mark.longer
def test_dropout_draws_in_training_only_and_keeps_the_mean():
    made = problem(Dropped, output_itself)
    x, rows, counted = made.start(KEY), batch(made), jnp.ones(ROWS, bool)
    assert made.trains_apart and made.statistics == () and not made.classifies
    evaluated = made.losses(x, rows)
    np.testing.assert_array_equal(evaluated, made.losses(x, rows))
    np.testing.assert_allclose(evaluated, (rows[0] @ x["layer"]["weight"].T)[:, 0] + x["layer"]["bias"], rtol=1e-5)
    draws = jax.jit(jax.vmap(lambda key: made.training(x, rows, counted, key)[0]))(jax.random.split(KEY, 4000))
    assert not np.array_equal(draws[0], draws[1]) and not np.array_equal(draws[0], evaluated)
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(np.mean(draws, axis=0) - evaluated) < 5 * error)
    again, moved = made.training(x, rows, counted, jax.random.split(KEY, 4000)[0])
    np.testing.assert_allclose(again, draws[0], rtol=1e-5)
    assert moved == {}


@pytest.mark.slow
def test_padding_changes_no_loss_and_is_replaced_where_rows_are_normalised_together():
    made = problem(Dropped, output_itself)
    x, rows, counted = made.start(KEY), batch(made), jnp.arange(ROWS) < 5
    padded = jax.tree.map(lambda leaf: leaf.at[5:].set(0), rows)
    losses = [made.training(x, each, counted, KEY)[0][:5] for each in (rows, padded)]
    np.testing.assert_array_equal(*losses)
    normal = problem(eqx.nn.make_with_state(Normal))
    x, rows = normal.start(KEY), batch(normal)
    padded = jax.tree.map(lambda leaf: leaf.at[5:].set(0), rows)
    turns = jnp.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1])
    expected = normal.training(x, jax.tree.map(lambda leaf: leaf[turns], rows), jnp.ones(ROWS, bool), KEY)
    close(normal.training(x, padded, counted, KEY)[1], expected[1])
    np.testing.assert_allclose(normal.training(x, padded, counted, KEY)[0], expected[0], rtol=1e-5)


@pytest.mark.parametrize("counted", ([1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1], [1, 1, 1, 0], [0, 0, 0, 0]))
def test_rows_that_replace_padding_are_counted_and_take_turns(counted):
    numbers = np.asarray(without_padding(jnp.asarray(counted, bool)))
    inside = np.flatnonzero(counted)
    if inside.size:
        assert numbers[inside].tolist() == inside.tolist() and {*numbers} <= {*inside}
        extra = np.bincount(numbers, minlength=len(counted))[inside]
        assert extra.max() - extra.min() <= 1


@pytest.mark.slow
def test_federated_averaging_is_a_loop_by_hand():
    made = problem(Layers, weights=np.array([1, 2, 3]))
    algorithm = t.FedAvg(t.Full(), lr=0.4, steps=3)
    trace = t.run(algorithm, made, rounds=3, seed=1, precision="double", metrics=("value", "accuracy"))
    with jax.enable_x64(True):
        start = made.start(jax.random.key(0))
        x = jax.tree.map(jnp.asarray, t.run(algorithm, made, rounds=0, seed=1, precision="double", metrics=("value",)).x)
    assert jax.tree.map(jnp.shape, x) == jax.tree.map(jnp.shape, start)
    slope = jax.grad(lambda x, rows: jnp.mean(by_hand(x["first"]["weight"].T, x["second"]["weight"].T, *rows)))
    for _ in range(3):
        ends = []
        for first, last in zip(made.offsets, made.offsets[1:], strict=False):
            y = x
            for _ in range(3):
                y = jax.tree.map(lambda a, g: a - 0.4 * g, y, slope(y, batch(made, slice(first, last))))
            ends.append(y)
        x = jax.tree.map(lambda *parts: sum(w * part for w, part in zip((1 / 6, 2 / 6, 3 / 6), parts, strict=True)), *ends)
    close(trace.x, x)
    losses = by_hand(x["first"]["weight"].T, x["second"]["weight"].T, *batch(made))
    np.testing.assert_allclose(trace.columns["value"][-1], losses @ made.row_share, rtol=1e-9)
    np.testing.assert_allclose(trace.columns["accuracy"][-1], made.correct(x, batch(made)) @ made.row_share, rtol=1e-9)


@pytest.mark.slow
def test_cells_of_a_sweep_and_devices_of_a_mesh_give_the_single_run():
    algorithm, options = t.FedAvg(t.Nice(2), lr=0.3, steps=2), {"rounds": 2, "metrics": ("value",)}
    for module in (Layers, Layers()):
        made = problem(module)
        cells = t.sweep(algorithm, made, {"lr": [0.1, 0.3]}, seeds=[4], **options)
        single = t.run(algorithm, made, seed=4, **options)
        close(cells.traces[1].x, single.x, 1e-6)
        close(t.run(algorithm, made, seed=4, mesh=2, **options).x, single.x, 1e-6)


def torch_layers() -> torch.nn.Module:
    layers = torch.nn.Linear(WIDTH, HIDDEN, bias=False), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, CLASSES, bias=False)
    return torch.nn.Sequential(*layers).double()


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["cross-entropy", "own"])
def test_clients_in_pytorch_are_those_in_jax(loss):
    def own(library):
        return loss if loss != "own" else (lambda outputs, labels: library.tanh(outputs).sum(1))

    module, algorithm = torch_layers(), t.FedAvg(t.Nice(2), lr=0.3, batch=2, epochs=2)
    metrics = ("value", "accuracy") if loss != "own" else ("value",)
    there = problem(lambda: module, own(torch), mu=0.1)
    start = t.parameters_of(module)
    layers = eqx.tree_at(lambda net: (net.first.weight, net.second.weight), Layers(), (*map(jnp.asarray, start.values()),))
    here = problem(layers, own(jnp), mu=0.1)
    options = {"rounds": 3, "seed": 2, "precision": "double", "metrics": metrics}
    jax_run, torch_run = t.run(algorithm, here, **options), t.run(algorithm, there, engine="nodes", **options)
    for one, other in zip(leaves_by_name(jax_run.x).values(), torch_run.x.values(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    for name in metrics:
        np.testing.assert_allclose(jax_run.columns[name], torch_run.columns[name], rtol=1e-12)
    assert there.classifies == here.classifies == (loss != "own")


def test_numbers_are_fitted_by_squared_errors():
    targets = GENERATOR.normal(size=ROWS)
    made = problem(eqx.nn.Linear(WIDTH, 1, key=KEY), "squared error", dataset(labels=targets))
    x = {"weight": jnp.ones((1, WIDTH)), "bias": jnp.zeros(1)}
    np.testing.assert_allclose(made.losses(x, batch(made)), (FEATURES.sum(1) - targets) ** 2, rtol=1e-9)
    assert not made.classifies and made.codes.size == 0
    with pytest.raises(t.UserError, match="does not classify"):
        made.correct(x, batch(made))
    module = torch.nn.Linear(WIDTH, 1)
    with torch.no_grad():
        module.weight.fill_(1)
        module.bias.fill_(0)
    there = problem(module, "squared error", dataset(labels=targets))
    value = there.client(1).value(t.parameters_of(module), slice(None))
    np.testing.assert_allclose(value, np.mean((FEATURES[6:9].sum(1) - targets[6:9]) ** 2), rtol=1e-5)


@pytest.mark.longer
def test_images_keep_their_shape_and_bytes_are_numbers_up_to_one():
    images = GENERATOR.integers(256, size=(ROWS, 2, 2, 3), dtype=np.uint8)
    shapes = []

    def apply(x, features):
        shapes.append(features.shape)
        return features.reshape(len(features), -1) @ x

    made = problem((lambda key: jnp.ones((12, CLASSES)), apply), data=dataset(images))
    x = made.start(KEY)
    outputs = made.module.evaluated(x, jnp.asarray(images, jnp.float32) / 255)
    expected = -jax.nn.log_softmax(outputs)[jnp.arange(ROWS), made.rows[1]]
    np.testing.assert_allclose(made.losses(x, batch(made)), expected, rtol=1e-6)
    assert made.rows[0].dtype == np.uint8 and {shape[1:] for shape in shapes} == {(2, 2, 3)}


@pytest.mark.longer
def test_labels_of_test_rows_are_those_of_training_and_a_class_beyond_is_none():
    made = problem(Layers(), data=dataset())
    test = problem(Layers(), data=dataset(labels=np.where(LABELS == 5, 7, LABELS)), split=Split.of([np.arange(ROWS)], ROWS))
    assert (test.classes, made.classes) == (2, 3)
    trace = t.run(t.FedAvg(t.Full(), lr=0.1), made, rounds=1, test=test, precision="double", metrics=("test_accuracy",))
    truth = np.where(LABELS == 5, 7, LABELS) - 5
    assert trace.columns["test_accuracy"][-1] == np.mean(np.asarray(made.predicted(trace.x, batch(made))) == truth)
    places = jnp.argmax(made.module.evaluated(made.start(KEY), batch(made)[0].astype("float32")), axis=1)
    assert test.predicted(made.start(KEY), batch(made)).tolist() == jnp.where(places < 2, places, -1).tolist()


@pytest.mark.longer
def test_equal_modules_are_one_program_and_drawn_ones_follow_the_key():
    one, two, other = problem(Layers()), problem(Layers(jax.random.key(9))), problem(eqx.nn.MLP(WIDTH, CLASSES, 2, 1, key=KEY))
    assert one.module == two.module and hash(one.module) == hash(two.module) and one.module != other.module
    assert jax.tree.structure(one.without_clients()) == jax.tree.structure(two.without_clients())
    drawn = problem(Layers)
    close(drawn.start(jax.random.key(9)), two.start(KEY))
    assert not np.array_equal(drawn.start(KEY)["first"]["weight"], two.start(KEY)["first"]["weight"])
    assert one.activation_bytes == 8 * (HIDDEN + CLASSES)


@pytest.mark.longer
def test_a_file_of_a_model_has_the_librarys_names_and_the_module_comes_back(tmp_path):
    made = problem(Layers)
    trace = t.run(t.FedAvg(t.Full(), lr=0.1), made, rounds=1, metrics=("value",))
    trace.save_model(tmp_path / "model.safetensors")
    with safe_open(tmp_path / "model.safetensors", "numpy") as file:
        assert sorted(file.keys()) == ["first.weight", "second.weight"]
    close(t.load_model(tmp_path / "model.safetensors", like=made.start(KEY)), trace.x)
    module = made.whole(trace.x)
    assert isinstance(module, Layers) and module.name == "layers"
    np.testing.assert_allclose(
        jax.vmap(module)(jnp.asarray(FEATURES, "float32")), made.module.evaluated(trace.x, jnp.asarray(FEATURES, "float32"))
    )
